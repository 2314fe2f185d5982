// A group of matrices into registers' order, one a lane, and answers back out of it.
#pragma once

#include "lanes_task.hpp"
#include "lanes_tridiagonal.hpp"

namespace {

using kernels::LanesTask;

// `size` numbers from each lane's place, interleaved: number p of lane w to flat[p][w]. What lies
// behind a matrix may be read, but is not kept.
template <class R> void interleave(const R* const* from, std::int64_t size, Vec<R>* flat) {
  constexpr int W = Vec<R>::lanes;
  Vec<R> rows[W];
  for (std::int64_t p = 0;; p += W) {
    if (p + W > size && size >= W) p = size - W;
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w) rows[w] = load(from[w] + p);
    transpose<1>(rows);
    const int kept = size < W ? static_cast<int>(size) : W;
    if (kept == W) {
#pragma GCC unroll 16
      for (int q = 0; q < W; ++q) flat[p + q] = rows[q];
    } else {
      for (int q = 0; q < kept; ++q) flat[p + q] = rows[q];
    }
    if (p + W >= size) return;
  }
}

// The same where the matrices follow each other and `size`, smaller than a register, is a power of two
template <int size, class R> KERNELS_INLINE void interleave_small(const R* from, Vec<R>* flat) {
  constexpr auto all = std::make_index_sequence<Vec<R>::lanes>();
  Vec<R> x[size], y[size];
  for (int q = 0; q < size; ++q) x[q] = load(from + q * Vec<R>::lanes);
#pragma GCC unroll 4
  for (int step = size; step > 1; step /= 2) {
#pragma GCC unroll 8
    for (int q = 0; q < size; q += 2) {
      unzip(x[q], x[q + 1], all);
      y[q / 2] = x[q], y[(q + size) / 2] = x[q + 1];
    }
    for (int q = 0; q < size; ++q) x[q] = y[q];
  }
  for (int q = 0; q < size; ++q) flat[q] = x[q];
}

// The reverse
template <int size, class R> KERNELS_INLINE void deal_small(const Vec<R>* flat, R* to) {
  constexpr auto all = std::make_index_sequence<Vec<R>::lanes>();
  Vec<R> x[size], y[size];
  for (int q = 0; q < size; ++q) x[q] = flat[q];
#pragma GCC unroll 4
  for (int step = size; step > 1; step /= 2) {
#pragma GCC unroll 8
    for (int q = 0; q < size; q += 2) {
      y[q] = x[q / 2], y[q + 1] = x[(q + size) / 2];
      zip(y[q], y[q + 1], all);
    }
    for (int q = 0; q < size; ++q) x[q] = y[q];
  }
  for (int q = 0; q < size; ++q) store(to + q * Vec<R>::lanes, x[q]);
}

// The same without a look at what lies behind
template <class R> void interleave_within(const R* const* from, std::int64_t size, Vec<R>* flat) {
  if (size >= Vec<R>::lanes) return interleave(from, size, flat);
  for (std::int64_t p = 0; p < size; ++p)
    for (int w = 0; w < Vec<R>::lanes; ++w) reinterpret_cast<R*>(flat + p)[w] = from[w][p];
}

// The reverse: into each of the first `lanes` places.
template <class R> void deal(const Vec<R>* flat, std::int64_t size, R* to, int lanes) {
  constexpr int W = Vec<R>::lanes;
  if (lanes == W) {
    if (W > 2 && size == 2) return deal_small<2>(flat, to);
    if (W > 4 && size == 4) return deal_small<4>(flat, to);
  }
  Vec<R> rows[W];
  if (size < W) {
#pragma GCC unroll 16
    for (int q = 0; q < W; ++q) rows[q] = flat[q < size ? q : 0];
    transpose<1>(rows);
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w)
      if (w < lanes) store_some(to + w * size, rows[w], static_cast<int>(size));
#else
    R buffer[W * W + W]; // in which a place may be overrun until the next is written
#pragma GCC unroll 16
    for (int w = 0; w < W; ++w) store(buffer + w * size, rows[w]);
    __builtin_memcpy(to, buffer, static_cast<std::size_t>(lanes * size) * sizeof(R));
#endif
    return;
  }
  for (std::int64_t p = 0;; p += W) {
    if (p + W > size) p = size - W;
#pragma GCC unroll 16
    for (int q = 0; q < W; ++q) rows[q] = flat[p + q];
    transpose<1>(rows);
    if (lanes == W) {
#pragma GCC unroll 16
      for (int w = 0; w < W; ++w) store(to + w * size + p, rows[w]);
    } else {
      for (int w = 0; w < lanes; ++w) store(to + w * size + p, rows[w]);
    }
    if (p + W >= size) return;
  }
}

// Each matrix of a group whole; element (i, j) of the copy is number i * row + j * column.
template <class R> struct Gathered {
  const Vec<R>* flat;
  std::int64_t row, column;
};
template <class R> Gathered<R> gather(const LanesTask& task, std::int64_t first, int parts, Vec<R>* flat) {
  constexpr int W = Vec<R>::lanes;
  const auto n = task.n, size = n * n * parts;
  const R* from[W];
  for (int w = 0; w < W; ++w) {
    const std::int64_t b = first + w < task.count ? first + w : task.count - 1;
    from[w] = static_cast<const R*>(task.a) + b * task.a_stride * parts;
  }
  const bool by_rows = task.a_column == 1 && task.a_row == n, by_columns = task.a_row == 1 && task.a_column == n;
  if ((by_rows || by_columns) && task.a_stride == n * n && first + W <= task.count && W > 4 && size == 4) {
    interleave_small<4>(from[0], flat);
    return {flat, task.a_row, task.a_column};
  }
  // a matrix smaller than a register is read together with the next ones
  const bool together = size >= W || (task.a_stride == n * n && first + W + W <= task.count);
  if ((by_rows || by_columns) && together) {
    interleave(from, size, flat);
    return {flat, task.a_row, task.a_column};
  }
  R* out = reinterpret_cast<R*>(flat);
  for (int w = 0; w < W; ++w)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (int q = 0; q < parts; ++q)
          out[((i * n + j) * parts + q) * W + w] = from[w][(i * task.a_row + j * task.a_column) * parts + q];
  return {flat, n, 1};
}

// What is found about a group while it is packed.
template <class V> struct Found {
  using M = typename MaskFor<V>::Type;
  M finite, hermitian;
  M flipped; // solved with rows and columns in reverse order
  V first, second; // powers of two: the matrix solved is (a first) second
  bool scaled;
};

template <class R> int exponent_of(R x) {
  int e = 0;
  if constexpr (sizeof(R) == 8)
    __builtin_frexp(x, &e);
  else
    __builtin_frexpf(x, &e);
  return e;
}
template <class R> R power_of_two(int e) { return static_cast<R>(__builtin_ldexp(1.0, e)); }

template <class E> struct Flat {
  using V = typename Element<E>::V;
  static constexpr bool is_complex = Element<E>::is_complex;
  Gathered<typename V::Real> from;
  int n;
  KERNELS_INLINE E operator()(int i, int j) const {
    const std::int64_t at = i * from.row + j * from.column;
    if constexpr (is_complex)
      return {from.flat[2 * at], from.flat[2 * at + 1]};
    else
      return from.flat[at];
  }
};

template <class V> KERNELS_INLINE void look(V x, V& peak, typename MaskFor<V>::Type& finite, V most) {
  const V size = magnitude(x);
  finite = finite & (size <= most);
  peak = larger(size, peak);
}
template <class V> KERNELS_INLINE void look(Pair<V> x, V& peak, typename MaskFor<V>::Type& finite, V most) {
  look(x.re, peak, finite, most);
  look(x.im, peak, finite, most);
}
template <class V> KERNELS_INLINE V scale(V x, V first, V second) { return x * first * second; }
template <class V> KERNELS_INLINE Pair<V> scale(Pair<V> x, V first, V second) {
  return {x.re * first * second, x.im * first * second};
}

template <class E> struct Pack {
  using V = typename Element<E>::V;
  using R = typename V::Real;
  static constexpr bool is_complex = Element<E>::is_complex;

  const LanesTask& task;
  Flat<E> flat;

  // The scan: everything that is read finite, the power of two, and the defect where both are read.
  Found<V> scan() const {
    const int n = flat.n;
    const bool lower = task.triangle != 1, upper = task.triangle != 0;
    const V most(limit());
    V peak(0);
    Found<V> found;
    found.finite = V(0) <= V(0);
    found.hermitian = found.finite;
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < i; ++j) {
        if (lower) look(flat(i, j), peak, found.finite, most);
        if (upper) look(flat(j, i), peak, found.finite, most);
      }
      if constexpr (is_complex)
        if (lower && upper) look(flat(i, i).im, peak, found.finite, most);
      look(real(flat(i, i)), peak, found.finite, most);
    }
    // A graded matrix keeps its small eigenvalues if its large elements come first.
    found.flipped = magnitude(real(flat(0, 0))) < magnitude(real(flat(n - 1, n - 1)));
    choose_power(peak, found);
    if (lower && upper && task.tolerance < __builtin_huge_val()) found.hermitian = defect(found);
    return found;
  }

  // The lower triangle of the matrix that is solved, into square `a` and packed `kept`
  void place(const Found<V>& found, E* a, int ld, E* kept) const {
    const int n = flat.n;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) {
        const E as_is = element(found, i, j), other = conjugate(element(found, n - 1 - j, n - 1 - i));
        E x = where(found.finite, where(found.flipped, other, as_is), nought<E>());
        E original = where(found.finite, as_is, nought<E>());
        if constexpr (is_complex)
          if (i == j) x.im = original.im = V(0);
        a[i * ld + j] = x;
        if (kept) *kept++ = original;
      }
  }

private:
  static constexpr R limit() { return sizeof(R) == 8 ? R(1.7976931348623157e308) : R(3.4028234663852886e38f); }
  using M = typename MaskFor<V>::Type;
  static KERNELS_INLINE V where(M m, V x, V y) { return select(m, x, y); }
  static KERNELS_INLINE Pair<V> where(M m, Pair<V> x, Pair<V> y) {
    return {select(m, x.re, y.re), select(m, x.im, y.im)};
  }

  // Element (i, j), i >= j, of the matrix that is meant, scaled
  KERNELS_INLINE E element(const Found<V>& found, int i, int j) const {
    E x = task.triangle == 1 ? conjugate(flat(j, i)) : flat(i, j);
    if (found.scaled) x = scale(x, found.first, found.second);
    if (task.triangle == 2) {
      E y = conjugate(flat(j, i));
      if (found.scaled) y = scale(y, found.first, found.second);
      x = (x + y) * V(R(0.5));
    }
    return x;
  }

  static void choose_power(const V& peak, Found<V>& found) {
    const V low(power_of_two<R>(-Limits<R>::safe)), high(power_of_two<R>(Limits<R>::safe));
    found.first = found.second = V(1);
    found.scaled = any(found.finite & ((peak < low) | (high < peak)) & !(peak == V(0)));
    if (!found.scaled) return;
    const R* p = reinterpret_cast<const R*>(&peak);
    R *f = reinterpret_cast<R*>(&found.first), *s = reinterpret_cast<R*>(&found.second);
    for (int w = 0; w < V::lanes; ++w) {
      if (!lane(found.finite, w) || p[w] == 0) continue;
      const int e = exponent_of(p[w]);
      if (p[w] >= power_of_two<R>(-Limits<R>::safe) && p[w] <= power_of_two<R>(Limits<R>::safe)) continue;
      f[w] = power_of_two<R>(-e / 2);
      s[w] = power_of_two<R>(-e - -e / 2);
    }
  }

  // max|A - A^H| <= tolerance max|A|
  typename MaskFor<V>::Type defect(const Found<V>& found) const {
    V apart(0), part(0), most(0); // a part may be so small that its square is 0
    for (int i = 0; i < flat.n; ++i)
      for (int j = 0; j <= i; ++j) {
        const E x = scale(flat(i, j), found.first, found.second);
        const E y = scale(conjugate(flat(j, i)), found.first, found.second);
        const E z = x - y;
        most = larger(square(x), larger(square(y), most));
        apart = larger(square(z), apart);
        if constexpr (is_complex)
          part = larger(magnitude(z.re), larger(magnitude(z.im), part));
        else
          part = larger(magnitude(z), part);
      }
    return larger(root(apart), part) <= V(static_cast<R>(task.tolerance)) * root(most);
  }
};

} // namespace
