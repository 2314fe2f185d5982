// A few eigenpairs of a real symmetric tridiagonal matrix: bisection (Barth, Martin, Wilkinson 1967)
// and inverse iteration (as in LAPACK's ?stein), eight or sixteen shifts abreast in the vector unit.
#pragma once

#include "tridiagonal.hpp"

namespace {

// T with diagonal d and squares of the entries beside it, entries near 1 at most. The squares must
// not be 0 (`least` is added): a pivot of 0 then gives an infinite next one and is counted rightly,
// so that the loop needs no branch (Demmel, Dhillon, Ren 1995, on IEEE arithmetic in Sturm counts).
struct Sturm {
  const double* d;
  const double* square; // n - 1
  std::int64_t n;

  static constexpr double least = 0x1p-800;

  // How many eigenvalues lie below each shift.
  template <int width> void count(const double* shift, double* below) const {
    double q[width], sum[width];
    for (int l = 0; l < width; ++l) {
      q[l] = d[0] - shift[l];
      sum[l] = std::copysign(0.5, q[l]);
    }
    for (std::int64_t i = 1; i < n; ++i) {
      const double di = d[i], e = square[i - 1];
      for (int l = 0; l < width; ++l) {
        q[l] = (di - shift[l]) - e / q[l];
        sum[l] += std::copysign(0.5, q[l]);
      }
    }
    for (int l = 0; l < width; ++l) below[l] = static_cast<double>(n) * 0.5 - sum[l];
  }
};

// Bisection for the eigenvalues lo ... lo+m-1, each into an interval of `tolerance` times the norm.
class Bisection {
public:
  static constexpr int lanes = 16;

  void find(const Sturm& t, std::int64_t lo, std::int64_t m, double tolerance, double* values) {
    double low = t.d[0], high = t.d[0];
    for (std::int64_t i = 0; i < t.n; ++i) {
      const double r = (i > 0 ? std::sqrt(t.square[i - 1]) : 0.0) + (i + 1 < t.n ? std::sqrt(t.square[i]) : 0.0);
      low = smaller(low, t.d[i] - r);
      high = larger(high, t.d[i] + r);
    }
    if (high - low < 0x1p-300) { // `least` alone: a zero matrix
      clear(values, m);
      return;
    }
    const double margin = 0x1p-48 * larger(std::fabs(low), std::fabs(high)) + 0x1p-400;
    for (std::int64_t k = 0; k < m; k += lanes)
      group(t, lo + k, static_cast<int>(k + lanes <= m ? lanes : m - k), low - margin, high + margin,
            tolerance, values + k);
    for (std::int64_t k = 1; k < m; ++k) values[k] = larger(values[k], values[k - 1]);
  }

private:
  // Each eigenvalue's interval is cut by as many shifts as there are lanes for it.
  void group(const Sturm& t, std::int64_t first, int m, double low, double high, double tolerance, double* values) {
    const int each = lanes / m;
    double l[lanes], u[lanes], shift[lanes], below[lanes];
    for (int k = 0; k < lanes; ++k) l[k] = shift[k] = low, u[k] = high;
    for (int pass = 0; pass < 80; ++pass) {
      double widest = 0.0;
      for (int k = 0; k < m; ++k) {
        const double step = (u[k] - l[k]) / (each + 1);
        widest = larger(widest, u[k] - l[k]);
        for (int c = 0; c < each; ++c) shift[k * each + c] = l[k] + step * (c + 1);
      }
      if (widest <= tolerance * larger(std::fabs(low), std::fabs(high))) break;
      t.count<lanes>(shift, below);
      for (int k = 0; k < m; ++k) {
        const double rank = static_cast<double>(first + k);
        for (int c = 0; c < each; ++c) {
          const int at = k * each + c;
          if (below[at] <= rank)
            l[k] = larger(l[k], shift[at]);
          else {
            u[k] = smaller(u[k], shift[at]);
            break;
          }
        }
      }
    }
    for (int k = 0; k < m; ++k) values[k] = l[k] + (u[k] - l[k]) * 0.5;
  }
};

// (T - shift) x = y for `lanes` shifts at once: elimination with row exchanges, as in ?gttrf.
class Shifted {
public:
  static constexpr int lanes = 8;

  Shifted(std::int64_t n, Arena& arena)
      : n_(n), inverse_(arena.take(n * lanes)), u1_(arena.take(n * lanes)), u2_(arena.take(n * lanes)),
        factor_(arena.take(n * lanes)), swap_(arena.take(n * lanes)) {}

  void factor(const double* d, const double* e, const double* shift, double smallest) {
    double p[lanes], r[lanes]; // the row to be eliminated with: entries i and i+1
    for (int l = 0; l < lanes; ++l) p[l] = d[0] - shift[l], r[l] = n_ > 1 ? e[0] : 0.0;
    for (std::int64_t i = 0; i + 1 < n_; ++i) {
      const double ei = e[i], di = d[i + 1], next = i + 2 < n_ ? e[i + 1] : 0.0;
      double *inv = inverse_ + i * lanes, *u1 = u1_ + i * lanes, *u2 = u2_ + i * lanes;
      double *f = factor_ + i * lanes, *s = swap_ + i * lanes;
      for (int l = 0; l < lanes; ++l) {
        const double below = di - shift[l];
        const bool exchange = std::fabs(p[l]) < ei; // e is not negative
        double pivot = exchange ? ei : p[l];
        pivot = std::fabs(pivot) < smallest ? smallest : pivot;
        const double other = exchange ? p[l] : ei;
        const double one = 1.0 / pivot, m = other * one;
        const double a = exchange ? below : r[l], b = exchange ? next : 0.0;
        inv[l] = one;
        u1[l] = a;
        u2[l] = b;
        f[l] = m;
        s[l] = exchange ? 1.0 : 0.0;
        p[l] = (exchange ? r[l] : below) - m * a;
        r[l] = (exchange ? 0.0 : next) - m * b;
      }
    }
    double* inv = inverse_ + (n_ - 1) * lanes;
    for (int l = 0; l < lanes; ++l) inv[l] = 1.0 / (std::fabs(p[l]) < smallest ? smallest : p[l]);
  }

  void forward(double* x) {
    for (std::int64_t i = 0; i + 1 < n_; ++i) {
      const double *f = factor_ + i * lanes, *s = swap_ + i * lanes;
      double *a = x + i * lanes, *b = a + lanes;
      for (int l = 0; l < lanes; ++l) {
        const bool exchange = s[l] > 0.0;
        const double top = exchange ? b[l] : a[l], low = exchange ? a[l] : b[l];
        a[l] = top;
        b[l] = low - f[l] * top;
      }
    }
  }

  void backward(double* x) {
    double y[lanes] = {}, z[lanes] = {};
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      const double *inv = inverse_ + i * lanes, *u1 = u1_ + i * lanes, *u2 = u2_ + i * lanes;
      double* a = x + i * lanes;
      for (int l = 0; l < lanes; ++l) {
        const double upper = i + 1 < n_ ? u1[l] * y[l] + (i + 2 < n_ ? u2[l] * z[l] : 0.0) : 0.0;
        const double found = (a[l] - upper) * inv[l];
        a[l] = found;
        z[l] = y[l];
        y[l] = found;
      }
    }
  }

private:
  std::int64_t n_;
  double *inverse_, *u1_, *u2_, *factor_, *swap_;
};

// Vectors of T for m ascending values, in columns of length n; each held orthogonal to all before it.
class InverseIteration {
public:
  static constexpr int lanes = Shifted::lanes, passes = 3;

  InverseIteration(std::int64_t n, std::int64_t m, Arena& arena)
      : n_(n), m_(m), shifted_(n, arena), x_(arena.take(n * lanes)) {}

  void find(const double* d, const double* e, const double* values, double* vectors) {
    double size = 0.0;
    for (std::int64_t i = 0; i < n_; ++i) size = larger(size, std::fabs(d[i]) + (i + 1 < n_ ? e[i] : 0.0));
    if (size == 0.0) size = 1.0;
    constexpr double eps = 0x1p-52;
    double last = values[0] - size;
    for (std::int64_t k = 0; k < m_; k += lanes) {
      const int width = static_cast<int>(k + lanes <= m_ ? lanes : m_ - k);
      double shift[lanes];
      for (int l = 0; l < lanes; ++l) {
        // equal shifts would give equal vectors: apart by a few eps, as in ?stein
        const double value = values[k + (l < width ? l : width - 1)];
        if (l < width) last = larger(value, last + 4.0 * eps * size);
        shift[l] = last;
      }
      shifted_.factor(d, e, shift, eps * size);
      for (std::int64_t i = 0; i < n_; ++i)
        for (int l = 0; l < lanes; ++l) x_[i * lanes + l] = start(i, k + l);
      for (int pass = 0; pass < passes; ++pass) {
        if (pass > 0) shifted_.forward(x_);
        shifted_.backward(x_);
        settle(k, width, vectors);
      }
    }
  }

private:
  // A fixed number of modulus 1 to 2 for each entry; the bits of Weyl's sequence and a multiplication.
  static double start(std::int64_t i, std::int64_t k) {
    std::uint64_t z = static_cast<std::uint64_t>(i * 8191 + k + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    const double u = static_cast<double>(z >> 12) * 0x1p-52;
    return z & 1 ? 1.0 + u : -1.0 - u;
  }

  // Unit length, and no part along earlier vectors (twice, as one pass can leave some).
  void settle(std::int64_t k, int width, double* vectors) {
    for (int l = 0; l < width; ++l) {
      double* v = vectors + (k + l) * n_;
      double peak = 0.0;
      for (std::int64_t i = 0; i < n_; ++i) {
        v[i] = x_[i * lanes + l];
        peak = larger(peak, std::fabs(v[i]));
      }
      for (std::int64_t i = 0; i < n_; ++i) v[i] /= peak;
      normalise(v);
      for (int twice = 0; twice < 2; ++twice) {
        for (std::int64_t j = 0; j < k + l; ++j) {
          const double* u = vectors + j * n_;
          const double part = dot(u, v, n_);
          for (std::int64_t i = 0; i < n_; ++i) v[i] -= part * u[i];
        }
        normalise(v);
      }
      for (std::int64_t i = 0; i < n_; ++i) x_[i * lanes + l] = v[i];
    }
  }

  void normalise(double* v) const {
    const double length = std::sqrt(dot(v, v, n_));
    for (std::int64_t i = 0; i < n_; ++i) v[i] /= length;
  }

  std::int64_t n_, m_;
  Shifted shifted_;
  double* x_;
};

} // namespace
