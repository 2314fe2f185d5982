// Saved rotations applied to the rows of Q, several sweeps in one pass: rotation j of a sweep turns
// columns j and j + 1, and rotation j - 1 of the next sweep may follow as soon as it is done. A
// column then waits in a register from sweep to sweep, and is loaded and stored once for all of
// them (after Van Zee, van de Geijn, Quintana-Orti, ACM TOMS 40(3), 2014).
#pragma once

#include "lanes_vector.hpp"

namespace {

template <class V> struct Rotations {
  const V *t, *s;   // tangent of half the angle and sine, of the first sweep
  std::int64_t next; // from a sweep to the next, in V
  std::int64_t step; // from a rotation to the next
};

// (lo, hi) becomes (c lo + s hi, c hi - s lo), by three shears: as many multiplications as additions,
// where the direct form has four and two, and multiplications are the bottleneck.
//
// Column k of `window` and the carried column, in all rows: what was low is then carried on. Shear by
// shear over the rows, since each depends on the one before.
template <int K, int rows, class V> KERNELS_INLINE void turn(V (&window)[K][rows], int k, V (&carry)[rows], V t, V s) {
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) window[k][r] = window[k][r] + t * carry[r];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) carry[r] = carry[r] - s * window[k][r];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const V low = window[k][r] + t * carry[r];
    window[k][r] = carry[r];
    carry[r] = low;
  }
}

// K sweeps over columns first .. last of `rows` rows that lie `ld` apart
template <int K, int rows, class V>
void wave(V* z, std::int64_t ld, const Rotations<V>& rotations, int first, int last) {
  V window[K][rows], carry[rows];
  const V *t = rotations.t + first * rotations.step, *s = rotations.s + first * rotations.step;
  const std::int64_t back = rotations.next - rotations.step, step = rotations.step;
  for (int r = 0; r < rows; ++r) window[0][r] = z[r * ld + first];
  for (int m = 0; m < K - 1; ++m) { // the first sweeps start
    for (int r = 0; r < rows; ++r) carry[r] = z[r * ld + first + m + 1];
    for (int k = 0; k <= m; ++k) turn(window, k, carry, t[k * back], s[k * back]);
    for (int r = 0; r < rows; ++r) window[m + 1][r] = carry[r];
    t += step, s += step;
  }
  V* at = z + first;
  for (int j = first + K - 1; j < last; ++j, ++at) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) carry[r] = at[r * ld + K];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) turn(window, k, carry, t[k * back], s[k * back]);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) at[r * ld] = carry[r];
    t += step, s += step;
  }
  for (int m = 1; m < K; ++m) { // and end
    for (int r = 0; r < rows; ++r) carry[r] = window[m - 1][r];
    for (int k = m; k < K; ++k) turn(window, k, carry, t[k * back], s[k * back]);
    for (int r = 0; r < rows; ++r) at[r * ld] = carry[r];
    ++at;
    t += step, s += step;
  }
  for (int r = 0; r < rows; ++r) at[r * ld] = window[K - 1][r];
}

// All sweeps over rows of N columns, N so small that a few whole rows fit in registers
template <int N, int rows, int ld, class V>
KERNELS_INLINE void whole_rows(V* z, const Rotations<V>& rotations, int sweeps) {
  V column[N][rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) column[j][r] = z[r * ld + j];
  const V *t = rotations.t, *s = rotations.s;
  for (int k = 0; k < sweeps; ++k, t += rotations.next, s += rotations.next) {
#pragma GCC unroll 8
    for (int j = 0; j < N - 1; ++j) {
      const V tj = t[j * rotations.step], sj = s[j * rotations.step];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) column[j][r] = column[j][r] + tj * column[j + 1][r];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) column[j + 1][r] = column[j + 1][r] - sj * column[j][r];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) column[j][r] = column[j][r] + tj * column[j + 1][r];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) z[r * ld + j] = column[j][r];
}

// Some sweeps that were saved one after the other, with the columns that they reach.
template <class V, class T, int most> struct Sweeps {
  T *t, *s; // n each
  int* range; // first and one past the last of each
  int n, count;
  bool joined[most]; // whether the sweep and those after it go together

  // Let the K sweeps from k on reach as far as each other, by identities; false if they are too short.
  template <int K> bool join(int k) const {
    int first = range[2 * k], last = range[2 * k + 1];
    for (int m = 1; m < K; ++m) {
      first = range[2 * (k + m)] < first ? range[2 * (k + m)] : first;
      last = range[2 * (k + m) + 1] > last ? range[2 * (k + m) + 1] : last;
    }
    if (last - first < K) return false;
    for (int m = k; m < k + K; ++m) {
      for (int i = first; i < range[2 * m]; ++i) t[m * n + i] = s[m * n + i] = T(0);
      for (int i = range[2 * m + 1]; i < last; ++i) t[m * n + i] = s[m * n + i] = T(0);
      range[2 * m] = first, range[2 * m + 1] = last;
    }
    return true;
  }

  Rotations<V> from(int k, int u) const {
    constexpr int U = sizeof(T) / sizeof(V);
    return {reinterpret_cast<V*>(t + k * n) + u, reinterpret_cast<V*>(s + k * n) + u, n * U, U};
  }

  // All of them to `rows` rows, a few rows at a time so that those stay in the nearest cache
  template <int K> void apply(V* z, int rows, std::int64_t ld, int u) const {
    constexpr int abreast = register_bytes == 64 ? 8 : 4;
    int r = 0;
    for (; r + abreast <= rows; r += abreast) some<K, abreast>(z + r * ld, ld, u);
    for (; r + abreast / 2 <= rows; r += abreast / 2) some<K, abreast / 2>(z + r * ld, ld, u);
    for (; r < rows; ++r) some<K, 1>(z + r * ld, ld, u);
  }

private:
  template <int K, int rows> void some(V* z, std::int64_t ld, int u) const {
    int k = 0;
    while (k < count) {
      const int first = range[2 * k], last = range[2 * k + 1];
      if (k + K <= count && joined[k]) {
        wave<K, rows>(z, ld, from(k, u), first, last);
        k += K;
      } else {
        wave<1, rows>(z, ld, from(k++, u), first, last);
      }
    }
  }
};

} // namespace
