#include "gauge.hpp"

#include "clones.hpp"

namespace kernels {
namespace {

constexpr std::int64_t none = -1;

// As `modulus` in scan.hpp, without a branch: where the smaller part is 0, so is the ratio.
KERNELS_INLINE double length(double re, double im) {
  const double a = std::fabs(re), b = std::fabs(im);
  const double large = a > b ? a : b, small = a > b ? b : a;
  const double ratio = small / (large == 0.0 ? 1.0 : large);
  return large * std::sqrt(1.0 + ratio * ratio);
}

template <class T> KERNELS_INLINE Entry load(const T& x) {
  if constexpr (is_complex<T>)
    return {static_cast<double>(x.real()), static_cast<double>(x.imag())};
  else
    return {static_cast<double>(x), 0.0};
}

// Moduli, the largest of each column, and a NaN where a column is not finite. Row by row: `step` is
// 1 wherever columns lie side by side, and known to the compiler there.
template <class T> KERNELS_INLINE void measure(const Columns<T>& v, GaugeRoom& room, std::int64_t step) {
  double *largest = room.largest.get(), *blemish = room.blemish.get();
  for (std::int64_t k = 0; k < v.m; ++k) largest[k] = blemish[k] = 0.0;
  for (std::int64_t i = 0; i < v.n; ++i) {
    const T* from = v.data + i * v.row;
    double* __restrict size = room.size.get() + i * v.m;
#pragma GCC ivdep
    for (std::int64_t k = 0; k < v.m; ++k) {
      const Entry x = load(from[k * step]);
      const double s = is_complex<T> ? length(x.re, x.im) : std::fabs(x.re);
      size[k] = s;
      blemish[k] += s * 0.0;
      largest[k] = s > largest[k] ? s : largest[k];
    }
  }
}

// Components within sqrt(eps) of the largest are tied and the first is taken. A complex column is
// left alone if it could have come from here: a component that is exactly real and positive would
// be the pivot but for a rounding of 8 eps. Without that, the rounding of one application could
// move a component over the edge of the tie and a second one would turn the column again.
template <class T> std::int64_t find_pivot(const Columns<T>& v, GaugeRoom& room, std::int64_t k) {
  constexpr double eps = std::numeric_limits<Real<T>>::epsilon();
  const double largest = room.largest.get()[k], *size = room.size.get() + k;
  if (room.blemish.get()[k] != 0.0 || largest == 0.0) return none; // NaN differs from 0, too
  const double edge = 1.0 - std::sqrt(eps), floor = largest * (edge - 16.0 * eps);
  std::int64_t pivot = none;
  for (std::int64_t i = 0; i < v.n; ++i) {
    if (size[i * v.m] < floor) continue; // most are: spares them the division
    const double part = size[i * v.m] / largest;
    const Entry x = load(v.at(i, k));
    if (is_complex<T> && x.im == 0.0 && x.re > 0.0 && part >= edge - 8.0 * eps) return none;
    if (pivot == none && part >= edge) pivot = i;
    if (part >= edge + 8.0 * eps) break;
  }
  return pivot;
}

// The turn of each column: cosine and sine, or for real ones the sign. Where nothing is to be
// turned the cosine is NaN.
template <class T> bool find_turns(const Columns<T>& v, GaugeRoom& room) {
  bool any = false;
  for (std::int64_t k = 0; k < v.m; ++k) {
    const std::int64_t pivot = room.pivot[k] = find_pivot(v, room, k);
    room.cosine[k] = std::numeric_limits<double>::quiet_NaN();
    if (pivot == none) continue;
    const Entry p = load(v.at(pivot, k));
    if (!is_complex<T> && !(p.re < 0.0)) continue;
    const double size = room.size[pivot * v.m + k];
    room.cosine[k] = p.re / size;
    room.sine[k] = p.im / size;
    any = true;
  }
  return any;
}

template <class T> KERNELS_INLINE void turn(const Columns<T>& v, GaugeRoom& room, std::int64_t step) {
  const double *c = room.cosine.get(), *s = room.sine.get();
  for (std::int64_t i = 0; i < v.n; ++i) {
    T* to = v.data + i * v.row;
#pragma GCC ivdep
    for (std::int64_t k = 0; k < v.m; ++k) {
      if constexpr (is_complex<T>) {
        const Entry x = load(to[k * step]);
        const bool still = c[k] != c[k];
        const double re = x.re * c[k] + x.im * s[k], im = x.im * c[k] - x.re * s[k];
        to[k * step] = {static_cast<Real<T>>(still ? x.re : re), static_cast<Real<T>>(still ? x.im : im)};
      } else {
        to[k * step] = c[k] < 0.0 ? -to[k * step] : to[k * step];
      }
    }
  }
  if constexpr (is_complex<T>)
    for (std::int64_t k = 0; k < v.m; ++k)
      if (room.pivot[k] != none) v.at(room.pivot[k], k) = {static_cast<Real<T>>(room.size[room.pivot[k] * v.m + k]), 0};
}

template <class T> KERNELS_INLINE void fix(const Columns<T>& v, GaugeRoom& room) {
  if (v.column == 1)
    measure(v, room, 1);
  else
    measure(v, room, v.column);
  if (!find_turns(v, room)) return;
  if (v.column == 1)
    turn(v, room, 1);
  else
    turn(v, room, v.column);
}

} // namespace

KERNELS_CLONES void fix_columns(const Columns<float>& v, GaugeRoom& room) { fix(v, room); }
KERNELS_CLONES void fix_columns(const Columns<double>& v, GaugeRoom& room) { fix(v, room); }
KERNELS_CLONES void fix_columns(const Columns<std::complex<float>>& v, GaugeRoom& room) { fix(v, room); }
KERNELS_CLONES void fix_columns(const Columns<std::complex<double>>& v, GaugeRoom& room) { fix(v, room); }

} // namespace kernels
