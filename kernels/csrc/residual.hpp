// How wrong an eigendecomposition is, in units of n eps. See docs/kernels.md for the definition.
//
// Everything is computed in double, in the order written here, without BLAS: the number depends on
// the matrix and its answer alone. kernels/plain.py holds the same order in torch operations.
#pragma once

#include <algorithm>

#include "scan.hpp"

namespace kernels {

struct Precision {
  double eps;     // of the coarser of solving and storing
  double quantum; // spacing of the stored values near zero
};

template <class T> class Proof {
public:
  static constexpr bool C = is_complex<T>;
  static constexpr std::int64_t abreast = 8; // inner products side by side, to hide the latency of +

  Proof(std::int64_t n, std::int64_t m, bool vectors, Precision precision)
      : n_(n), m_(m), precision_(precision), ar_(n * n), ai_(C ? n * n : 0), vr_(vectors ? n * m : 0),
        vi_(C && vectors ? n * m : 0), lambda_(m), work_(8 * std::max(n, m)) {}

  // Read the problem; NaN where something is not finite, infinity where it leaves all range, else 0.
  double read(const Matrix<T>& a, Triangle triangle, int exponent, const Real<T>* values,
              std::int64_t stride, const Matrix<T>* vectors) {
    bool finite = true;
    double peak = 0.0;
    const auto look = [&](double x) {
      finite &= is_finite(x);
      widen(peak, std::fabs(x));
    };
    const Power scale(exponent);
    for (std::int64_t j = 0; j < n_; ++j)
      for (std::int64_t i = j; i < n_; ++i) {
        const Entry x = load(a, i, j, triangle, scale);
        look(x.re);
        ar_[j * n_ + i] = ar_[i * n_ + j] = x.re;
        if constexpr (C) {
          look(x.im);
          ai_[i * n_ + j] = -x.im;
          ai_[j * n_ + i] = x.im;
        }
      }
    for (std::int64_t k = 0; k < m_; ++k) {
      const double x = static_cast<double>(values[k * stride]);
      finite &= is_finite(x);
      lambda_[k] = scale(x);
      widen(peak, std::fabs(lambda_[k]));
    }
    if (vectors)
      for (std::int64_t k = 0; k < m_; ++k)
        for (std::int64_t i = 0; i < n_; ++i) {
          const Entry x = vectors->at(i, k);
          finite &= is_finite(x.re) && is_finite(x.im);
          vr_[k * n_ + i] = x.re;
          if constexpr (C) vi_[k * n_ + i] = x.im;
        }
    if (!finite) return std::numeric_limits<double>::quiet_NaN();
    if (!is_finite(peak)) return std::numeric_limits<double>::infinity();
    normalise(peak, scale(precision_.quantum));
    return 0.0;
  }

  // One fixed vector x (n entries of which the first m are used).
  double probe(const double* xr, const double* xi) {
    double *yr = work_.get(), *yi = yr + span(), *ur = yi + span(), *ui = ur + span();
    double *zr = ui + span(), *zi = zr + span();
    std::fill(yr, yr + 6 * span(), 0.0);
    for (std::int64_t k = 0; k < m_; ++k) {
      add(yr, yi, column(vr_, k), imaginary(vi_, k), xr[k], C ? xi[k] : 0.0);
      add(ur, ui, column(vr_, k), imaginary(vi_, k), lambda_[k] * xr[k], C ? lambda_[k] * xi[k] : 0.0);
    }
    for (std::int64_t j = 0; j < n_; ++j)
      add(zr, zi, column(ar_, j), imaginary(ai_, j), yr[j], C ? yi[j] : 0.0);
    double apart = 0.0;
    for (std::int64_t i = 0; i < n_; ++i) apart += square(zr[i] - ur[i], C ? zi[i] - ui[i] : 0.0);
    double skew = 0.0;
    double *gr = ur, *gi = ui; // no longer needed
    inner(gr, gi, yr, yi);
    for (std::int64_t k = 0; k < m_; ++k) skew += square(gr[k] - xr[k], C ? gi[k] - xi[k] : 0.0);
    return units(std::sqrt(apart), std::sqrt(skew));
  }

  // Frobenius norms of the whole of A V - V L and V^H V - 1.
  double full() {
    double *zr = work_.get(), *zi = zr + span(), *gr = zi + span(), *gi = gr + span();
    double apart = 0.0, skew = 0.0;
    for (std::int64_t k = 0; k < m_; ++k) {
      double *pr = column(vr_, k), *pi = imaginary(vi_, k);
      std::fill(zr, zr + 2 * span(), 0.0);
      for (std::int64_t j = 0; j < n_; ++j) add(zr, zi, column(ar_, j), imaginary(ai_, j), pr[j], C ? pi[j] : 0.0);
      for (std::int64_t i = 0; i < n_; ++i)
        apart += square(zr[i] - lambda_[k] * pr[i], C ? zi[i] - lambda_[k] * pi[i] : 0.0);
      inner(gr, gi, pr, pi);
      for (std::int64_t l = 0; l < m_; ++l) skew += square(gr[l] - (l == k ? 1.0 : 0.0), C ? gi[l] : 0.0);
    }
    return units(std::sqrt(apart), std::sqrt(skew));
  }

  // Without vectors: order, trace and sum of squares.
  double values() {
    double sum = 0.0, squares = 0.0, trace = 0.0, norm = 0.0, drop = 0.0;
    for (std::int64_t k = 0; k < m_; ++k) {
      sum += lambda_[k];
      squares += lambda_[k] * lambda_[k];
      if (k > 0) widen(drop, lambda_[k - 1] - lambda_[k]);
    }
    for (std::int64_t j = 0; j < n_; ++j) {
      trace += ar_[j * n_ + j];
      double part = 0.0;
      for (std::int64_t i = 0; i < n_; ++i) part += square(ar_[j * n_ + i], C ? ai_[j * n_ + i] : 0.0);
      norm += part;
    }
    if (norm_ == 0.0) return 0.0;
    const double first = std::fabs(sum - trace) / norm_;
    const double second = std::fabs(squares - norm) / (norm_ * norm_);
    return std::max({first, second, drop / norm_}) / (static_cast<double>(n_) * value_eps_);
  }

private:
  std::int64_t span() const { return std::max(n_, m_); }
  double* column(Aligned<double>& x, std::int64_t k) { return x.get() + k * n_; }
  double* imaginary(Aligned<double>& x, std::int64_t k) { return C ? column(x, k) : nullptr; }
  static double square(double re, double im) {
    if constexpr (C)
      return re * re + im * im;
    else
      return re * re;
  }

  // Bring everything near 1 where squares could leave the range (exact: a power of two), then find
  // N. Stored values below the smallest normal number have a coarser spacing than eps N.
  void normalise(double peak, double quantum) {
    if (peak > 0.0 && (peak < 0x1p-200 || peak > 0x1p200)) {
      int exponent = 0;
      std::frexp(peak, &exponent);
      const Power scale(-exponent);
      for (std::int64_t i = 0; i < n_ * n_; ++i) ar_[i] = scale(ar_[i]);
      if constexpr (C)
        for (std::int64_t i = 0; i < n_ * n_; ++i) ai_[i] = scale(ai_[i]);
      for (std::int64_t k = 0; k < m_; ++k) lambda_[k] = scale(lambda_[k]);
      quantum = scale(quantum);
    }
    double largest = 0.0;
    for (std::int64_t i = 0; i < n_ * n_; ++i) widen(largest, square(ar_[i], C ? ai_[i] : 0.0));
    norm_ = std::sqrt(largest);
    for (std::int64_t k = 0; k < m_; ++k) widen(norm_, std::fabs(lambda_[k]));
    value_eps_ = norm_ > 0.0 ? std::max(precision_.eps, quantum / norm_) : precision_.eps;
  }

  double units(double apart, double skew) const {
    // The input was finite, so a NaN is inf - inf: an error beyond all range.
    if (std::isnan(apart) || std::isnan(skew)) return std::numeric_limits<double>::infinity();
    const double n = static_cast<double>(n_);
    const double first = apart == 0.0 ? 0.0 : apart / norm_ / (n * value_eps_);
    return std::max(first, skew / (n * precision_.eps));
  }

  // y += a x for a column a and a number x
  void add(double* __restrict yr, double* __restrict yi, const double* __restrict ar,
           const double* __restrict ai, double xr, double xi) const {
    if constexpr (C)
      for (std::int64_t i = 0; i < n_; ++i) {
        yr[i] += ar[i] * xr - ai[i] * xi;
        yi[i] += ar[i] * xi + ai[i] * xr;
      }
    else
      for (std::int64_t i = 0; i < n_; ++i) yr[i] += ar[i] * xr;
  }

  // g_k = sum over i of conj(v_ik) y_i, from the first i to the last
  void inner(double* gr, double* gi, const double* yr, const double* yi) {
    std::int64_t k = 0;
    for (; k + abreast <= m_; k += abreast) inner_columns<abreast>(gr + k, gi + k, k, yr, yi);
    for (; k < m_; ++k) inner_columns<1>(gr + k, gi + k, k, yr, yi);
  }

  template <std::int64_t width>
  void inner_columns(double* gr, double* gi, std::int64_t first, const double* yr, const double* yi) {
    const double *vr = column(vr_, first), *vi = imaginary(vi_, first);
    double re[width] = {}, im[width] = {};
    for (std::int64_t i = 0; i < n_; ++i)
      for (std::int64_t b = 0; b < width; ++b) {
        const std::int64_t at = b * n_ + i;
        if constexpr (C) {
          re[b] += vr[at] * yr[i] + vi[at] * yi[i];
          im[b] += vr[at] * yi[i] - vi[at] * yr[i];
        } else {
          re[b] += vr[at] * yr[i];
        }
      }
    for (std::int64_t b = 0; b < width; ++b) {
      gr[b] = re[b];
      if constexpr (C) gi[b] = im[b];
    }
  }

  std::int64_t n_, m_;
  Precision precision_;
  double norm_ = 0.0, value_eps_ = 0.0;
  Aligned<double> ar_, ai_, vr_, vi_, lambda_, work_;
};

} // namespace kernels
