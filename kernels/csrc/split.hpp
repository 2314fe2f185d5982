// Vectors of real or complex numbers with their parts apart, and their inner products.
#pragma once

#include "matrix.hpp"

namespace kernels {

// Sum of products in eight partial sums, the written order at any vector width.
inline double dot(const double* x, const double* y, std::int64_t n) {
  double part[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; ++l) part[l] += x[i + l] * y[i + l];
  for (int l = 0; i < n; ++i, ++l) part[l] += x[i] * y[i];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

template <bool C> class Split {
public:
  explicit Split(std::int64_t size) : re_(size), im_(C ? size : 0) {}
  double* re() { return re_.get(); }
  double* im() { return C ? im_.get() : nullptr; }

private:
  Aligned<double> re_, im_;
};

} // namespace kernels
