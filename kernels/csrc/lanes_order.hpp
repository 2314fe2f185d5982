// Answers out of registers' order into memory, each lane's columns in ascending order of its values.
#pragma once

#include "lanes_pack.hpp"

namespace {

// Where the columns of each lane come from: source[w * padded + j] is the one that becomes number j.
template <class R> struct Order {
  using Index = typename Register<R>::Integer;
  static constexpr int W = Vec<R>::lanes;
  Index* source;
  int n, padded; // to a whole number of registers

  static int pad(int n) { return (n + W - 1) / W * W; }

  // rank: how many values of its lane go before each value, `stride` apart
  void fill(const Vec<R>* rank, int stride) const {
    for (int w = 0; w < W; ++w) {
      for (int k = 0; k < n; ++k) source[w * padded + static_cast<int>(rank[k * stride].raw[w])] = k;
      for (int k = n; k < padded; ++k) source[w * padded + k] = 0;
    }
  }
};

// A row of each lane, its columns in order: buffer[(q * W + w) * padded + k] is part q of column k of
// lane w. Through the nearest cache, since a transposition leaves each lane's numbers side by side.
template <int parts, class R> struct Rows {
  static constexpr int W = Vec<R>::lanes;
  const Order<R>& order;
  R* buffer;

  // -0 becomes 0
  KERNELS_INLINE void load_row(const Vec<R>* z, std::int64_t ld) const {
    const int n = order.n;
    Vec<R> rows[W];
    for (int q = 0; q < parts; ++q, z += ld)
      for (int k = 0; k < n; k += W) {
#pragma GCC unroll 16
        for (int j = 0; j < W; ++j) rows[j] = z[k + j < n ? k + j : n - 1] + Vec<R>(0);
        transpose<1>(rows);
#pragma GCC unroll 16
        for (int w = 0; w < W; ++w) store(buffer + (q * W + w) * order.padded + k, rows[w]);
      }
  }

  KERNELS_INLINE void store_row(int w, R* to) const {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    if (order.padded <= most_to_pick_from * W) return pick_row(w, to);
#endif
    const auto* source = order.source + w * order.padded;
    for (int j = 0; j < order.n; ++j)
      for (int q = 0; q < parts; ++q) to[j * parts + q] = buffer[(q * W + w) * order.padded + source[j]];
  }

#if defined(__AVX512F__) && defined(__AVX512DQ__)
  // By permutations of two registers at a time; of more than these, one number at a time is as fast.
  static constexpr int most_to_pick_from = 8;

  KERNELS_INLINE void pick_row(int w, R* to) const {
    for (int k = 0; k < order.n; k += W) {
      const Indices at = load_indices(order.source + w * order.padded + k);
      const int left = (order.n - k) * parts;
      const Vec<R> first = pick(buffer + w * order.padded, at);
      if constexpr (parts == 1) {
        store_some(to + k, first, left);
      } else {
        const Vec<R> second = pick(buffer + (W + w) * order.padded, at);
        store_some(to + 2 * k, look_up(first, second, alternate<R>(0)), left);
        if (left > W) store_some(to + 2 * k + W, look_up(first, second, alternate<R>(W / 2)), left - W);
      }
    }
  }

  KERNELS_INLINE Vec<R> pick(const R* row, Indices at) const {
    const int size = order.padded;
    Vec<R> found = look_up(load(row), load(row + (size > W ? W : 0)), at);
    for (int k = 2 * W; k < size; k += 2 * W)
      found = select(not_below<R>(at, k), look_up(load(row + k), load(row + (k + W < size ? k + W : k)), at), found);
    return found;
  }
#endif
};

} // namespace
