// The lanes driver's instruction sets, which of them this CPU has, and the Python face.
#include "binding.hpp"
#include "lanes_task.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace kernels {

namespace {

using LanesSet = bool (*)(const LanesTask&);
constexpr std::size_t largest = 256;

struct Set {
  const char* name;
  LanesSet solve;
  bool here;
};

std::vector<Set> compiled() {
  std::vector<Set> sets;
#if defined(KERNELS_LANES_X86)
  __builtin_cpu_init();
  sets.push_back({"x86-64-v4", lanes_v4, __builtin_cpu_supports("x86-64-v4") != 0});
  sets.push_back({"x86-64-v3", lanes_v3, __builtin_cpu_supports("x86-64-v3") != 0});
  sets.push_back({"x86-64-v2", lanes_v2, __builtin_cpu_supports("x86-64-v2") != 0});
#endif
#if defined(KERNELS_LANES)
  sets.push_back({"plain", lanes_plain, true});
#endif
  return sets;
}

// Names of the sets that run here, the widest first.
std::vector<std::string> lanes_sets() {
  std::vector<std::string> names;
  for (const Set& set : compiled())
    if (set.here) names.emplace_back(set.name);
  return names;
}

// The set of that name, or null. All give the same bits.
LanesSet find_lanes(const std::string& name) {
  for (const Set& set : compiled())
    if (set.here && name == set.name) return set.solve;
  return nullptr;
}

// How many of `asked` threads are worth starting: each takes some 20 to 50 microseconds to come.
int count_threads(int asked, double n, double count) {
  const double seconds = 0.25e-9 * (n + 5) * (n + 5) * (n + 5) * count; // as measured, roughly
  return std::max(1, std::min(asked, static_cast<int>(seconds / 50e-6)));
}

// False: out of memory. With fewer threads than asked for where the system has no more.
bool solve_together(LanesSet solve, LanesTask task) {
  std::int64_t next = 0;
  task.next = &next;
  std::atomic<bool> enough = true;
  const auto work = [&] {
    const DefaultArithmetic arithmetic;
    if (!solve(task)) enough = false;
  };
  std::vector<std::thread> others;
  try {
    others.reserve(static_cast<std::size_t>(task.threads));
    for (int k = 1; k < task.threads; ++k) others.emplace_back(work);
  } catch (const std::system_error&) {
  }
  work();
  for (std::thread& other : others) other.join();
  return enough;
}

void lanes_stack(const Stack& a, int triangle, double tolerance, nb::ndarray<nb::ndim<2>, nb::device::cpu, nb::c_contig> values,
                 std::optional<nb::ndarray<nb::ndim<3>, nb::device::cpu, nb::c_contig>> vectors,
                 std::optional<nb::ndarray<const double, nb::ndim<2>, nb::c_contig>> x, double threshold, int sweeps,
                 EachOut<float> residual, EachOut<std::uint8_t> status, const std::string& set, int threads) {
  const std::size_t count = a.shape(0), n = a.shape(1);
  require(n > 0 && a.shape(2) == n && n <= largest, "matrices must be square, 1 <= n <= 256");
  require(values.shape(0) == count && values.shape(1) == n && residual.shape(0) == count && status.shape(0) == count,
          "one entry a matrix");
  require(!vectors || (vectors->shape(0) == count && vectors->shape(1) == n && vectors->shape(2) == n &&
                       vectors->dtype() == a.dtype()),
          "vectors must have the shape and dtype of a");
  require(!x || (x->shape(0) == 2 && x->shape(1) == n), "the probe must be (2, n)");
  const LanesSet solve = find_lanes(set);
  require(solve != nullptr, "no such instruction set here");
  if (count == 0) return;
  dispatch(a.dtype(), [&]<class T>() {
    require(values.dtype() == nb::dtype<Real<T>>(), "values must have the real dtype of a");
    const LanesTask task{std::is_same_v<Real<T>, float>, is_complex<T>, static_cast<std::int64_t>(n),
                         static_cast<std::int64_t>(count), a.data(), a.stride(0), a.stride(1), a.stride(2), triangle,
                         tolerance, values.data(), vectors ? vectors->data() : nullptr, x ? x->data() : nullptr,
                         x ? x->data() + n : nullptr, threshold, sweeps, residual.data(), status.data(), nullptr,
                         count_threads(threads, static_cast<double>(n), static_cast<double>(count))};
    bool enough;
    {
      nb::gil_scoped_release release;
      enough = solve_together(solve, task);
    }
    if (!enough) throw std::bad_alloc();
  });
}

} // namespace

void bind_lanes(nb::module_& m) {
  using nb::arg;
  m.def("lanes", &lanes_stack, arg("a"), arg("triangle"), arg("tolerance"), arg("values").noconvert(),
        arg("vectors").noconvert().none(), arg("x").none(), arg("threshold"), arg("sweeps"),
        arg("residual").noconvert(), arg("status").noconvert(), arg("isa"), arg("threads"));
  m.def("lanes_sets", &lanes_sets);
}

} // namespace kernels
