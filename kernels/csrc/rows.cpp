#include "rows.hpp"

#include "clones.hpp"

#include <utility>

namespace kernels {
namespace {

// A pack and not a loop over the rows abreast: compilers unroll only after they tried to vectorise.
template <int... c>
KERNELS_INLINE void add_real(double* __restrict to, const double* x, double sign, const double* __restrict a,
                             std::int64_t width, std::integer_sequence<int, c...>) {
  const double p[sizeof...(c)] = {sign * x[c]...};
#pragma GCC ivdep
  for (std::int64_t j = 0; j < width; ++j) to[j] += ((p[c] * a[c * width + j]) + ...);
}

// `turn`: -1 conjugates the rows.
template <int... c>
KERNELS_INLINE void add_complex(double* __restrict tr, double* __restrict ti, const double* xr, const double* xi,
                                double sign, double turn, const double* __restrict ar,
                                const double* __restrict ai, std::int64_t width, std::integer_sequence<int, c...>) {
  const double p[sizeof...(c)] = {sign * xr[c]...}, q[sizeof...(c)] = {sign * xi[c]...};
  const double s[sizeof...(c)] = {turn * p[c]...}, t[sizeof...(c)] = {turn * q[c]...};
#pragma GCC ivdep
  for (std::int64_t j = 0; j < width; ++j) {
    tr[j] += ((p[c] * ar[c * width + j] - t[c] * ai[c * width + j]) + ...);
    ti[j] += ((q[c] * ar[c * width + j] + s[c] * ai[c * width + j]) + ...);
  }
}

using Four = std::make_integer_sequence<int, 4>;
using One = std::make_integer_sequence<int, 1>;

} // namespace

KERNELS_CLONES void subtract_rows(double* to, const double* x, const double* rows, std::int64_t count,
                                  std::int64_t width) {
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4) add_real(to, x + k, -1.0, rows + k * width, width, Four{});
  for (; k < count; ++k) add_real(to, x + k, -1.0, rows + k * width, width, One{});
}

KERNELS_CLONES void subtract_rows(double* to_re, double* to_im, const double* xr, const double* xi, const double* rr,
                                  const double* ri, std::int64_t count, std::int64_t width) {
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4)
    add_complex(to_re, to_im, xr + k, xi + k, -1.0, 1.0, rr + k * width, ri + k * width, width, Four{});
  for (; k < count; ++k)
    add_complex(to_re, to_im, xr + k, xi + k, -1.0, 1.0, rr + k * width, ri + k * width, width, One{});
}

KERNELS_CLONES void multiply_rows(double* y, const double* x, const double* a, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = 0.0;
  std::int64_t k = 0;
  for (; k + 4 <= n; k += 4) add_real(y, x + k, 1.0, a + k * n, n, Four{});
  for (; k < n; ++k) add_real(y, x + k, 1.0, a + k * n, n, One{});
}

KERNELS_CLONES void multiply_rows(double* yr, double* yi, const double* xr, const double* xi, const double* ar,
                                  const double* ai, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) yr[i] = yi[i] = 0.0;
  std::int64_t k = 0;
  for (; k + 4 <= n; k += 4) add_complex(yr, yi, xr + k, xi + k, 1.0, -1.0, ar + k * n, ai + k * n, n, Four{});
  for (; k < n; ++k) add_complex(yr, yi, xr + k, xi + k, 1.0, -1.0, ar + k * n, ai + k * n, n, One{});
}

} // namespace kernels
