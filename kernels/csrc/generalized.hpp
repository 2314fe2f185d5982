// A x = lambda B x with B = L L^H: C = L^-1 A L^-H, x = L^-H y; and how wrong such pairs are.
//
// One matrix at a time, in double, rows as vectors (a row minus multiples of other rows), so that
// the written order is kept at any vector width. A and B are taken times even powers of two that
// bring their largest part to [1/4, 1): lambda and x go back by exact powers.
#pragma once

#include <algorithm>
#include <cmath>

#include "lapack.hpp"
#include "residual.hpp"
#include "rows.hpp"
#include "split.hpp"

namespace kernels {

// Rows of n numbers, split into parts.
template <bool C> struct Square {
  std::int64_t n;
  Split<C> x;

  explicit Square(std::int64_t size) : n(size), x(size * size) {}
  double* re(std::int64_t i) { return x.re() + i * n; }
  double* im(std::int64_t i) { return C ? x.im() + i * n : nullptr; }
};

// An even exponent e so that the largest part lies in [2^(e-2), 2^e); 0 for a zero matrix.
inline int even_exponent(double peak) {
  int e = 0;
  if (peak > 0.0 && is_finite(peak)) std::frexp(peak, &e);
  return e + (e & 1);
}

// Read a Hermitian matrix whole; return the exponent taken out. Not finite: `finite` is false.
template <class T> int read_square(const Matrix<T>& a, Triangle triangle, Square<is_complex<T>>& to, bool& finite) {
  constexpr bool C = is_complex<T>;
  const std::int64_t n = to.n;
  double peak = 0.0;
  const auto look = [&](double x) {
    finite &= is_finite(x);
    widen(peak, std::fabs(x));
  };
  const Power half(triangle == Triangle::both ? -2 : 0); // a sum of two must stay in range
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      const Entry x = load(a, i, j, triangle, half);
      look(x.re);
      look(x.im);
      to.re(i)[j] = to.re(j)[i] = x.re;
      if constexpr (C) {
        to.im(i)[j] = x.im;
        to.im(j)[i] = -x.im;
      }
    }
  const int exponent = even_exponent(peak);
  const Power scale(-exponent);
  for (std::int64_t k = 0; k < n * n; ++k) to.x.re()[k] = scale(to.x.re()[k]);
  if constexpr (C)
    for (std::int64_t k = 0; k < n * n; ++k) to.x.im()[k] = scale(to.x.im()[k]);
  return exponent + (triangle == Triangle::both ? 2 : 0);
}

template <bool C>
void subtract(double* tr, double* ti, const double* xr, const double* xi, const double* rr, const double* ri,
              std::int64_t rows, std::int64_t width) {
  if constexpr (C)
    subtract_rows(tr, ti, xr, xi, rr, ri, rows, width);
  else
    subtract_rows(tr, xr, rr, rows, width);
}

// B = L L^H; L with its rows as vectors, and its conjugate transpose for the way back.
template <bool C> class Cholesky {
public:
  explicit Cholesky(std::int64_t n) : n_(n), lower_(n), upper_(n), inverse_(n) {}

  Square<C>& lower() { return lower_; }

  // Factor what lies in upper_ (B, both triangles). False where a pivot is not above n eps times the
  // entry of B that it came from: not positive definite in this precision.
  bool factor(Square<C>& b, double eps) {
    for (std::int64_t j = 0; j < n_; ++j) {
      // row j of U = L^H: b_j minus earlier rows of U times their entry (k, j), conjugated
      double *ur = upper_.re(j), *ui = upper_.im(j);
      std::copy(b.re(j), b.re(j) + n_, ur);
      if constexpr (C) std::copy(b.im(j), b.im(j) + n_, ui);
      subtract<C>(ur, ui, lower_.re(j), lower_.im(j), upper_.re(0), upper_.im(0), j, n_);
      const double pivot = ur[j];
      if (!(pivot > static_cast<double>(n_) * eps * b.re(j)[j]) || !is_finite(pivot)) return false;
      const double root = std::sqrt(pivot), inverse = 1.0 / root;
      inverse_[j] = inverse;
      for (std::int64_t i = 0; i < n_; ++i) {
        ur[i] = i < j ? 0.0 : ur[i] * inverse;
        lower_.re(i)[j] = ur[i];
        if constexpr (C) {
          ui[i] = i <= j ? 0.0 : ui[i] * inverse;
          lower_.im(i)[j] = -ui[i];
        }
      }
    }
    return true;
  }

  // Rows of `x` (n of them, `width` long) become L^-1 x.
  void forward(double* xr, double* xi, std::int64_t width) {
    for (std::int64_t i = 0; i < n_; ++i) {
      double *tr = xr + i * width, *ti = C ? xi + i * width : nullptr;
      subtract<C>(tr, ti, lower_.re(i), lower_.im(i), xr, xi, i, width);
      divide(tr, ti, inverse_[i], width);
    }
  }

  // L^-H x
  void backward(double* xr, double* xi, std::int64_t width) {
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      double *tr = xr + i * width, *ti = C ? xi + i * width : nullptr;
      const std::int64_t at = (i + 1) * width;
      subtract<C>(tr, ti, upper_.re(i) + i + 1, C ? upper_.im(i) + i + 1 : nullptr, xr + at, C ? xi + at : nullptr,
                  n_ - 1 - i, width);
      divide(tr, ti, inverse_[i], width);
    }
  }

  // The factor kept from an earlier call: L in row order.
  template <class W> void write(W* to) {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j < n_; ++j) to[i * n_ + j] = from_entry<W>({lower_.re(i)[j], C ? lower_.im(i)[j] : 0.0});
  }
  template <class W> void read(const W* from) {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        const W x = from[i * n_ + j];
        upper_.re(j)[i] = std::real(x);
        if constexpr (C) upper_.im(j)[i] = -std::imag(x);
      }
    for (std::int64_t i = 0; i < n_; ++i) inverse_[i] = 1.0 / upper_.re(i)[i];
  }

private:
  void divide(double* tr, double* ti, double inverse, std::int64_t width) const {
    for (std::int64_t j = 0; j < width; ++j) tr[j] *= inverse;
    if constexpr (C)
      for (std::int64_t j = 0; j < width; ++j) ti[j] *= inverse;
  }

  std::int64_t n_;
  Square<C> lower_, upper_;
  Aligned<double> inverse_;
};

template <class T> class Reduction {
public:
  static constexpr bool C = is_complex<T>;

  explicit Reduction(std::int64_t n) : n_(n), a_(n), b_(n), c_(n), cholesky_(n), y_(n), z_(n), u_(n), t_(n) {}

  Cholesky<C>& cholesky() { return cholesky_; }
  int power_a = 0, power_b = 0;
  double largest = 0.0; // part of C: no more than max|lambda|

  bool factor(const Matrix<T>& b, Triangle triangle, double eps) {
    bool finite = true;
    power_b = read_square(b, triangle, b_, finite);
    return finite && cholesky_.factor(b_, eps);
  }

  // C = L^-1 A L^-H into `to`, row by row.
  void reduce(const Matrix<T>& a, Triangle triangle, T* to) {
    bool finite = true;
    power_a = read_square(a, triangle, a_, finite);
    std::copy(a_.x.re(), a_.x.re() + n_ * n_, c_.x.re());
    if constexpr (C) std::copy(a_.x.im(), a_.x.im() + n_ * n_, c_.x.im());
    cholesky_.forward(c_.x.re(), c_.x.im(), n_);
    transpose();
    cholesky_.forward(c_.x.re(), c_.x.im(), n_);
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j < n_; ++j)
        to[i * n_ + j] = from_entry<T>({c_.re(i)[j], C && i != j ? c_.im(i)[j] : 0.0});
  }

  // max(|L C L^H x - A x| / max|c|, |L L^H x - B x|) / (n eps): the largest parts of A and B are near 1.
  double defect(const double* xr, const double* xi, const T* c, double eps) {
    double& largest = this->largest;
    largest = 0.0;
    for (std::int64_t k = 0; k < n_ * n_; ++k) {
      widen(largest, std::fabs(static_cast<double>(std::real(c[k]))));
      if constexpr (C) widen(largest, std::fabs(static_cast<double>(std::imag(c[k]))));
    }
    Square<C>& l = cholesky_.lower();
    adjoint_times(l, xr, xi, y_.re(), y_.im());
    times([&](std::int64_t i, std::int64_t j) { return Entry{l.re(i)[j], C ? l.im(i)[j] : 0.0}; }, y_, z_, true);
    const double second = apart(b_, xr, xi, z_);
    times(
        [&](std::int64_t i, std::int64_t j) { // the lower triangle is what is solved
          const T x = i >= j ? c[i * n_ + j] : c[j * n_ + i];
          return Entry{static_cast<double>(std::real(x)), static_cast<double>(i >= j ? std::imag(x) : -std::imag(x))};
        },
        y_, u_, false);
    times([&](std::int64_t i, std::int64_t j) { return Entry{l.re(i)[j], C ? l.im(i)[j] : 0.0}; }, u_, z_, true);
    double first = apart(a_, xr, xi, z_);
    if (first > 0.0) first /= std::max(1.0, largest);
    const double found = std::max(first, second) / (static_cast<double>(n_) * eps);
    return std::isnan(first) || std::isnan(second) ? std::numeric_limits<double>::infinity() : found;
  }

private:
  void transpose() {
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        std::swap(c_.re(i)[j], c_.re(j)[i]);
        if constexpr (C) {
          const double p = c_.im(i)[j], q = c_.im(j)[i];
          c_.im(i)[j] = -q;
          c_.im(j)[i] = -p;
        }
      }
  }

  // y = L^H x
  void adjoint_times(Square<C>& l, const double* xr, const double* xi, double* yr, double* yi) {
    std::fill(yr, yr + n_, 0.0);
    if constexpr (C) std::fill(yi, yi + n_, 0.0);
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        const double p = l.re(i)[j];
        if constexpr (C) {
          const double q = l.im(i)[j];
          yr[j] += p * xr[i] + q * xi[i];
          yi[j] += p * xi[i] - q * xr[i];
        } else {
          yr[j] += p * xr[i];
        }
      }
  }

  template <class Get> void times(Get&& get, Split<C>& x, Split<C>& y, bool lower) {
    for (std::int64_t i = 0; i < n_; ++i) {
      double sr = 0.0, si = 0.0;
      for (std::int64_t j = 0; j < (lower ? i + 1 : n_); ++j) {
        const Entry a = get(i, j);
        if constexpr (C) {
          sr += a.re * x.re()[j] - a.im * x.im()[j];
          si += a.re * x.im()[j] + a.im * x.re()[j];
        } else {
          sr += a.re * x.re()[j];
        }
      }
      y.re()[i] = sr;
      if constexpr (C) y.im()[i] = si;
    }
  }

  // |A x - z|
  double apart(Square<C>& a, const double* xr, const double* xi, Split<C>& z) {
    if constexpr (C)
      multiply_rows(t_.re(), t_.im(), xr, xi, a.re(0), a.im(0), n_);
    else
      multiply_rows(t_.re(), xr, a.re(0), n_);
    double sum = 0.0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double p = t_.re()[i] - z.re()[i], q = C ? t_.im()[i] - z.im()[i] : 0.0;
      sum += C ? p * p + q * q : p * p;
    }
    return std::sqrt(sum);
  }

  std::int64_t n_;
  Square<C> a_, b_, c_;
  Cholesky<C> cholesky_;
  Split<C> y_, z_, u_, t_;
};

} // namespace kernels
