// What the functions that Python sees share: kinds of arrays, and the step from a dtype to a type.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/optional.h>

#include <cstddef>
#include <optional>

#include "matrix.hpp"

namespace nb = nanobind;

namespace kernels {

using Stack = nb::ndarray<nb::ro, nb::ndim<3>, nb::device::cpu>;
using Rows = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using StackOut = nb::ndarray<nb::ndim<3>, nb::device::cpu>;
using RowsOut = nb::ndarray<nb::ndim<2>, nb::device::cpu>;
template <class T> using Each = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu, nb::c_contig>;
template <class T> using EachOut = nb::ndarray<T, nb::ndim<1>, nb::device::cpu, nb::c_contig>;

template <class F> void dispatch(nb::dlpack::dtype type, F&& f) {
  if (type == nb::dtype<float>())
    f.template operator()<float>();
  else if (type == nb::dtype<double>())
    f.template operator()<double>();
  else if (type == nb::dtype<std::complex<float>>())
    f.template operator()<std::complex<float>>();
  else if (type == nb::dtype<std::complex<double>>())
    f.template operator()<std::complex<double>>();
  else
    throw nb::value_error("expected float32, float64, complex64 or complex128");
}

template <class T> Matrix<T> matrix(const Stack& a, std::int64_t b) {
  return {static_cast<const T*>(a.data()) + b * a.stride(0), a.stride(1), a.stride(2)};
}

inline void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

void bind_pairs(nb::module_& m);
void bind_lanes(nb::module_& m); // lanes.cpp

} // namespace kernels
