// A few pairs of one matrix and the proof of its form; CMakeLists.txt compiles this once for each set.
#include "bisection.hpp"
#include "subset_task.hpp"

namespace {

using kernels::SubsetTask;

template <bool C> class Subset {
public:
  static constexpr int lanes = InverseIteration::lanes;

  explicit Subset(const SubsetTask& task)
      : t_(task), n_(task.n), arena_(task.work), copy_(arena_, n_ * n_), block_(arena_, n_ * lanes),
        z_(arena_, n_), square_(arena_.take(n_)), small_(arena_.take(n_ * task.m)),
        d_(task.form), e_(task.form + n_), tri_(n_, Parts<C>(task.ar, task.ai), d_, e_, arena_) {}

  void run() {
    for (std::int64_t k = 0; k < n_ * n_; ++k) copy_.re()[k] = t_.ar[k];
    if constexpr (C)
      for (std::int64_t k = 0; k < n_ * n_; ++k) copy_.im()[k] = t_.ai[k];
    tri_.reduce();
    *t_.defect = defect();
    if (t_.m == 0) return;
    for (std::int64_t i = 0; i + 1 < n_; ++i) square_[i] = e_[i] * e_[i] + Sturm::least;
    Bisection().find({d_, square_, n_}, t_.lo, t_.m, t_.tolerance, t_.values);
    if (t_.vectors) find_vectors();
  }

private:
  void find_vectors() {
    InverseIteration(n_, t_.m, arena_).find(d_, e_, t_.values, small_);
    double *xr = block_.re(), *xi = block_.im();
    for (std::int64_t k = 0; k < t_.m; k += lanes) {
      const std::int64_t width = k + lanes <= t_.m ? lanes : t_.m - k;
      for (std::int64_t i = 0; i < n_; ++i)
        for (std::int64_t c = 0; c < lanes; ++c) xr[i * lanes + c] = c < width ? small_[(k + c) * n_ + i] : 0.0;
      if constexpr (C) clear(xi, n_ * lanes);
      tri_.template apply<lanes>(xr, xi);
      for (std::int64_t c = 0; c < width; ++c)
        for (std::int64_t i = 0; i < n_; ++i) {
          t_.vr[(k + c) * n_ + i] = xr[i * lanes + c];
          if constexpr (C) t_.vi[(k + c) * n_ + i] = xi[i * lanes + c];
        }
    }
  }

  // max(|A Q x - Q T x| / N, distance of Q from unitary) / (n eps). Lane 0 carries x, lane 1 T x.
  double defect() {
    constexpr int two = 2;
    double *pr = block_.re(), *pi = block_.im(), norm = 0.0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double before = i > 0 ? e_[i - 1] : 0.0, after = i + 1 < n_ ? e_[i] : 0.0;
      norm = larger(norm, larger(d_[i] < 0.0 ? -d_[i] : d_[i], after));
      pr[i * two] = t_.xr[i];
      pr[i * two + 1] = neighbours(t_.xr, i, before, after);
      if constexpr (C) {
        pi[i * two] = t_.xi[i];
        pi[i * two + 1] = neighbours(t_.xi, i, before, after);
      }
    }
    tri_.template apply<two>(pr, pi);
    clear(z_.re(), n_);
    if constexpr (C) clear(z_.im(), n_);
    for (std::int64_t j = 0; j < n_; ++j) add(j, pr[j * two], C ? pi[j * two] : 0.0);
    double apart = 0.0;
    for (std::int64_t i = 0; i < n_; ++i) {
      const double p = z_.re()[i] - pr[i * two + 1], q = C ? z_.im()[i] - pi[i * two + 1] : 0.0;
      apart += C ? p * p + q * q : p * p;
    }
    apart = __builtin_sqrt(apart);
    if (norm > 0.0) apart /= norm;
    const double skew = tri_.skew(), found = larger(apart, skew) / (static_cast<double>(n_) * t_.eps);
    return apart <= 0x1p1000 && skew <= 0x1p1000 ? found : __builtin_inf(); // NaN too
  }

  double neighbours(const double* x, std::int64_t i, double before, double after) const {
    return (before * (i > 0 ? x[i - 1] : 0.0) + d_[i] * x[i]) + after * (i + 1 < n_ ? x[i + 1] : 0.0);
  }

  // z += column j times a number
  void add(std::int64_t j, double p, double q) {
    const double *ar = copy_.re() + j * n_, *ai = C ? copy_.im() + j * n_ : nullptr;
    double *zr = z_.re(), *zi = z_.im();
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n_; ++i) {
      if constexpr (C) {
        zr[i] += ar[i] * p - ai[i] * q;
        zi[i] += ar[i] * q + ai[i] * p;
      } else {
        zr[i] += ar[i] * p;
      }
    }
  }

  const SubsetTask& t_;
  std::int64_t n_;
  Arena arena_;
  Parts<C> copy_, block_, z_;
  double *square_, *small_, *d_, *e_;
  Tridiagonal<C> tri_;
};

} // namespace

namespace kernels {

void KERNELS_ISA(const SubsetTask& task) {
  if (task.is_complex)
    Subset<true>(task).run();
  else
    Subset<false>(task).run();
}

} // namespace kernels
