// Sums of multiples of rows: the inner loops of factoring, reducing and judging pencils.
#pragma once

#include <cstdint>

namespace kernels {

// to -= sum over k < rows of x_k times row k; rows of `width` numbers, one after another.
void subtract_rows(double* to, const double* x, const double* rows, std::int64_t count, std::int64_t width);
void subtract_rows(double* to_re, double* to_im, const double* xr, const double* xi, const double* rr,
                   const double* ri, std::int64_t count, std::int64_t width);

// y = A x for a Hermitian A of n rows: row k conjugated is column k.
void multiply_rows(double* y, const double* x, const double* a, std::int64_t n);
void multiply_rows(double* yr, double* yi, const double* xr, const double* xi, const double* ar, const double* ai,
                   std::int64_t n);

} // namespace kernels
