// The pairs lo ... lo+m-1 of one matrix: read here, found by subset_isa.cpp; and whether values are in place.
//
// The tridiagonal form T is handed back with a measure of how far A is from Q T Q^H, found by a
// probe: Sturm counts of T then bound every claimed value from both sides, whoever claims it.
#pragma once

#include <algorithm>

#include "bisection.hpp"
#include "lapack.hpp"
#include "scan.hpp"
#include "split.hpp"
#include "subset_task.hpp"

namespace kernels {

template <class T> class Few {
public:
  static constexpr bool C = is_complex<T>;

  Few(std::int64_t n, std::int64_t m, bool vectors, double eps, void (*solve)(const SubsetTask&))
      : n_(n), m_(m), solve_(solve), a_(n * n), values_(m), v_(vectors ? n * m : 0), work_(subset_work(n, m, C)) {
    task_ = {C,        vectors,         n,       0,       m,       eps,     std::min(eps, 0x1p-27), a_.re(),
             a_.im(),  nullptr,         nullptr, nullptr, values_.get(), v_.re(), v_.im(), nullptr, work_.get()};
  }

  // Read the matrix times a power of two, its largest part then in [1/2, 1). False: not finite.
  bool read(const Matrix<T>& a, Triangle triangle) {
    double peak = 0.0;
    bool finite = true;
    const Power none(0);
    for (std::int64_t j = 0; j < n_; ++j)
      for (std::int64_t i = j; i < n_; ++i) {
        const Entry x = load(a, i, j, triangle, none);
        put(i, j, x);
        widen(peak, std::fabs(x.re));
        widen(peak, std::fabs(x.im));
        finite &= is_finite(x.re) && is_finite(x.im);
      }
    if (!finite) return false; // (x + y) / 2 may leave all range
    power_ = 0;
    if (peak > 0.0) std::frexp(peak, &power_);
    const Power scale(-power_);
    for (std::int64_t k = 0; k < n_ * n_; ++k) a_.re()[k] = scale(a_.re()[k]);
    if constexpr (C)
      for (std::int64_t k = 0; k < n_ * n_; ++k) a_.im()[k] = scale(a_.im()[k]);
    return true;
  }

  int power() const { return power_; }

  void solve(std::int64_t lo, const double* x, double* form, double* defect) {
    task_.lo = lo;
    task_.xr = x;
    task_.xi = x + n_;
    task_.form = form;
    task_.defect = defect;
    solve_(task_);
  }

  void write(Real<T>* values, std::int64_t stride, T* vectors, std::int64_t row, std::int64_t column) {
    const Power scale(power_);
    for (std::int64_t k = 0; k < m_; ++k) values[k * stride] = static_cast<Real<T>>(scale(values_[k]));
    if (!vectors) return;
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t k = 0; k < m_; ++k)
        vectors[i * row + k * column] = from_entry<T>({v_.re()[k * n_ + i], C ? v_.im()[k * n_ + i] : 0.0});
  }

private:
  void put(std::int64_t i, std::int64_t j, Entry x) {
    a_.re()[j * n_ + i] = a_.re()[i * n_ + j] = x.re;
    if constexpr (C) {
      a_.im()[j * n_ + i] = x.im;
      a_.im()[i * n_ + j] = -x.im;
    }
  }

  std::int64_t n_, m_;
  int power_ = 0;
  void (*solve_)(const SubsetTask&);
  Split<C> a_;
  Aligned<double> values_;
  Split<C> v_;
  Aligned<double> work_;
  SubsetTask task_;
};

// Whether each of m ascending values can be the eigenvalue lo + k of T, to within delta, `unit` times
// the norm or `least`. Fewer than lo + k + 1 eigenvalues must lie below value - delta, and at least as
// many below value + delta: a cluster narrower than delta may be cut anywhere inside it.
inline bool in_place(const double* d, const double* e, std::int64_t n, const double* values, std::int64_t m,
                     std::int64_t lo, double unit, double least, double* square) {
  constexpr int lanes = 8;
  double norm = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    widen(norm, std::fabs(d[i]));
    if (i + 1 < n) {
      widen(norm, e[i]);
      square[i] = e[i] * e[i] + Sturm::least;
    }
  }
  for (std::int64_t k = 0; k < m; ++k) widen(norm, std::fabs(values[k]));
  const double delta = std::max({unit * norm, least, 0x1p-390}); // well above the root of Sturm::least
  const Sturm sturm{d, square, n};
  for (std::int64_t k = 0; k < m; k += lanes / 2) {
    double shift[lanes], below[lanes];
    for (int c = 0; c < lanes; ++c) {
      const double x = values[std::min(k + c / 2, m - 1)];
      shift[c] = c % 2 ? x + delta : x - delta;
    }
    sturm.count<lanes>(shift, below);
    for (int c = 0; c < lanes && k + c / 2 < m; ++c) {
      const double rank = static_cast<double>(lo + k + c / 2);
      if (c % 2 == 0 ? !(below[c] <= rank) : !(below[c] >= rank + 1.0)) return false;
    }
  }
  return true;
}

} // namespace kernels
