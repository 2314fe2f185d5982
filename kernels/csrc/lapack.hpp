// LAPACK's ?syev(d) / ?heev(d), one matrix a call, by the address of the routine.
//
// The matrix and all workspace lie on 64-byte boundaries: with MKL the last bits of a 5 x 5 result
// otherwise depend on where in a batch the matrix lay (a packed batch is aligned to the element).
#pragma once

#include <algorithm>

#include "matrix.hpp"

namespace kernels {

template <class W> class Lapack {
public:
  using R = Real<W>;

  // `divide`: the routine is divide and conquer (?syevd, ?heevd), else QL iteration (?syev, ?heev)
  Lapack(std::uintptr_t routine, bool divide, bool vectors, std::int64_t n)
      : routine_(routine), divide_(divide), job_(vectors ? 'V' : 'N'), n_(static_cast<int>(n)),
        a_(n * n), w_(n), work_(0), rwork_(0), iwork_(0) {
    W work{};
    R rwork{};
    int iwork = 0;
    lwork_ = lrwork_ = liwork_ = -1;
    call(&work, &rwork, &iwork);
    lwork_ = length(std::real(work));
    lrwork_ = divide ? length(rwork) : std::max(1, 3 * n_ - 2);
    liwork_ = std::max(1, iwork);
    work_ = Aligned<W>(lwork_);
    rwork_ = Aligned<R>(lrwork_);
    iwork_ = Aligned<int>(liwork_);
  }

  W* matrix() { return a_.get(); } // column-major; lower triangle in, vectors out
  const R* values() { return w_.get(); }

  int solve() { return call(work_.get(), rwork_.get(), iwork_.get()); }

private:
  // A size that comes back as a float may have been rounded down: up to the next float.
  static int length(R size) {
    return std::max(1, static_cast<int>(std::nextafter(size, std::numeric_limits<R>::infinity())));
  }

  int call(W* work, R* rwork, int* iwork) {
    int info = 0;
    const char uplo = 'L';
    W* a = a_.get();
    R* w = w_.get();
    if constexpr (is_complex<W>) {
      if (divide_) {
        using F = void (*)(const char*, const char*, const int*, W*, const int*, R*, W*, const int*, R*,
                           const int*, int*, const int*, int*);
        reinterpret_cast<F>(routine_)(&job_, &uplo, &n_, a, &n_, w, work, &lwork_, rwork, &lrwork_, iwork,
                                      &liwork_, &info);
      } else {
        using F = void (*)(const char*, const char*, const int*, W*, const int*, R*, W*, const int*, R*,
                           int*);
        reinterpret_cast<F>(routine_)(&job_, &uplo, &n_, a, &n_, w, work, &lwork_, rwork, &info);
      }
    } else if (divide_) {
      using F = void (*)(const char*, const char*, const int*, W*, const int*, R*, W*, const int*, int*,
                         const int*, int*);
      reinterpret_cast<F>(routine_)(&job_, &uplo, &n_, a, &n_, w, work, &lwork_, iwork, &liwork_, &info);
    } else {
      using F = void (*)(const char*, const char*, const int*, W*, const int*, R*, W*, const int*, int*);
      reinterpret_cast<F>(routine_)(&job_, &uplo, &n_, a, &n_, w, work, &lwork_, &info);
    }
    return info;
  }

  std::uintptr_t routine_;
  bool divide_;
  char job_;
  int n_, lwork_ = -1, lrwork_ = -1, liwork_ = -1;
  Aligned<W> a_;
  Aligned<R> w_;
  Aligned<W> work_;
  Aligned<R> rwork_;
  Aligned<int> iwork_;
};

template <class W> W from_entry(Entry x) {
  if constexpr (is_complex<W>)
    return {static_cast<Real<W>>(x.re), static_cast<Real<W>>(x.im)};
  else
    return static_cast<W>(x.re);
}

// Solve one matrix of element type T in working type W. False where the routine reports failure.
template <class T, class W>
bool solve(Lapack<W>& lapack, const Matrix<T>& a, std::int64_t n, Triangle triangle, int exponent) {
  const Power scale(exponent);
  W* h = lapack.matrix();
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) h[j * n + i] = W{}; // not read; set so that no bit is left to chance
    for (std::int64_t i = j; i < n; ++i) h[j * n + i] = from_entry<W>(load(a, i, j, triangle, scale));
  }
  return lapack.solve() == 0;
}

} // namespace kernels
