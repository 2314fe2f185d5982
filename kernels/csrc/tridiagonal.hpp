// A Hermitian matrix made tridiagonal by Householder reflectors, A = Q T Q^H, one matrix at a time.
//
// Compiled once an instruction set (subset_isa.cpp): everything has internal linkage and calls
// nothing but the square root. Both triangles are kept, so that every inner loop is a sum of columns
// without a reduction across the vector: it vectorises at any width, and the written order, hence
// every bit, stays the same. The rank-2 update of one step and the product of the next are one pass
// over the matrix, four columns abreast. Reflectors are I - v v^H / h (Hermitian, as in EISPACK's
// tred1), which leave complex off-diagonals; a diagonal of phases makes them real.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

namespace {

template <class T> inline void swap_values(T& x, T& y) {
  const T z = x;
  x = y;
  y = z;
}
inline double larger(double x, double y) { return x > y ? x : y; }
inline double smaller(double x, double y) { return x < y ? x : y; }
inline void clear(double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = 0.0;
}

// Sum of products in eight partial sums, the written order at any vector width.
inline double dot(const double* x, const double* y, std::int64_t n) {
  double part[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; ++l) part[l] += x[i + l] * y[i + l];
  for (int l = 0; i < n; ++i, ++l) part[l] += x[i] * y[i];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

// Numbers side by side in registers: arrays of accumulators defeat GCC's vectoriser.
template <int width> struct Abreast {
#if defined(__GNUC__)
  typedef double Raw __attribute__((vector_size(width * sizeof(double))));
  Raw raw;
  static Abreast load(const double* x) {
    Abreast found;
    __builtin_memcpy(&found.raw, x, sizeof(Raw));
    return found;
  }
  void store(double* x) const { __builtin_memcpy(x, &raw, sizeof(Raw)); }
  Abreast operator+(Abreast b) const { return {raw + b.raw}; }
  Abreast operator-(Abreast b) const { return {raw - b.raw}; }
  Abreast operator*(double b) const { return {raw * b}; }
  Abreast operator/(double b) const { return {raw / b}; }
#else
  double raw[width];
  template <class F> static Abreast each(F&& f) {
    Abreast found;
    for (int l = 0; l < width; ++l) found.raw[l] = f(l);
    return found;
  }
  static Abreast load(const double* x) { return each([&](int l) { return x[l]; }); }
  void store(double* x) const {
    for (int l = 0; l < width; ++l) x[l] = raw[l];
  }
  Abreast operator+(Abreast b) const { return each([&](int l) { return raw[l] + b.raw[l]; }); }
  Abreast operator-(Abreast b) const { return each([&](int l) { return raw[l] - b.raw[l]; }); }
  Abreast operator*(double b) const { return each([&](int l) { return raw[l] * b; }); }
  Abreast operator/(double b) const { return each([&](int l) { return raw[l] / b; }); }
#endif
};

// Memory that the caller owns, dealt out in pieces on 64-byte boundaries.
class Arena {
public:
  explicit Arena(double* start) : at_(start) {}
  double* take(std::int64_t size) {
    double* found = at_;
    at_ += (size + 7) / 8 * 8;
    return found;
  }

private:
  double* at_;
};

template <bool C> struct Parts {
  double *r, *i;
  Parts(Arena& arena, std::int64_t size) : r(arena.take(size)), i(C ? arena.take(size) : nullptr) {}
  Parts(double* re, double* im) : r(re), i(im) {}
  double* re() const { return r; }
  double* im() const { return C ? i : nullptr; }
};

template <bool C> class Tridiagonal {
public:
  // The matrix, in full, is overwritten; T goes to d and e.
  Tridiagonal(std::int64_t n, Parts<C> a, double* d, double* e, Arena& arena)
      : n_(n), a_(a), v_(arena, n), q_(arena, n), y_(arena, n), phase_(arena, n), other_(arena, n), d_(d), e_(e),
        h_(arena.take(n)) {}

  double* re(std::int64_t j) { return a_.re() + j * n_; } // column j
  double* im(std::int64_t j) { return C ? a_.im() + j * n_ : nullptr; }

  // Entries must be near 1 at most (squares are taken), the strict upper triangle filled too.
  void reduce() {
    bool pending = false; // v_ and q_ hold an update not yet made
    for (std::int64_t k = 0; k < n_; ++k) {
      if (pending) update(k);
      d_[k] = re(k)[k];
      if (k + 1 == n_) break;
      pending = reflect(k, pending);
    }
    join_phases();
  }

  // Columns of length n, `width` of them interleaved (entry i of column c at i * width + c): Q times them.
  template <int width> void apply(double* xr, double* xi) {
    if constexpr (C) {
      for (std::int64_t i = 0; i < n_; ++i) {
        const double pr = phase_.re()[i], pi = phase_.im()[i];
        for (int c = 0; c < width; ++c) {
          double &r = xr[i * width + c], &s = xi[i * width + c];
          const double t = r * pr - s * pi;
          s = r * pi + s * pr;
          r = t;
        }
      }
    } else {
      for (std::int64_t i = 0; i < n_; ++i)
        for (int c = 0; c < width; ++c) xr[i * width + c] *= phase_.re()[i];
    }
    for (std::int64_t k = n_ - 2; k >= 0; --k)
      if (h_[k] > 0.0) mirror<width>(k, xr, xi);
  }

  // How far the reflectors are from unitary, summed.
  double skew() {
    double sum = 0.0;
    for (std::int64_t k = 0; k + 1 < n_; ++k) {
      if (!(h_[k] > 0.0)) continue;
      double square = dot(re(k) + k + 1, re(k) + k + 1, n_ - k - 1);
      if constexpr (C) square += dot(im(k) + k + 1, im(k) + k + 1, n_ - k - 1);
      sum += std::fabs(square / h_[k] - 2.0) * (square / h_[k]);
    }
    return sum;
  }

private:
  // Make the pending update in column k alone, below and on the diagonal.
  void update(std::int64_t k) {
    const double *vr = v_.re(), *qr = q_.re();
    double* ar = re(k);
    if constexpr (C) {
      const double *vi = v_.im(), *qi = q_.im();
      double* ai = im(k);
      for (std::int64_t i = k; i < n_; ++i) {
        ar[i] -= (vr[i] * qr[k] + vi[i] * qi[k]) + (qr[i] * vr[k] + qi[i] * vi[k]);
        ai[i] -= (vi[i] * qr[k] - vr[i] * qi[k]) + (qi[i] * vr[k] - qr[i] * vi[k]);
      }
      ai[k] = 0.0;
    } else {
      for (std::int64_t i = k; i < n_; ++i) ar[i] -= vr[i] * qr[k] + qr[i] * vr[k];
    }
  }

  // Find the reflector of column k, leave it there, and form the update of the columns after it.
  bool reflect(std::int64_t k, bool pending) {
    const std::int64_t first = k + 1, rest = n_ - first;
    double *xr = re(k) + first, *xi = C ? im(k) + first : nullptr;
    double square = dot(xr, xr, rest);
    if constexpr (C) square += dot(xi, xi, rest);
    const double size = C ? std::sqrt(xr[0] * xr[0] + xi[0] * xi[0]) : std::fabs(xr[0]);
    const double norm = std::sqrt(square);
    // e = -c norm, c the phase of the first entry: no cancellation
    const double cr = size > 0.0 ? xr[0] / size : 1.0;
    const double ci = C && size > 0.0 ? xi[0] / size : 0.0;
    h_[k] = square + size * norm;
    e_[k] = norm;
    const bool none = rest == 1 || !(h_[k] > 0.0) || size == norm;
    phase_.re()[first] = none ? cr : -cr;
    if constexpr (C) phase_.im()[first] = none ? ci : -ci;
    if (none) {
      h_[k] = 0.0;
      e_[k] = rest == 1 || size == norm ? size : 0.0;
      if (pending) sweep<true, false>(first);
      return false;
    }
    xr[0] += cr * norm;
    if constexpr (C) xi[0] += ci * norm;
    for (std::int64_t i = 0; i < rest; ++i) other_.re()[first + i] = xr[i];
    clear(y_.re() + first, rest);
    if constexpr (C) {
      for (std::int64_t i = 0; i < rest; ++i) other_.im()[first + i] = xi[i];
      clear(y_.im() + first, rest);
    }
    if (pending)
      sweep<true, true>(first);
    else
      sweep<false, true>(first);
    swap_values(v_, other_);
    finish(first, h_[k]);
    return true;
  }

  // q = p - (v^H p / 2h) v with p = A v / h
  void finish(std::int64_t first, double h) {
    const std::int64_t rest = n_ - first;
    const double *vr = v_.re() + first, *vi = C ? v_.im() + first : nullptr;
    double *yr = y_.re() + first, *yi = C ? y_.im() + first : nullptr;
    double *qr = q_.re() + first, *qi = C ? q_.im() + first : nullptr;
    double inner = dot(vr, yr, rest);
    if constexpr (C) inner += dot(vi, yi, rest);
    const double half = inner / h / h * 0.5;
    for (std::int64_t i = 0; i < rest; ++i) qr[i] = yr[i] / h - half * vr[i];
    if constexpr (C)
      for (std::int64_t i = 0; i < rest; ++i) qi[i] = yi[i] / h - half * vi[i];
  }

  // One pass over columns first ... n-1: the pending update (v_, q_), and y_ += A other_.
  template <bool update, bool product> void sweep(std::int64_t first) {
    std::int64_t j = first;
    for (; j + 4 <= n_; j += 4) columns<update, product>(first, j, std::make_integer_sequence<int, 4>{});
    for (; j < n_; ++j) columns<update, product>(first, j, std::make_integer_sequence<int, 1>{});
  }

  // The columns are a pack and not a loop: compilers unroll a loop only after they have tried to
  // vectorise the one around it.
  template <bool update, bool product, int... c>
  void columns(std::int64_t first, std::int64_t j, std::integer_sequence<int, c...>) {
    constexpr int width = sizeof...(c);
    const std::int64_t n = n_;
    const double *__restrict vr = v_.re(), *__restrict qr = q_.re();
    double *__restrict yr = y_.re(), *__restrict ar = re(j);
    const double v[width] = {vr[j + c]...}, q[width] = {qr[j + c]...}, x[width] = {other_.re()[j + c]...};
    if constexpr (!C) {
#pragma GCC ivdep
      for (std::int64_t i = first; i < n; ++i) {
        double a[width] = {ar[c * n + i]...};
        if constexpr (update) {
          ((a[c] -= vr[i] * q[c] + qr[i] * v[c]), ...);
          ((ar[c * n + i] = a[c]), ...);
        }
        if constexpr (product) yr[i] += ((a[c] * x[c]) + ...);
      }
    } else {
      const double *__restrict vi = v_.im(), *__restrict qi = q_.im();
      double *__restrict yi = y_.im(), *__restrict ai = im(j);
      const double s[width] = {vi[j + c]...}, t[width] = {qi[j + c]...}, z[width] = {other_.im()[j + c]...};
#pragma GCC ivdep
      for (std::int64_t i = first; i < n; ++i) {
        double a[width] = {ar[c * n + i]...}, b[width] = {ai[c * n + i]...};
        if constexpr (update) {
          ((a[c] -= (vr[i] * q[c] + vi[i] * t[c]) + (qr[i] * v[c] + qi[i] * s[c])), ...);
          ((b[c] -= (vi[i] * q[c] - vr[i] * t[c]) + (qi[i] * v[c] - qr[i] * s[c])), ...);
          ((ar[c * n + i] = a[c]), ...);
          ((ai[c * n + i] = b[c]), ...);
        }
        if constexpr (product) {
          yr[i] += ((a[c] * x[c] - b[c] * z[c]) + ...);
          yi[i] += ((a[c] * z[c] + b[c] * x[c]) + ...);
        }
      }
    }
  }

  // x -= v (v^H x) / h
  template <int width> void mirror(std::int64_t k, double* xr, double* xi) {
    using Row = Abreast<width>;
    const double *vr = re(k), *vi = im(k), h = h_[k];
    Row sr{}, si{};
    for (std::int64_t i = k + 1; i < n_; ++i) {
      const Row x = Row::load(xr + i * width);
      sr = sr + x * vr[i];
      if constexpr (C) {
        const Row y = Row::load(xi + i * width);
        sr = sr + y * vi[i];
        si = si + (y * vr[i] - x * vi[i]);
      }
    }
    sr = sr / h;
    if constexpr (C) si = si / h;
    for (std::int64_t i = k + 1; i < n_; ++i) {
      const Row x = Row::load(xr + i * width);
      if constexpr (C) {
        const Row y = Row::load(xi + i * width);
        (x - (sr * vr[i] - si * vi[i])).store(xr + i * width);
        (y - (si * vr[i] + sr * vi[i])).store(xi + i * width);
      } else {
        (x - sr * vr[i]).store(xr + i * width);
      }
    }
  }

  // Entry (k+1, k) is phase_k+1 times |e_k|: each phase times all before it makes T real.
  void join_phases() {
    phase_.re()[0] = 1.0;
    if constexpr (C) phase_.im()[0] = 0.0;
    for (std::int64_t k = 1; k < n_; ++k) {
      if constexpr (C) {
        const double pr = phase_.re()[k - 1], pi = phase_.im()[k - 1];
        const double r = phase_.re()[k], s = phase_.im()[k];
        const double tr = r * pr - s * pi, ti = r * pi + s * pr;
        const double size = std::sqrt(tr * tr + ti * ti);
        phase_.re()[k] = tr / size;
        phase_.im()[k] = ti / size;
      } else {
        phase_.re()[k] *= phase_.re()[k - 1];
      }
    }
  }

  std::int64_t n_;
  Parts<C> a_, v_, q_, y_, phase_, other_;
  double *d_, *e_, *h_;
};

} // namespace
