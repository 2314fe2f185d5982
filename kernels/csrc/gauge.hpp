// The phase of an eigenvector: its largest component real and positive.
#pragma once

#include "scan.hpp"

namespace kernels {

// Components within sqrt(eps) of the largest are tied and the first is taken. A complex column is
// left alone if it could have come from here: a component that is exactly real and positive would
// be the pivot but for a rounding of 8 eps. Without that, the rounding of one application could
// move a component over the edge of the tie and a second one would turn the column again.
template <class T> std::int64_t find_pivot(const Matrix<T>& v, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t none = -1;
  constexpr double eps = std::numeric_limits<Real<T>>::epsilon();
  double largest = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double size = modulus(v.at(i, k));
    if (!is_finite(size)) return none;
    widen(largest, size);
  }
  if (largest == 0.0) return none;
  const double edge = 1.0 - std::sqrt(eps);
  std::int64_t pivot = none;
  for (std::int64_t i = 0; i < n; ++i) {
    const Entry x = v.at(i, k);
    const double size = modulus(x) / largest;
    if (is_complex<T> && x.im == 0.0 && x.re > 0.0 && size >= edge - 8.0 * eps) return none;
    if (pivot == none && size >= edge) pivot = i;
    if (size >= edge + 8.0 * eps) break;
  }
  return pivot;
}

template <class T> void fix_column(T* data, const Matrix<T>& v, std::int64_t n, std::int64_t k) {
  const std::int64_t pivot = find_pivot(v, n, k);
  if (pivot < 0) return;
  const Entry p = v.at(pivot, k);
  const double length = modulus(p);
  for (std::int64_t i = 0; i < n; ++i) {
    T& x = data[i * v.row + k * v.column];
    if constexpr (is_complex<T>) {
      const double c = p.re / length, s = p.im / length;
      const Entry e = v.at(i, k);
      x = {static_cast<Real<T>>(e.re * c + e.im * s), static_cast<Real<T>>(e.im * c - e.re * s)};
      if (i == pivot) x = {static_cast<Real<T>>(length), 0};
    } else if (p.re < 0.0) {
      x = -x;
    }
  }
}

} // namespace kernels
