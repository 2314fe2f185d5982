// The proof of a group's answers, in double, while they are in the cache.
//
// The definition, and the order of every sum, is residual.hpp's: the same bits as `verify` gives.
// What is proved is what the caller gets: sorted, unscaled, rounded, and where n is large read back
// from where it was written.
#pragma once

#include "lanes_pack.hpp"

namespace {

using Wide = Vec<double>;

// Some lanes of a register as doubles: all of them, or one half of the floats.
template <class R> KERNELS_INLINE Wide widened(const Vec<R>* p, int half) {
  if constexpr (sizeof(R) == 8) {
    return *p;
  } else {
    typedef float Half __attribute__((vector_size(register_bytes / 2)));
    Half h;
    __builtin_memcpy(&h, reinterpret_cast<const float*>(p) + half * Wide::lanes, sizeof h);
    return Wide(__builtin_convertvector(h, typename Wide::Raw));
  }
}

// N: the size where it is small and known, else 0
template <class E, int N = 0> struct Probe {
  using V = typename Element<E>::V;
  using R = typename V::Real;
  static constexpr bool is_complex = Element<E>::is_complex;
  static constexpr int parts = is_complex ? 2 : 1;
  static constexpr int halves = V::lanes / Wide::lanes;
  static constexpr double eps = sizeof(R) == 8 ? 0x1p-52 : 0x1p-23, quantum = sizeof(R) == 8 ? 0x1p-1074 : 0x1p-149;
  using X = std::conditional_t<is_complex, Pair<Wide>, Wide>;

  const LanesTask& task;
  int size;
  const E* kept;    // lower triangle, row after row, scaled
  const V* z;       // component i of vector k, part q at (i n + k) parts + q
  const V* values;  // in the unit of the input
  V first, second;  // what the matrix was scaled by
  X* work;          // 5 n

  KERNELS_INLINE int count() const { return N > 0 ? N : size; }

  // Residuals of the lanes of one half. With vectors: the probe.
  KERNELS_INLINE Wide pairs(int half) const {
    const int n = count();
    X *x = work, *lx = x + n, *y = lx + n, *u = y + n, *ay = u + n;
    Wide norm = peak(half);
    for (int k = 0; k < n; ++k) {
      const Wide lambda = value(k, half);
      if constexpr (is_complex)
        x[k] = {Wide(task.xr[k]), Wide(task.xi[k])};
      else
        x[k] = Wide(task.xr[k]);
      lx[k] = x[k] * lambda;
      norm = larger(magnitude(lambda), norm);
    }
    int i = 0;
    for (; i + 4 <= n; i += 4) expand<4>(i, half, x, lx, y, u);
    for (; i < n; ++i) expand<1>(i, half, x, lx, y, u);
    multiply(half, y, ay);
    Wide apart(0), skew(0);
    for (i = 0; i < n; ++i) apart = apart + square(ay[i] - u[i]);
    for (i = 0; i + 4 <= n; i += 4) skew = project<4>(i, half, x, y, skew);
    for (; i < n; ++i) skew = project<1>(i, half, x, y, skew);
    return larger_or_lost(units(root(apart), norm, half), root(skew) / Wide(n * eps));
  }

  // Without vectors: sum and sum of squares. (The order is made, not found.)
  KERNELS_INLINE Wide values_alone(int half) const {
    const int n = count();
    Wide norm = peak(half), sum(0), squares(0), trace(0), whole(0);
    for (int k = 0; k < n; ++k) {
      const Wide lambda = value(k, half);
      sum = sum + lambda;
      squares = squares + lambda * lambda;
      norm = larger(magnitude(lambda), norm);
    }
    const E* a = kept;
    Wide* column = reinterpret_cast<Wide*>(work);
    for (int i = 0; i < n; ++i) {
      Wide mine(0);
      for (int j = 0; j < i; ++j) {
        const Wide part = square(load(a++, half));
        mine = mine + part;
        column[j] = column[j] + part;
      }
      const X diagonal = load(a++, half);
      trace = trace + real(diagonal);
      column[i] = mine + square(diagonal);
    }
    for (int i = 0; i < n; ++i) whole = whole + column[i];
    return larger_or_lost(units(magnitude(sum - trace), norm, half), units(magnitude(squares - whole), norm * norm, half, norm));
  }

private:
  static KERNELS_INLINE X load(const E* p, int half) {
    if constexpr (is_complex)
      return {widened(&p->re, half), widened(&p->im, half)};
    else
      return widened(p, half);
  }
  KERNELS_INLINE X vector(int i, int k, int half) const {
    const V* at = z + (i * count() + k) * parts;
    if constexpr (is_complex)
      return {widened(at, half), widened(at + 1, half)};
    else
      return widened(at, half);
  }
  KERNELS_INLINE Wide value(int k, int half) const {
    return widened(values + k, half) * widened(&first, half) * widened(&second, half);
  }

  KERNELS_INLINE Wide peak(int half) const {
    const int n = count();
    Wide most(0);
    for (int i = 0; i < n * (n + 1) / 2; ++i) {
      const X x = load(kept + i, half);
      if constexpr (is_complex)
        most = larger(square(x), most);
      else
        most = larger(magnitude(x), most);
    }
    return is_complex ? root(most) : most;
  }

  // y = V x and u = V Lambda x, some rows abreast
  template <int J> KERNELS_INLINE void expand(int i, int half, const X* x, const X* lx, X* y, X* u) const {
    const int n = count();
    X ys[J], us[J];
    for (int b = 0; b < J; ++b) ys[b] = us[b] = nought<X>();
    for (int c = 0; c < n; ++c)
      for (int b = 0; b < J; ++b) {
        const X v = vector(i + b, c, half);
        ys[b] = ys[b] + v * x[c];
        us[b] = us[b] + v * lx[c];
      }
    for (int b = 0; b < J; ++b) y[i + b] = ys[b], u[i + b] = us[b];
  }

  KERNELS_INLINE void multiply(int half, const X* y, X* ay) const {
    const int n = count();
    const E* a = kept;
    for (int i = 0; i < n; ++i) {
      X sum = nought<X>();
      const X yi = y[i];
      for (int j = 0; j < i; ++j) {
        const X x = load(a++, half);
        sum = sum + x * y[j];
        ay[j] = ay[j] + inner(x, yi);
      }
      ay[i] = sum + yi * real(load(a++, half));
    }
  }

  template <int J> KERNELS_INLINE Wide project(int c, int half, const X* x, const X* y, Wide skew) const {
    const int n = count();
    X sum[J];
    for (int b = 0; b < J; ++b) sum[b] = nought<X>();
    for (int i = 0; i < n; ++i)
      for (int b = 0; b < J; ++b) sum[b] = sum[b] + inner(vector(i, c + b, half), y[i]);
    for (int b = 0; b < J; ++b) skew = skew + square(sum[b] - x[c + b]);
    return skew;
  }

  // In units of n eps, or of the spacing of stored values where that is coarser
  KERNELS_INLINE Wide units(Wide apart, Wide norm, int half) const { return units(apart, norm, half, norm); }
  KERNELS_INLINE Wide units(Wide apart, Wide norm, int half, Wide length) const {
    const Wide coarse = Wide(quantum) * widened(&first, half) * widened(&second, half) / length;
    const Wide unit = Wide(count()) * larger(coarse, Wide(eps));
    return select(apart == Wide(0), Wide(0), apart / norm / unit);
  }
  // A NaN is an error beyond all range, and must not pass as the smaller of two.
  static KERNELS_INLINE Wide larger_or_lost(Wide a, Wide b) {
    const Wide lost(__builtin_huge_val());
    return select((a <= lost) & (b <= lost), larger(a, b), lost);
  }
};

} // namespace
