// The steps of A x = lambda B x for one matrix, compiled for several instruction sets (clones.hpp).
#pragma once

#include "pencil.hpp"

namespace kernels {

// What is judged: A, B and pairs, the values `stride` apart; `floor` as PencilProof::read has it.
template <class T> struct Pencil {
  Matrix<T> a, b;
  Triangle triangle;
  const Real<T>* values;
  std::int64_t stride;
  Matrix<T> vectors;
  double floor;
};

#define KERNELS_STEPS(T)                                                                              \
  bool factor_metric(Reduction<T>& step, const Matrix<T>& b, Triangle triangle, double eps);                 \
  void reduce_pencil(Reduction<T>& step, const Matrix<T>& a, Triangle triangle, T* to);                      \
  double find_defect(Reduction<T>& step, const double* xr, const double* xi, const T* c, double eps); \
  double judge(PencilProof<T>& proof, const Pencil<T>& pencil, const double* xr, const double* xi, bool full);
KERNELS_STEPS(float)
KERNELS_STEPS(double)
KERNELS_STEPS(std::complex<float>)
KERNELS_STEPS(std::complex<double>)
#undef KERNELS_STEPS

} // namespace kernels
