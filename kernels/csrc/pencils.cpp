#include "pencils.hpp"

#include "clones.hpp"

namespace kernels {

#define KERNELS_STEPS(T)                                                                                             \
  KERNELS_CLONES KERNELS_FLAT bool factor_metric(Reduction<T>& step, const Matrix<T>& b, Triangle triangle, double eps) {   \
    return step.factor(b, triangle, eps);                                                                            \
  }                                                                                                                  \
  KERNELS_CLONES KERNELS_FLAT void reduce_pencil(Reduction<T>& step, const Matrix<T>& a, Triangle triangle, T* to) {        \
    step.reduce(a, triangle, to);                                                                                    \
  }                                                                                                                  \
  KERNELS_CLONES KERNELS_FLAT double find_defect(Reduction<T>& step, const double* xr, const double* xi, const T* c, \
                                                 double eps) {                                                       \
    return step.defect(xr, xi, c, eps);                                                                              \
  }                                                                                                                  \
  KERNELS_CLONES KERNELS_FLAT double judge(PencilProof<T>& proof, const Pencil<T>& p, const double* xr,              \
                                           const double* xi, bool full) {                                            \
    const double found = proof.read(p.a, p.b, p.triangle, p.values, p.stride, p.vectors, p.floor);                   \
    return found != 0.0 ? found : full ? proof.full() : proof.probe(xr, xi);                                         \
  }
KERNELS_STEPS(float)
KERNELS_STEPS(double)
KERNELS_STEPS(std::complex<float>)
KERNELS_STEPS(std::complex<double>)
#undef KERNELS_STEPS

} // namespace kernels
