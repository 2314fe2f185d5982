// A group of matrices from memory to memory: pack, reduce, iterate, prove, unpack.
#pragma once

#include <cstdlib>

#include "lanes_iterate.hpp"
#include "lanes_probe.hpp"
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
    for (std::int64_t first = 0; first < task_.count; first += size) solve(first);
    return true;
  }

private:
  KERNELS_INLINE int n() const { return N > 0 ? N : size_; }

  bool allocate() {
    const auto n = static_cast<std::size_t>(this->n()), square = n * static_cast<std::size_t>(ld_);
    const std::size_t a = arena_.reserve<E>(square);
    std::size_t z[U], kept[U];
    for (int u = 0; u < U; ++u) {
      z[u] = arena_.reserve<E>(square);
      kept[u] = arena_.reserve<E>(n * (n + 1) / 2);
    }
    const std::size_t d = arena_.reserve<T>(n), e = arena_.reserve<T>(n), rank = arena_.reserve<T>(n);
    const std::size_t t = arena_.reserve<T>(capacity * n), s = arena_.reserve<T>(capacity * n);
    const std::size_t tau = arena_.reserve<E>(n), w = arena_.reserve<E>(n), y = arena_.reserve<E>(n);
    const std::size_t work = arena_.reserve<X>(5 * n), order = arena_.reserve<int>(W * n), values = arena_.reserve<V>(n);
    if (!arena_.allocate()) return false;
    for (int u = 0; u < U; ++u) {
      z_[u] = arena_.get<V>(z[u]);
      kept_[u] = arena_.get<E>(kept[u]);
    }
    a_ = arena_.get<E>(a), d_ = arena_.get<T>(d), e_ = arena_.get<T>(e), rank_ = arena_.get<T>(rank);
    t_ = arena_.get<T>(t), s_ = arena_.get<T>(s);
    tau_ = arena_.get<E>(tau), w_ = arena_.get<E>(w), y_ = arena_.get<E>(y);
    work_ = arena_.get<X>(work), order_ = arena_.get<int>(order), values_ = arena_.get<V>(values);
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
      pack.place(found_[u], a_, ld_, task_.xr ? kept_[u] : nullptr);
      const Tridiagonal<E> reduction{n(), ld_, a_, tau_, w_, y_, part(d_, u), part(e_, u), U};
      reduction.reduce();
      if (wanted_) Accumulate<E>{reduction, z_[u], ld_}.form();
    }
    unfinished_ = iterate();
    sort();
    for (int u = 0; u < U && first + u * W < task_.count; ++u) finish(first + u * W, u);
  }

  auto iterate() {
    if constexpr (N > 0) {
      T d[N], e[N];
      for (int i = 0; i < N; ++i) d[i] = d_[i], e[i] = e_[i];
      const auto unfinished = iterate(Iteration<T, N>{N, d, e, t_, s_, range_, capacity, N - 1});
      for (int i = 0; i < N; ++i) d_[i] = d[i];
      return unfinished;
    } else {
      return iterate(Iteration<T>{n(), d_, e_, t_, s_, range_, capacity, n() - 1});
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
        for (int q = 0; q < parts; ++q)
          whole_rows<N, N>(z_[u] + q * N * N, Rotations<V>{part(t_, u), part(s_, u), N * U, U}, done);
    } else {
      Sweeps<V, T, capacity> sweeps{t_, s_, range_, n(), done, {}};
      for (int k = 0; k + abreast <= done;) k += (sweeps.joined[k] = sweeps.template join<abreast>(k)) ? abreast : 1;
      for (int u = 0; u < U; ++u) sweeps.template apply<abreast>(z_[u], parts * n(), ld_, u);
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

  // Columns of unit length: a hundred rotations leave them some eps short or long.
  void normalise(V* z) const {
    int c = 0;
    for (; c + 4 <= n(); c += 4) normalise<4>(z + c);
    for (; c < n(); ++c) normalise<1>(z + c);
  }
  template <int J> KERNELS_INLINE void normalise(V* z) const {
    V sum[J];
    for (int b = 0; b < J; ++b) sum[b] = V(0);
    for (int i = 0; i < parts * n(); ++i)
      for (int b = 0; b < J; ++b) sum[b] = sum[b] + z[i * ld_ + b] * z[i * ld_ + b];
    for (int b = 0; b < J; ++b) sum[b] = V(R(1.5)) - V(R(0.5)) * sum[b]; // 1 / sqrt near 1
    for (int i = 0; i < parts * n(); ++i)
      for (int b = 0; b < J; ++b) z[i * ld_ + b] = z[i * ld_ + b] * sum[b];
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
    if (wanted_) normalise(z_[u]);
    if constexpr (N > 0) exchange(part(d_, u), z_[u]);
    unscale(u);
    double residual[W] = {};
    if constexpr (N > 0) {
      V values[N], vectors[N * N * parts];
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
    for (int w = 0; w < lanes; ++w) judge(first + w, u, w, residual[w]);
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
  void unflip(int u, V* vectors) const {
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

  // Status and residual of one matrix; NaN where it is not solved.
  void judge(std::int64_t b, int u, int w, double residual) {
    const bool finite = lane(found_[u].finite, w), hermitian = lane(found_[u].hermitian, w);
    const bool solved = lane(sound_, w) && !lane(part_of(unfinished_, u), w);
    std::uint8_t status = !finite ? kernels::status_nonfinite
                          : !hermitian ? kernels::status_not_hermitian
                                       : kernels::status_failed;
    float found = __builtin_nanf("");
    if (solved && task_.xr) found = static_cast<float>(residual);
    if (solved) status = !task_.xr ? kernels::status_unchecked : found <= task_.threshold ? kernels::status_ok : status;
    task_.residual[b] = found;
    task_.status[b] = status;
    if (N == 0 && !solved) clear(b);
  }

  // Each lane's answer in ascending order. Row after row of Q for all lanes, so that it passes through
  // the cache once.
  void write(std::int64_t first, int u, int lanes) {
    const R *d = reinterpret_cast<const R*>(part(d_, u)), *rank = reinterpret_cast<const R*>(part(rank_, u));
    R* values = static_cast<R*>(task_.values) + first * n();
    const std::int64_t whole = std::int64_t{n()} * n() * parts;
    for (int w = 0; w < lanes; ++w)
      for (int k = 0; k < n(); ++k) {
        order_[w * n() + k] = static_cast<int>(rank[k * size + w]);
        values[w * n() + order_[w * n() + k]] = d[k * size + w];
      }
    for (int i = 0; wanted_ && i < parts * n(); ++i)
      for (int w = 0; w < lanes; ++w) {
        const int row = lane(found_[u].flipped, w) ? n() - 1 - i / parts : i / parts;
        R* out = static_cast<R*>(task_.vectors) + (first + w) * whole + row * n() * parts + i % parts;
        const R* z = reinterpret_cast<const R*>(z_[u] + i * ld_) + w;
        const int* order = order_ + w * n();
        for (int k = 0; k < n(); ++k) out[order[k] * parts] = z[k * W] + R(0); // -0 becomes 0
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
  int* order_;
  bool wanted_;
  Arena arena_;
  E *a_, *kept_[U];
  V *z_[U], *values_;
  T *d_, *e_, *rank_, *t_, *s_;
  E *tau_, *w_, *y_;
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
  if (task.n <= 32 || !task.vectors) return Group<E, 2>(task).run();
  return Group<E, 1>(task).run();
}

} // namespace
