// How wrong pairs of A x = lambda B x are, in units of n eps. See docs/kernels.md for the definition.
//
// In double, in the order written here; kernels/pencil.py holds the same order in torch operations.
#pragma once

#include "generalized.hpp"

namespace kernels {

template <class T> class PencilProof {
public:
  static constexpr bool C = is_complex<T>;

  PencilProof(std::int64_t n, std::int64_t m, Precision precision)
      : n_(n), m_(m), precision_(precision), a_(n), b_(n), v_(n * m), lambda_(m), y_(n), z_(n), u_(n), s_(n), x_(m) {}

  // `floor`: max|lambda| of the scaled pencil is known to be at least this.
  // NaN where something is not finite, infinity where it leaves all range, else 0.
  double read(const Matrix<T>& a, const Matrix<T>& b, Triangle triangle, const Real<T>* values, std::int64_t stride,
              const Matrix<T>& vectors, double floor) {
    bool finite = true;
    const int power_a = read_square(a, triangle, a_, finite);
    const int power_b = read_square(b, triangle, b_, finite);
    const Power scale(power_b - power_a), side(power_b / 2);
    double largest = floor, longest = 0.0;
    for (std::int64_t k = 0; k < m_; ++k) {
      const double x = static_cast<double>(values[k * stride]);
      finite &= is_finite(x);
      lambda_[k] = scale(x);
      widen(largest, std::fabs(lambda_[k]));
    }
    for (std::int64_t k = 0; k < m_; ++k) {
      double square = 0.0;
      for (std::int64_t i = 0; i < n_; ++i) {
        const Entry x = vectors.at(i, k);
        finite &= is_finite(x.re) && is_finite(x.im);
        const double p = side(x.re), q = side(x.im);
        v_.re()[k * n_ + i] = p;
        if constexpr (C) v_.im()[k * n_ + i] = q;
        square += C ? p * p + q * q : p * p;
      }
      widen(longest, square);
    }
    if (!finite) return std::numeric_limits<double>::quiet_NaN();
    if (!is_finite(largest) || !is_finite(longest)) return std::numeric_limits<double>::infinity();
    const double size_a = peak(a_), size_b = peak(b_);
    norm_ = size_a + size_b * largest;
    stretch_ = std::max(1.0, size_b * longest);
    length_ = std::sqrt(stretch_ / size_b);
    value_eps_ = precision_.eps;
    if (norm_ > 0.0) value_eps_ = std::max(value_eps_, scale(precision_.quantum) * size_b / norm_);
    return 0.0;
  }

  double probe(const double* xr, const double* xi) {
    clear(y_), clear(u_);
    for (std::int64_t k = 0; k < m_; ++k) {
      add(y_, column(v_, k), imaginary(v_, k), xr[k], C ? xi[k] : 0.0);
      add(u_, column(v_, k), imaginary(v_, k), lambda_[k] * xr[k], C ? lambda_[k] * xi[k] : 0.0);
    }
    multiply(a_, y_, z_);
    multiply(b_, u_, s_);
    const double apart = distance(z_, s_);
    multiply(b_, y_, s_);
    inner(s_);
    double skew = 0.0;
    for (std::int64_t k = 0; k < m_; ++k) {
      const double p = x_.re()[k] - xr[k], q = C ? x_.im()[k] - xi[k] : 0.0;
      skew += C ? p * p + q * q : p * p;
    }
    return units(std::sqrt(apart), std::sqrt(skew));
  }

  double full() {
    double apart = 0.0, skew = 0.0;
    for (std::int64_t k = 0; k < m_; ++k) {
      std::copy(column(v_, k), column(v_, k) + n_, y_.re());
      if constexpr (C) std::copy(imaginary(v_, k), imaginary(v_, k) + n_, y_.im());
      multiply(a_, y_, z_);
      multiply(b_, y_, s_);
      inner(s_);
      for (std::int64_t l = 0; l < m_; ++l) {
        const double p = x_.re()[l] - (l == k ? 1.0 : 0.0), q = C ? x_.im()[l] : 0.0;
        skew += C ? p * p + q * q : p * p;
      }
      for (std::int64_t i = 0; i < n_; ++i) s_.re()[i] *= lambda_[k];
      if constexpr (C)
        for (std::int64_t i = 0; i < n_; ++i) s_.im()[i] *= lambda_[k];
      apart += distance(z_, s_);
    }
    return units(std::sqrt(apart), std::sqrt(skew));
  }

private:
  double* column(Split<C>& x, std::int64_t k) { return x.re() + k * n_; }
  double* imaginary(Split<C>& x, std::int64_t k) { return C ? x.im() + k * n_ : nullptr; }

  void clear(Split<C>& x) {
    std::fill(x.re(), x.re() + n_, 0.0);
    if constexpr (C) std::fill(x.im(), x.im() + n_, 0.0);
  }

  double peak(Square<C>& a) {
    double largest = 0.0;
    for (std::int64_t k = 0; k < n_ * n_; ++k) {
      const double p = a.x.re()[k], q = C ? a.x.im()[k] : 0.0;
      widen(largest, C ? p * p + q * q : p * p);
    }
    return std::sqrt(largest);
  }

  // y += a x for a column a and a number x
  void add(Split<C>& y, const double* ar, const double* ai, double xr, double xi) {
    double *__restrict yr = y.re(), *__restrict yi = y.im();
    if constexpr (C) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n_; ++i) {
        yr[i] += ar[i] * xr - ai[i] * xi;
        yi[i] += ar[i] * xi + ai[i] * xr;
      }
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n_; ++i) yr[i] += ar[i] * xr;
    }
  }

  void multiply(Square<C>& a, Split<C>& x, Split<C>& y) {
    if constexpr (C)
      multiply_rows(y.re(), y.im(), x.re(), x.im(), a.re(0), a.im(0), n_);
    else
      multiply_rows(y.re(), x.re(), a.re(0), n_);
  }

  // x_ = V^H y
  void inner(Split<C>& y) {
    for (std::int64_t k = 0; k < m_; ++k) {
      const double *vr = column(v_, k), *vi = imaginary(v_, k);
      x_.re()[k] = dot(vr, y.re(), n_);
      if constexpr (C) {
        x_.re()[k] += dot(vi, y.im(), n_);
        x_.im()[k] = dot(vr, y.im(), n_) - dot(vi, y.re(), n_);
      }
    }
  }

  double distance(Split<C>& x, Split<C>& y) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double p = x.re()[i] - y.re()[i], q = C ? x.im()[i] - y.im()[i] : 0.0;
      sum += C ? p * p + q * q : p * p;
    }
    return sum;
  }

  double units(double apart, double skew) const {
    if (std::isnan(apart) || std::isnan(skew)) return std::numeric_limits<double>::infinity();
    const double n = static_cast<double>(n_);
    const double first = apart == 0.0 ? 0.0 : apart / (norm_ * length_) / (n * value_eps_);
    return std::max(first, skew / stretch_ / (n * precision_.eps));
  }

  std::int64_t n_, m_;
  Precision precision_;
  double norm_ = 0.0, stretch_ = 1.0, length_ = 1.0, value_eps_ = 0.0;
  Square<C> a_, b_;
  Split<C> v_;
  Aligned<double> lambda_;
  Split<C> y_, z_, u_, s_, x_;
};

} // namespace kernels
