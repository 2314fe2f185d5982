// The Python face of the C++ kernels. Each function loops over a batch with the GIL released and
// writes into arrays that the caller allocated; kernels/_core.pyi says what each argument is.
#include "binding.hpp"
#include "gauge.hpp"
#include "lapack.hpp"
#include "residual.hpp"
#include "scan.hpp"

namespace kernels {

void scan_stack(const Stack& a, int triangle, EachOut<bool> finite, EachOut<int> exponent,
                EachOut<double> defect) {
  const std::size_t count = a.shape(0);
  require(a.shape(1) == a.shape(2), "matrices must be square");
  require(finite.shape(0) == count && exponent.shape(0) == count && defect.shape(0) == count,
          "one output a matrix");
  compute(a.dtype(), [&]<class T>() {
    for (std::size_t b = 0; b < count; ++b) {
      const Scan found = scan(matrix<T>(a, static_cast<std::int64_t>(b)), static_cast<std::int64_t>(a.shape(1)),
                              static_cast<Triangle>(triangle));
      finite.data()[b] = found.finite;
      exponent.data()[b] = found.exponent;
      defect.data()[b] = found.defect;
    }
  });
}

// Where the answer to one matrix goes.
template <class T> struct Answer {
  Real<T>* values;
  std::int64_t values_stride;
  T* vectors; // or null
  std::int64_t row, column;

  void clear(std::int64_t n) const {
    constexpr Real<T> nan = std::numeric_limits<Real<T>>::quiet_NaN();
    for (std::int64_t k = 0; k < n; ++k) values[k * values_stride] = nan;
    if (vectors)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < n; ++k) {
          if constexpr (is_complex<T>)
            vectors[i * row + k * column] = {nan, nan};
          else
            vectors[i * row + k * column] = nan;
        }
  }

  template <class W> void take(Lapack<W>& lapack, std::int64_t n, int exponent) const {
    const Power scale(-exponent);
    for (std::int64_t k = 0; k < n; ++k)
      values[k * values_stride] = static_cast<Real<T>>(scale(static_cast<double>(lapack.values()[k])));
    if (vectors)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < n; ++k)
          vectors[i * row + k * column] = static_cast<T>(lapack.matrix()[k * n + i]);
  }
};

template <class T, class W>
void solve_stack(const Stack& a, Triangle triangle, const Each<int>& exponent, const Each<bool>& skip,
                 std::uintptr_t routine, bool divide, RowsOut& values, std::optional<StackOut>& vectors,
                 EachOut<bool>& failed) {
  const auto n = static_cast<std::int64_t>(a.shape(1));
  Lapack<W> lapack(routine, divide, vectors.has_value(), n);
  for (std::int64_t b = 0; b < static_cast<std::int64_t>(a.shape(0)); ++b) {
    Answer<T> answer{row<T>(values, b), values.stride(1), nullptr, 0, 0};
    if (vectors) {
      answer.vectors = item<T>(*vectors, b);
      answer.row = vectors->stride(1);
      answer.column = vectors->stride(2);
    }
    const bool tried = !skip.data()[b];
    const bool solved = tried && solve(lapack, matrix<T>(a, b), n, triangle, exponent.data()[b]);
    failed.data()[b] = tried && !solved;
    if (solved)
      answer.take(lapack, n, exponent.data()[b]);
    else
      answer.clear(n);
  }
}

void lapack_stack(const Stack& a, int triangle, const Each<int>& exponent, const Each<bool>& skip,
                  std::uintptr_t routine, bool divide, bool in_double, RowsOut values,
                  std::optional<StackOut> vectors, EachOut<bool> failed) {
  const std::size_t count = a.shape(0), n = a.shape(1);
  require(n > 0 && a.shape(2) == n && n <= 32000, "matrices must be square, 1 <= n <= 32000");
  require(exponent.shape(0) == count && skip.shape(0) == count && failed.shape(0) == count &&
              values.shape(0) == count && values.shape(1) == n,
          "one entry a matrix");
  if (vectors) require_vectors(a, *vectors, n);
  compute(a.dtype(), [&]<class T>() {
    require_real<T>(values);
    using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
    const auto kind = static_cast<Triangle>(triangle);
    if (in_double)
      solve_stack<T, Wide>(a, kind, exponent, skip, routine, divide, values, vectors, failed);
    else
      solve_stack<T, T>(a, kind, exponent, skip, routine, divide, values, vectors, failed);
  });
}

void residual_stack(const Stack& a, int triangle, const Each<int>& exponent, const Rows& values,
                    const std::optional<Stack>& vectors, const Probe& x,
                    bool full, double eps, double quantum, EachOut<float> out) {
  const std::size_t count = a.shape(0), n = a.shape(1), m = values.shape(1);
  require(n > 0 && a.shape(2) == n, "matrices must be square");
  require(exponent.shape(0) == count && out.shape(0) == count && values.shape(0) == count, "one entry a matrix");
  require_probe(x, n);
  require(m <= n && (vectors || m == n), "values alone must be all n of them");
  if (vectors) require_vectors(a, *vectors, m);
  compute(a.dtype(), [&]<class T>() {
    require_real<T>(values);
    const auto size = static_cast<std::int64_t>(n);
    Proof<T> proof(size, static_cast<std::int64_t>(m), vectors.has_value(), {eps, quantum});
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(count); ++b) {
      const Matrix<T> v = vectors ? matrix<T>(*vectors, b) : Matrix<T>{nullptr, 0, 0};
      double found = proof.read(matrix<T>(a, b), static_cast<Triangle>(triangle), exponent.data()[b],
                                row<T>(values, b), values.stride(1), vectors ? &v : nullptr);
      if (found == 0.0)
        found = !vectors ? proof.values() : full ? proof.full() : proof.probe(x.data(), x.data() + size);
      out.data()[b] = static_cast<float>(found);
    }
  });
}

void gauge_stack(StackOut vectors) {
  compute(vectors.dtype(), [&]<class T>() {
    const auto n = static_cast<std::int64_t>(vectors.shape(1)), m = static_cast<std::int64_t>(vectors.shape(2));
    GaugeRoom room(n, m);
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(vectors.shape(0)); ++b)
      fix_columns(Columns<T>{item<T>(vectors, b), vectors.stride(1), vectors.stride(2), n, m}, room);
  });
}

} // namespace kernels

NB_MODULE(_core, m) {
  using nb::arg;
  m.doc() = "C++ kernels; use them through the package kernels.";
  m.def("scan", &kernels::scan_stack, arg("a"), arg("triangle"), arg("finite").noconvert(),
        arg("exponent").noconvert(), arg("defect").noconvert());
  m.def("lapack", &kernels::lapack_stack, arg("a"), arg("triangle"), arg("exponent"), arg("skip"),
        arg("routine"), arg("divide"), arg("in_double"), arg("values").noconvert(),
        arg("vectors").noconvert().none(), arg("failed").noconvert());
  m.def("gauge", &kernels::gauge_stack, arg("vectors").noconvert());
  m.def("residual", &kernels::residual_stack, arg("a"), arg("triangle"), arg("exponent"), arg("values"),
        arg("vectors").none(), arg("x"), arg("full"), arg("eps"), arg("quantum"), arg("out").noconvert());
  kernels::bind_pairs(m);
  kernels::bind_lanes(m);
}
