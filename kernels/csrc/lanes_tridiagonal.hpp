// Householder reduction to a real tridiagonal matrix, and the unitary matrix that does it.
//
// From the top left, as LAPACK's ?sytd2 / ?hetd2 with UPLO = 'L': a matrix graded with its large
// elements there keeps its small eigenvalues. The rank-two update of one step and the product with
// the next reflector are one pass over the matrix, so that it moves through the cache once a step.
// The order of every sum is that of the unblocked algorithm, whatever the number of columns abreast.
#pragma once

#include "lanes_share.hpp"

namespace {

template <class R> struct Limits;
template <> struct Limits<double> {
  static constexpr double eps = 0x1p-52, floor = 0x1p-1022, negligible = 0x1p-900;
  static constexpr int safe = 200; // exponents of the largest element within which nothing is scaled
};
template <> struct Limits<float> {
  static constexpr float eps = 0x1p-23f, floor = 0x1p-126f, negligible = 0x1p-110f;
  static constexpr int safe = 10;
};

// Square n x ld of elements, row after row: the lower triangle is the matrix, and row k beyond the
// diagonal comes to hold reflector k.
template <class E> struct Tridiagonal {
  using V = typename Element<E>::V;
  using R = typename V::Real;
  static constexpr bool is_complex = Element<E>::is_complex;
  static constexpr int abreast = is_complex ? 2 : register_bytes == 64 ? 4 : 2;

  int n, ld;
  E* a;
  E* tau;     // n; the last one used is the phase of a complex matrix
  E *w, *y;   // n each
  V *d, *e;   // diagonal, n; off-diagonal, n
  int stride; // of d and e
  Traffic* traffic; // goes on meanwhile

  int reflectors() const { return n - 2; }
  E* row(int i) const { return a + i * ld; }

  void reduce() const {
    const int last = reflectors();
    for (int k = 0; k < n; ++k) {
      traffic->step();
      update_column(k);
      d[k * stride] = real(row(k)[k]);
      if (k < last) {
        reflect(k);
        multiply(k);
        finish(k);
      } else if (k < n - 1) {
        update_below(k);
        turn_last(k);
      }
    }
    e[(n - 1) * stride] = V(0);
  }

private:
  // a_ik -= u_i conj(w_k) + w_i conj(u_k), the update of the step before, in column k
  void update_column(int k) const {
    if (k == 0 || k > reflectors()) return;
    const E* u = row(k - 1);
    const E uk = u[k], wk = w[k];
    for (int i = k; i < n; ++i) row(i)[k] = changed(row(i)[k], u[i], w[i], uk, wk);
  }
  void update_below(int k) const { // the last diagonal element
    if (k == 0) return;
    const E* u = row(k - 1);
    row(k + 1)[k + 1] = changed(row(k + 1)[k + 1], u[k + 1], w[k + 1], u[k + 1], w[k + 1]);
  }
  // The last off-diagonal element is made real by a phase of the last column of Q alone.
  void turn_last(int k) const {
    const E last = row(k + 1)[k];
    if constexpr (is_complex) {
      const V rest = last.im * last.im, size = root(last.re * last.re + rest);
      const auto needed = V(Limits<R>::negligible) < rest;
      e[k * stride] = select(needed, size, last.re);
      tau[k] = {select(needed, last.re / size, V(1)), select(needed, last.im / size, V(0))};
    } else {
      e[k * stride] = last;
    }
  }
  static KERNELS_INLINE E changed(E a, E ui, E wi, E uj, E wj) {
    return a - (ui * conjugate(wj) + wi * conjugate(uj));
  }

  // 1 - tau u u^H with u = x - beta e_1 unnormalised; the identity where x is beta e_1 already
  void reflect(int k) const {
    E* u = row(k);
    const E alpha = row(k + 1)[k];
    V rest(0);
    for (int i = k + 2; i < n; ++i) {
      u[i] = row(i)[k];
      rest = rest + square(u[i]);
    }
    if constexpr (is_complex) rest = rest + alpha.im * alpha.im;
    const V ar = real(alpha);
    const V beta = -with_sign(root(ar * ar + rest), ar);
    const V first = ar - beta;
    const auto needed = V(Limits<R>::negligible) < rest;
    if constexpr (is_complex) {
      const V size = first * first + alpha.im * alpha.im;
      const V inverse = V(1) / beta, share = V(1) / size;
      tau[k] = {select(needed, -(first * inverse) * share, V(0)), select(needed, -(alpha.im * inverse) * share, V(0))};
      u[k + 1] = {first, alpha.im};
    } else {
      tau[k] = select(needed, V(1) / (beta * -first), V(0));
      u[k + 1] = first;
    }
    e[k * stride] = select(needed, beta, ar);
  }

  // y = A u for the trailing matrix, brought up to date in the same pass
  void multiply(int k) const {
    for (int i = k + 1; i < n; ++i) y[i] = nought<E>();
    int j = k + 1;
    for (; j + abreast <= n; j += abreast) columns<abreast>(k, j);
    for (; j < n; ++j) columns<1>(k, j);
  }

  template <int J> KERNELS_INLINE void columns(int k, int j0) const {
    if (k > 0)
      columns<J, true>(k, j0);
    else
      columns<J, false>(k, j0);
  }

  template <int J, bool pending> KERNELS_INLINE void columns(int k, int j0) const {
    const E* u = pending ? row(k - 1) : nullptr;
    const E* next = row(k);
    E uj[J], wj[J], nj[J], sum[J];
    for (int b = 0; b < J; ++b) {
      if constexpr (pending) uj[b] = u[j0 + b], wj[b] = w[j0 + b];
      nj[b] = next[j0 + b];
    }
    for (int b = 0; b < J; ++b) { // the triangle on the diagonal
      E* r = row(j0 + b);
      E yi = y[j0 + b];
      for (int c = 0; c < b; ++c) {
        E x = r[j0 + c];
        if constexpr (pending) x = changed(x, uj[b], wj[b], uj[c], wj[c]), r[j0 + c] = x;
        yi = yi + x * nj[c];
        sum[c] = sum[c] + inner(x, nj[b]);
      }
      E x = r[j0 + b];
      if constexpr (pending) x = changed(x, uj[b], wj[b], uj[b], wj[b]);
      if constexpr (is_complex) x.im = V(0);
      r[j0 + b] = x;
      sum[b] = nj[b] * real(x);
      y[j0 + b] = yi;
    }
    for (int i = j0 + J; i < n; ++i) {
      E* r = row(i) + j0;
      const E ni = next[i];
      E ui, wi, yi = y[i];
      if constexpr (pending) ui = u[i], wi = w[i];
      for (int b = 0; b < J; ++b) {
        E x = r[b];
        if constexpr (pending) x = changed(x, ui, wi, uj[b], wj[b]), r[b] = x;
        yi = yi + x * nj[b];
        sum[b] = sum[b] + inner(x, ni);
      }
      y[i] = yi;
    }
    for (int b = 0; b < J; ++b) y[j0 + b] = y[j0 + b] + sum[b];
  }

  // w = tau y - (|tau|^2 u^H y / 2) u
  void finish(int k) const {
    const E* u = row(k);
    V product(0);
    for (int i = k + 1; i < n; ++i) product = product + inner_real(u[i], y[i]);
    const E t = tau[k];
    const V half = inner_real(t, t * product) * V(R(0.5)); // tau^2 alone may overflow
    for (int i = k + 1; i < n; ++i) w[i] = t * y[i] - u[i] * half;
  }
};

// Q = H_0 H_1 ... times what is in z, a few columns at a time so that they stay in the cache for all
// reflectors. Real: z becomes Q itself, whatever was in it. Complex: z holds the real eigenvectors
// of the tridiagonal matrix, since rotating those and then reflecting is less work than rotating Q;
// row i is two rows of numbers, real and imaginary, and the imaginary ones are not looked at.
template <class E> struct Accumulate {
  using V = typename Element<E>::V;
  static constexpr bool is_complex = Element<E>::is_complex;
  static constexpr int parts = is_complex ? 2 : 1;
  static constexpr int abreast = is_complex ? 2 : 4;

  const Tridiagonal<E>& t;
  V* z;
  int ld;

  void form() const {
    int j = 0;
    for (; j + abreast <= t.n; j += abreast) columns<abreast>(j);
    for (; j < t.n; ++j) columns<1>(j);
  }

private:
  KERNELS_INLINE E get(int i, int j) const {
    if constexpr (is_complex)
      return {z[2 * i * ld + j], z[(2 * i + 1) * ld + j]};
    else
      return z[i * ld + j];
  }
  KERNELS_INLINE void put(int i, int j, E x) const {
    if constexpr (is_complex) {
      z[2 * i * ld + j] = x.re;
      z[(2 * i + 1) * ld + j] = x.im;
    } else {
      z[i * ld + j] = x;
    }
  }

  // The columns before any reflector, and how many reflectors change them
  template <int J> KERNELS_INLINE int begin(int j0) const {
    const int n = t.n;
    for (int i = 0; i < n; ++i)
      for (int b = 0; b < J; ++b) {
        if constexpr (is_complex) {
          const V x = z[2 * i * ld + j0 + b];
          put(i, j0 + b, i > 0 && i == n - 1 ? t.tau[i - 1] * x : E{x, V(0)});
        } else {
          put(i, j0 + b, i == j0 + b ? V(1) : V(0));
        }
      }
    const int reached = j0 + J - 1; // those further down leave these columns of the identity alone
    return is_complex || reached > t.reflectors() ? t.reflectors() : reached;
  }

  template <int J> void columns(int j0) const {
    const int n = t.n;
    int k = begin<J>(j0) - 1;
    if (k < 0) return;
    E sum[J];
    const E* u = t.row(k);
    for (int b = 0; b < J; ++b) sum[b] = nought<E>();
    for (int i = k + 1; i < n; ++i)
      for (int b = 0; b < J; ++b) sum[b] = sum[b] + inner(u[i], get(i, j0 + b));
    for (; k >= 0; --k) { // apply reflector k, and meet the next one in the same pass
      const E tau = t.tau[k];
      const E *u = t.row(k), *next = k > 0 ? t.row(k - 1) : t.row(k);
      E factor[J];
      for (int b = 0; b < J; ++b) factor[b] = tau * sum[b], sum[b] = nought<E>();
      if (k > 0)
        for (int b = 0; b < J; ++b) sum[b] = inner(next[k], get(k, j0 + b));
      for (int i = k + 1; i < n; ++i) {
        const E ui = u[i], ni = next[i];
        for (int b = 0; b < J; ++b) {
          const E x = get(i, j0 + b) - ui * factor[b];
          put(i, j0 + b, x);
          sum[b] = sum[b] + inner(ni, x);
        }
      }
    }
  }
};

} // namespace
