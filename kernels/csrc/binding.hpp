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
using Probe = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu, nb::c_contig>;
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

// As `dispatch`, for what touches numbers alone: without the GIL, and with subnormal numbers kept.
template <class F> void compute(nb::dlpack::dtype type, F&& f) {
  dispatch(type, [&]<class T>() {
    const nb::gil_scoped_release release;
    const DefaultArithmetic arithmetic;
    f.template operator()<T>();
  });
}

template <class T> Matrix<T> matrix(const Stack& a, std::int64_t b) {
  return {static_cast<const T*>(a.data()) + b * a.stride(0), a.stride(1), a.stride(2)};
}

template <class T> T* item(const StackOut& a, std::int64_t b) { return static_cast<T*>(a.data()) + b * a.stride(0); }

template <class T> Real<T>* row(const RowsOut& values, std::int64_t b) {
  return static_cast<Real<T>*>(values.data()) + b * values.stride(0);
}
template <class T> const Real<T>* row(const Rows& values, std::int64_t b) {
  return static_cast<const Real<T>*>(values.data()) + b * values.stride(0);
}

inline void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

inline void require_probe(const Probe& x, std::size_t n) {
  require(x.shape(0) == 2 && x.shape(1) == n, "the probe must be (2, n)");
}

template <class Vectors> void require_vectors(const Stack& a, const Vectors& v, std::size_t pairs) {
  require(v.shape(0) == a.shape(0) && v.shape(1) == a.shape(1) && v.shape(2) == pairs && v.dtype() == a.dtype(),
          "vectors must be (count, n, pairs) of the dtype of a");
}

template <class T, class Values> void require_real(const Values& values) {
  require(values.dtype() == nb::dtype<Real<T>>(), "values must have the real dtype of a");
}

void bind_pairs(nb::module_& m);
void bind_lanes(nb::module_& m); // lanes.cpp

} // namespace kernels
