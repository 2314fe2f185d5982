// What is known of a matrix before any solver sees it.
#pragma once

#include "matrix.hpp"

namespace kernels {

struct Scan {
  bool finite;   // every value that is read
  int exponent;  // largest magnitude of a real or imaginary part is in [2^(exponent-1), 2^exponent)
  double defect; // max |A - A^H| / max |A|; 0 where one triangle alone is read
};

inline void widen(double& peak, double x) {
  if (x > peak) peak = x;
}

inline double modulus(Entry x) {
  const double a = std::fabs(x.re), b = std::fabs(x.im);
  const double large = a > b ? a : b, small = a > b ? b : a;
  if (small == 0.0) return large;
  const double ratio = small / large;
  return large * std::sqrt(1.0 + ratio * ratio);
}

// Both are looked at after division by the largest part's power of two, so that 1e307 does not overflow.
template <class T> double defect(const Matrix<T>& a, std::int64_t n, int exponent) {
  const Power scale(-exponent);
  double apart = 0.0, largest = 0.0;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      const Entry x = a.at(i, j), y = a.at(j, i);
      const Entry p{scale(x.re), scale(x.im)}, q{scale(y.re), scale(y.im)};
      widen(largest, p.re * p.re + p.im * p.im);
      widen(largest, q.re * q.re + q.im * q.im);
      if (p.re != q.re || p.im != -q.im) widen(apart, modulus({p.re - q.re, p.im + q.im}));
    }
  return apart / std::sqrt(largest);
}

template <class T> Scan scan(const Matrix<T>& a, std::int64_t n, Triangle triangle) {
  Scan result{true, 0, 0.0};
  double peak = 0.0;
  const auto look = [&](double x) {
    const double magnitude = std::fabs(x);
    result.finite &= magnitude <= std::numeric_limits<double>::max();
    widen(peak, magnitude);
  };
  const bool lower = triangle != Triangle::upper, upper = triangle != Triangle::lower;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      // LAPACK ignores the imaginary part of the diagonal; only strict and average look at it.
      const bool imaginary = is_complex<T> && (i != j || triangle == Triangle::both);
      if (lower) {
        const Entry x = a.at(i, j);
        look(x.re);
        if (imaginary) look(x.im);
      }
      if (upper) {
        const Entry x = a.at(j, i);
        look(x.re);
        if (imaginary) look(x.im);
      }
    }
  if (!result.finite || peak == 0.0) return result;
  std::frexp(peak, &result.exponent);
  if (triangle == Triangle::both) result.defect = defect(a, n, result.exponent);
  return result;
}

} // namespace kernels
