// A group of matrices from memory to memory: pack, reduce, iterate, prove, unpack.
#pragma once

#include <cstdlib>

#include "lanes_columns.hpp"
#include "lanes_iterate.hpp"
#include "lanes_order.hpp"
#include "lanes_probe.hpp"
#include "lanes_rootfree.hpp"
#include "lanes_rotate.hpp"

namespace {

// One block of memory for a call, cut into arrays on 64-byte boundaries.
class Arena {
public:
  void* memory = nullptr;
  std::size_t used = 0;
  ~Arena() { std::free(memory); }
  bool allocate() { return (memory = std::aligned_alloc(64, used + 64)) != nullptr; }
  template <class T> std::size_t reserve(std::size_t count) {
    const std::size_t at = used;
    used += (count * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  template <class T> T* get(std::size_t at) const { return reinterpret_cast<T*>(static_cast<char*>(memory) + at); }
};

// U registers of matrices at a time; their iterations run interleaved where U is 2. N: the size of
// the matrices where it is small and known, else 0.
template <class E, int U, int N = 0> class Group {
  using V = typename Element<E>::V;
  using R = typename V::Real;
  static constexpr bool is_complex = Element<E>::is_complex;
  static constexpr int parts = is_complex ? 2 : 1;
  static constexpr int W = V::lanes, size = U * W;
  using T = std::conditional_t<U == 2, Twin<R>, V>;
  using X = typename Probe<E>::X;
  static constexpr int abreast = 2; // sweeps in a pass over Q
  static constexpr int capacity = 16;

public:
  explicit Group(const LanesTask& task)
      : task_(task), size_(static_cast<int>(task.n)), ld_(n() + (n() % 4 == 0 && n() > 8)), wanted_(task.vectors != nullptr) {}

  bool run() {
    if (!allocate()) return false;
    for (Share share = Share::take(task_, size); share.first < share.stop; share = Share::take(task_, size))
      for (std::int64_t first = share.first; first < share.stop; first += size) solve(first);
    return true;
  }

private:
  KERNELS_INLINE int n() const { return N > 0 ? N : size_; }

  bool allocate() {
    const auto n = static_cast<std::size_t>(this->n()), square = n * static_cast<std::size_t>(ld_);
    std::size_t a[U], tau[U], z[U], kept[U];
    for (int u = 0; u < U; ++u) {
      // complex reflectors are needed after the iteration
      a[u] = is_complex || u == 0 ? arena_.reserve<E>(square) : a[0];
      tau[u] = is_complex || u == 0 ? arena_.reserve<E>(n) : tau[0];
      z[u] = arena_.reserve<E>(square);
      kept[u] = arena_.reserve<E>(n * (n + 1) / 2);
    }
    const std::size_t d = arena_.reserve<T>(n), e = arena_.reserve<T>(n), rank = arena_.reserve<T>(n);
    const std::size_t t = arena_.reserve<T>(capacity * n), s = arena_.reserve<T>(capacity * n);
    const std::size_t w = arena_.reserve<E>(n), y = arena_.reserve<E>(n);
    using Index = typename Order<R>::Index;
    const std::size_t padded = static_cast<std::size_t>(Order<R>::pad(this->n()));
    const std::size_t work = arena_.reserve<X>(5 * n), values = arena_.reserve<V>(n);
    const std::size_t order = arena_.reserve<Index>(W * padded), row = arena_.reserve<V>(parts * padded);
    if (!arena_.allocate()) return false;
    for (int u = 0; u < U; ++u) {
      a_[u] = arena_.get<E>(a[u]), tau_[u] = arena_.get<E>(tau[u]);
      z_[u] = arena_.get<V>(z[u]);
      kept_[u] = arena_.get<E>(kept[u]);
    }
    d_ = arena_.get<T>(d), e_ = arena_.get<T>(e), rank_ = arena_.get<T>(rank);
    t_ = arena_.get<T>(t), s_ = arena_.get<T>(s);
    w_ = arena_.get<E>(w), y_ = arena_.get<E>(y);
    work_ = arena_.get<X>(work), values_ = arena_.get<V>(values);
    order_ = arena_.get<Index>(order), row_ = arena_.get<R>(row);
    return true;
  }

  V* part(T* x, int u) const { return reinterpret_cast<V*>(x) + u; }

  void solve(std::int64_t first) {
    for (int u = 0; u < U; ++u) {
      if (first + u * W >= task_.count) { // nothing is left for this register: zeros
        for (int i = 0; i < n(); ++i) part(d_, u)[i * U] = part(e_, u)[i * U] = V(0);
        continue;
      }
      const Pack<E> pack{task_, {gather<R>(task_, first + u * W, parts, z_[u]), n()}};
      found_[u] = pack.scan();
      pack.place(found_[u], a_[u], ld_, task_.xr ? kept_[u] : nullptr);
      Traffic traffic = expect(first + u * W);
      const Tridiagonal<E> reduction = reduce_in(u, &traffic);
      reduction.reduce();
      if (wanted_ && is_complex) set_identity(z_[u]);
      if (wanted_ && !is_complex) Accumulate<E>{reduction, z_[u], ld_}.form();
    }
    unfinished_ = iterate();
    for (int u = 0; is_complex && wanted_ && u < U && first + u * W < task_.count; ++u)
      Accumulate<E>{reduce_in(u, nullptr), z_[u], ld_}.form();
    sort();
    for (int u = 0; u < U && first + u * W < task_.count; ++u) finish(first + u * W, u);
  }

  Tridiagonal<E> reduce_in(int u, Traffic* traffic) const {
    return {n(), ld_, a_[u], tau_[u], w_, y_, part(d_, u), part(e_, u), U, traffic};
  }

  // In the real rows
  void set_identity(V* z) const {
    for (int i = 0; i < n(); ++i)
      for (int j = 0; j < n(); ++j) z[i * parts * ld_ + j] = V(i == j ? R(1) : R(0));
  }

  // The register's matrices in the next group, and the vectors of those in this one, unless a group
  // would push itself out of the cache
  Traffic expect(std::int64_t first) const {
    const std::int64_t bytes = std::int64_t{n()} * n() * static_cast<std::int64_t>(sizeof(E)) / W;
    Traffic traffic{{nullptr, 0, 1}, {nullptr, 0, 1}};
    if (bytes * size > 128 * 1024) return traffic;
    if (first + size + W <= task_.count && task_.a_stride == n() * n())
      traffic.in = {static_cast<const char*>(task_.a) + (first + size) * bytes, W * bytes, n()};
    if (wanted_ && first + W <= task_.count)
      traffic.out = {static_cast<const char*>(task_.vectors) + first * bytes, W * bytes, n()};
    return traffic;
  }

  auto iterate() {
    if constexpr (N > 0) {
      T d[N], e[N];
      for (int i = 0; i < N; ++i) d[i] = d_[i], e[i] = e_[i];
      const auto unfinished = iterate(Iteration<T, N>{N, d, e, t_, s_, range_, capacity});
      for (int i = 0; i < N; ++i) d_[i] = d[i];
      return unfinished;
    } else {
      if (!wanted_) return RootFree<T>{n(), d_, e_}.run(task_.sweeps * n());
      return iterate(Iteration<T>{n(), d_, e_, t_, s_, range_, capacity});
    }
  }

  template <class I> KERNELS_INLINE auto iterate(I iteration) {
    int budget = task_.sweeps * n();
    bool left = true;
    while (left && budget > 0) {
      if (wanted_) {
        const int done = iteration.template run<true>(budget, left);
        budget -= done;
        rotate(done);
      } else {
        budget -= iteration.template run<false>(budget, left);
      }
    }
    return iteration.unfinished();
  }

  void rotate(int done) {
    if constexpr (N > 0) {
      for (int u = 0; u < U; ++u)
        whole_rows<N, N, parts * N>(z_[u], Rotations<V>{part(t_, u), part(s_, u), N * U, U}, done);
    } else {
      Sweeps<V, T, capacity> sweeps{t_, s_, range_, n(), done, {}};
      for (int k = 0; k + abreast <= done;) k += (sweeps.joined[k] = sweeps.template join<abreast>(k)) ? abreast : 1;
      for (int u = 0; u < U; ++u) sweeps.template apply<abreast>(z_[u], n(), parts * ld_, u);
    }
  }

  // The rank of each value: how many are smaller, or as small and before it
  void sort() {
    if constexpr (N > 0) return;
    const T zero(R(0)), one(R(1));
    for (int i = 0; i < n(); ++i) {
      const T di = d_[i];
      T mine = zero;
      for (int j = 0; j < i; ++j) {
        const auto before = d_[j] <= di;
        mine = mine + select(before, one, zero);
        rank_[j] = rank_[j] + select(before, zero, one);
      }
      rank_[i] = mine;
    }
  }

  // Values and columns in ascending order, by exchanges of neighbours
  void exchange(V* d, V* z) const {
    for (int end = N - 1; end > 0; --end)
      for (int j = 0; j < end; ++j) {
        const V x = d[j * U], y = d[(j + 1) * U];
        const auto swap = y < x;
        d[j * U] = select(swap, y, x);
        d[(j + 1) * U] = select(swap, x, y);
        if (!wanted_) continue;
        for (int i = 0; i < parts * N; ++i) {
          const V p = z[i * N + j], q = z[i * N + j + 1];
          z[i * N + j] = select(swap, q, p);
          z[i * N + j + 1] = select(swap, p, q);
        }
      }
  }

  void finish(std::int64_t first, int u) {
    const int lanes = first + W <= task_.count ? W : static_cast<int>(task_.count - first);
    if (wanted_) Columns<R, is_complex>{z_[u], n(), ld_, found_[u].flipped}.finish();
    if constexpr (N > 0) exchange(part(d_, u), z_[u]);
    unscale(u);
    double residual[W] = {};
    if constexpr (N > 0) {
      V values[N], vectors[N * N * parts] = {};
      for (int k = 0; k < N; ++k) values[k] = part(d_, u)[k * U];
      if (wanted_) unflip(u, vectors);
      if (task_.xr) prove(u, vectors, values, residual);
      deal_out(first, u, lanes, vectors, values);
    } else {
      write(first, u, lanes);
      if (task_.xr) {
        read_back(first, u, lanes);
        prove(u, z_[u], values_, residual);
      }
    }
    judge(first, u, lanes, residual);
  }

  void prove(int u, const V* vectors, const V* values, double* residual) {
    const Probe<E, N> probe{task_, n(), kept_[u], vectors, values, found_[u].first, found_[u].second, work_};
    for (int half = 0; half < Probe<E, N>::halves; ++half) {
      const Wide found = wanted_ ? probe.pairs(half) : probe.values_alone(half);
      __builtin_memcpy(residual + half * Wide::lanes, &found, sizeof found);
    }
  }

  // The answers as they were written, in registers' order
  void read_back(std::int64_t first, int u, int lanes) {
    const R* from[W];
    for (int w = 0; w < W; ++w) from[w] = static_cast<const R*>(task_.values) + (first + (w < lanes ? w : lanes - 1)) * n();
    interleave_within(from, n(), values_);
    if (!wanted_) return;
    const std::int64_t whole = std::int64_t{n()} * n() * parts;
    for (int w = 0; w < W; ++w) from[w] = static_cast<const R*>(task_.vectors) + (first + (w < lanes ? w : lanes - 1)) * whole;
    interleave_within(from, whole, z_[u]);
  }

  // The values in the unit of the input, -0 made 0, and which lanes keep to the range
  void unscale(int u) {
    V* d = part(d_, u);
    auto finite = found_[u].finite & found_[u].hermitian;
    const V zero(0);
    if (found_[u].scaled) {
      R *p = reinterpret_cast<R*>(d), *first = reinterpret_cast<R*>(&found_[u].first);
      R* second = reinterpret_cast<R*>(&found_[u].second);
      for (int w = 0; w < W; ++w) { // in double, so that a subnormal float is rounded once
        const double f = 1.0 / static_cast<double>(first[w]), s = 1.0 / static_cast<double>(second[w]);
        for (int k = 0; k < n(); ++k) p[k * size + w] = static_cast<R>(static_cast<double>(p[k * size + w]) * f * s);
      }
    }
    for (int k = 0; k < n(); ++k) {
      d[k * U] = d[k * U] + zero;
      finite = finite & (d[k * U] - d[k * U] == zero);
    }
    sound_ = finite;
  }

  // Components in the order of the input's rows, -0 made 0
  KERNELS_INLINE void unflip(int u, V* vectors) const {
    for (int i = 0; i < N; ++i)
      for (int q = 0; q < parts; ++q)
        for (int k = 0; k < N; ++k) {
          const V *here = z_[u] + (i * parts + q) * N + k, *there = z_[u] + ((N - 1 - i) * parts + q) * N + k;
          vectors[(i * N + k) * parts + q] = select(found_[u].flipped, *there, *here) + V(0);
        }
  }

  void deal_out(std::int64_t first, int u, int lanes, V* vectors, V* values) {
    const V nan(static_cast<R>(__builtin_nan("")));
    const auto kept = sound_ & !part_of(unfinished_, u);
    for (int k = 0; k < N; ++k) values[k] = select(kept, values[k], nan);
    deal(values, N, static_cast<R*>(task_.values) + first * N, lanes);
    if (!wanted_) return;
    for (int k = 0; k < N * N * parts; ++k) vectors[k] = select(kept, vectors[k], nan);
    deal(vectors, N * N * parts, static_cast<R*>(task_.vectors) + first * (N * N * parts), lanes);
  }

  // Status and residual of each matrix; NaN where it is not solved.
  void judge(std::int64_t first, int u, int lanes, const double* proof) {
    const auto solved = sound_ & !part_of(unfinished_, u);
    const V nan(static_cast<R>(__builtin_nan(""))), failed{R(kernels::status_failed)};
    const V refused = select(found_[u].finite, V(R(kernels::status_not_hermitian)), V(R(kernels::status_nonfinite)));
    const V wrong = select(found_[u].finite & found_[u].hermitian, failed, refused);
    const V right = task_.xr ? V(R(kernels::status_ok)) : select(solved, V(R(kernels::status_unchecked)), wrong);
    R lost[W], good[W], bad[W];
    store(lost, task_.xr ? select(solved, V(R(0)), nan) : nan);
    store(good, right);
    store(bad, wrong);
    for (int w = 0; w < lanes; ++w) {
      const float residual = static_cast<float>(proof[w] + static_cast<double>(lost[w]));
      task_.residual[first + w] = residual;
      task_.status[first + w] = static_cast<std::uint8_t>(!task_.xr || residual <= task_.threshold ? good[w] : bad[w]);
    }
    if (N == 0 && any(!solved))
      for (int w = 0; w < lanes; ++w)
        if (!lane(solved, w)) clear(first + w);
  }

  // Each lane's answer in ascending order. Row after row of Q for all lanes, so that it passes through
  // the cache once.
  void write(std::int64_t first, int u, int lanes) {
    const Order<R> order{order_, n(), Order<R>::pad(n())};
    order.fill(part(rank_, u), U);
    R* values = static_cast<R*>(task_.values) + first * n();
    for (int w = 0; w < lanes; ++w)
      for (int k = 0; k < n(); ++k) values[w * n() + k] = part(d_, u)[order.source[w * order.padded + k] * U].raw[w];
    if (!wanted_) return;
    const Rows<parts, R> rows{order, row_};
    const std::int64_t whole = std::int64_t{n()} * n() * parts;
    for (int i = 0; i < n(); ++i) {
      rows.load_row(z_[u] + i * parts * ld_, ld_);
      for (int w = 0; w < lanes; ++w) {
        const int row = lane(found_[u].flipped, w) ? n() - 1 - i : i;
        rows.store_row(w, static_cast<R*>(task_.vectors) + (first + w) * whole + row * n() * parts);
      }
    }
  }

  void clear(std::int64_t b) {
    const R nan = static_cast<R>(__builtin_nan(""));
    for (int k = 0; k < n(); ++k) static_cast<R*>(task_.values)[b * n() + k] = nan;
    if (!wanted_) return;
    R* out = static_cast<R*>(task_.vectors) + b * n() * n() * parts;
    for (int k = 0; k < n() * n() * parts; ++k) out[k] = nan;
  }

  const LanesTask& task_;
  int size_, ld_;
  bool wanted_;
  Arena arena_;
  E *a_[U], *tau_[U], *kept_[U];
  V *z_[U], *values_;
  R* row_; // of each lane
  typename Order<R>::Index* order_;
  T *d_, *e_, *rank_, *t_, *s_;
  E *w_, *y_;
  X* work_;
  int range_[2 * capacity];
  Found<V> found_[U];
  typename MaskFor<T>::Type unfinished_;
  Mask<R> sound_; // solved lanes whose values keep to the range, of the register at hand
};

template <class E> bool solve_all(const LanesTask& task) {
  if (task.n == 2) return Group<E, 2, 2>(task).run();
  if (task.n == 3) return Group<E, 2, 3>(task).run();
  if (task.n == 4) return Group<E, 2, 4>(task).run();
  const int two = task.vectors ? 32 : 256; // beyond, two leave the cache
  return task.n <= two ? Group<E, 2>(task).run() : Group<E, 1>(task).run();
}

} // namespace
