// Which matrices a thread takes next, and the calls ahead into the cache for them.
#pragma once

#include "lanes_task.hpp"
#include "lanes_vector.hpp"

namespace {

using kernels::LanesTask;

// Memory called into the cache in good time, some lines a step.
class Ahead {
public:
  // `bytes` from `at` on, in `steps` steps
  Ahead(const void* at, std::int64_t bytes, int steps)
      : at_(static_cast<const char*>(at)), end_(at_ + bytes), each_((bytes / steps + 127) / 64 * 64) {}

  template <bool to_write> KERNELS_INLINE void step() {
    for (const char* stop = at_ + each_; at_ < stop && at_ < end_; at_ += 64) __builtin_prefetch(at_, to_write, 2);
  }

private:
  const char *at_, *end_;
  std::int64_t each_;
};

// While a register's matrices are reduced: the next group is read, and room made for their vectors.
// (Hardware follows a few streams, not one for each matrix.)
struct Traffic {
  Ahead in, out;

  KERNELS_INLINE void step() {
    in.step<false>();
    out.step<true>();
  }
};

// Matrices first to stop, taken in pieces that get smaller, so that all threads end together.
struct Share {
  std::int64_t first, stop;

  // In whole groups of `size`; nothing is left if it is empty.
  static Share take(const LanesTask& task, std::int64_t size) {
    std::int64_t first = __atomic_load_n(task.next, __ATOMIC_RELAXED), stop;
    do {
      const std::int64_t part = (task.count - first) / (2 * task.threads);
      stop = first + (part / size + 1) * size;
      stop = stop < task.count && task.threads > 1 ? stop : task.count;
    } while (!__atomic_compare_exchange_n(task.next, &first, stop, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return {first, stop};
  }
};

} // namespace
