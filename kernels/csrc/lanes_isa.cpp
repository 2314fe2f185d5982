// The lanes driver for one instruction set; CMakeLists.txt compiles this file once for each.
#include <type_traits>

#include "lanes_group.hpp"

namespace kernels {

bool KERNELS_ISA(const LanesTask& task) {
  if (task.single)
    return task.is_complex ? solve_all<Pair<Vec<float>>>(task) : solve_all<Vec<float>>(task);
  return task.is_complex ? solve_all<Pair<Vec<double>>>(task) : solve_all<Vec<double>>(task);
}

} // namespace kernels
