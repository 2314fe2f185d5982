// One Hermitian matrix inside a strided batch, and the only way its elements are read.
//
// Every element passes through `load`: scan, solver and residual therefore see the same matrix, and
// an element of a triangle that is not asked for is never looked at. Work is done in double
// whatever the storage, with + - * / sqrt alone, so that the bits are the same on every machine.
#pragma once

#include <cfenv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

namespace kernels {

enum class Triangle : int { lower = 0, upper = 1, both = 2 };

template <class T> struct Scalar {
  using Real = T;
  static constexpr bool is_complex = false;
};
template <class R> struct Scalar<std::complex<R>> {
  using Real = R;
  static constexpr bool is_complex = true;
};
template <class T> using Real = typename Scalar<T>::Real;
template <class T> inline constexpr bool is_complex = Scalar<T>::is_complex;

struct Entry {
  double re, im;
};

// The rounding mode and denormal flags belong to the thread, and a library built with -ffast-math
// may have changed them: the default for as long as we compute, what was there before afterwards.
class DefaultArithmetic {
public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

private:
  std::fenv_t before_;
};

// Memory on a 64-byte boundary. MKL's last bits depend on the alignment of its operands.
template <class T> class Aligned {
public:
  explicit Aligned(std::int64_t size)
      : data_(static_cast<T*>(::operator new(sizeof(T) * static_cast<std::size_t>(size < 1 ? 1 : size),
                                             std::align_val_t{64}))) {}
  T* get() { return data_.get(); }
  T& operator[](std::int64_t i) { return data_.get()[i]; }

private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
};

// A power of two applied in two halves, because 2^1074 itself is no double.
class Power {
public:
  explicit Power(int exponent)
      : first_(std::ldexp(1.0, exponent / 2)), second_(std::ldexp(1.0, exponent - exponent / 2)) {}
  double operator()(double x) const { return x * first_ * second_; }

private:
  double first_, second_;
};

template <class T> struct Matrix {
  const T* data;
  std::int64_t row, column; // strides in elements

  Entry at(std::int64_t i, std::int64_t j) const {
    const T& x = data[i * row + j * column];
    if constexpr (is_complex<T>)
      return {static_cast<double>(x.real()), static_cast<double>(x.imag())};
    else
      return {static_cast<double>(x), 0.0};
  }
};

template <class T> double rounded(double x) { return static_cast<double>(static_cast<Real<T>>(x)); }

inline bool is_finite(double x) { return std::fabs(x) <= std::numeric_limits<double>::max(); }

// Element (i, j), i >= j, of the lower triangle of the matrix to be solved, times a power of two.
template <class T>
Entry load(const Matrix<T>& a, std::int64_t i, std::int64_t j, Triangle triangle, const Power& scale) {
  Entry x = triangle == Triangle::upper ? a.at(j, i) : a.at(i, j);
  if (triangle == Triangle::upper) x.im = -x.im;
  x = {scale(x.re), scale(x.im)};
  if (triangle == Triangle::both) {
    const Entry y = a.at(j, i);
    x = {(x.re + scale(y.re)) * 0.5, (x.im - scale(y.im)) * 0.5};
  }
  return {rounded<T>(x.re), i == j ? 0.0 : rounded<T>(x.im)};
}

} // namespace kernels
