// The Python face of a few pairs of a large matrix, and of pairs of A x = lambda B x.
#include "binding.hpp"
#include "pencils.hpp"
#include "subset.hpp"

#include <nanobind/stl/string.h>

#include <string>

namespace kernels {

using SubsetSet = void (*)(const SubsetTask&);

// The widest set that this CPU has, or the one of that name; all give the same bits.
SubsetSet find_subset([[maybe_unused]] const std::string& name) {
#if defined(KERNELS_LANES_X86)
  __builtin_cpu_init();
  if (name == "x86-64-v4" || (name.empty() && __builtin_cpu_supports("x86-64-v4"))) return subset_v4;
  if (name == "x86-64-v3" || (name.empty() && __builtin_cpu_supports("x86-64-v3"))) return subset_v3;
  if (name == "x86-64-v2" || (name.empty() && __builtin_cpu_supports("x86-64-v2"))) return subset_v2;
#endif
  return subset_plain;
}

void few_stack(const Stack& a, int triangle, const Each<bool>& skip, std::int64_t lo, const Probe& x, double eps,
               RowsOut values, std::optional<StackOut> vectors, RowsOut form, EachOut<int> power,
               EachOut<double> defect, EachOut<bool> failed, const std::string& set) {
  const SubsetSet solve = find_subset(set);
  const std::size_t count = a.shape(0), n = a.shape(1), m = values.shape(1);
  require(n > 0 && a.shape(2) == n, "matrices must be square");
  require(lo >= 0 && static_cast<std::size_t>(lo) + m <= n, "pairs must lie within the spectrum");
  require(skip.shape(0) == count && values.shape(0) == count && power.shape(0) == count &&
              defect.shape(0) == count && failed.shape(0) == count && form.shape(0) == count,
          "one entry a matrix");
  require_probe(x, n);
  require(form.shape(1) == 2 * n && form.stride(1) == 1 && form.dtype() == nb::dtype<double>(),
          "the form must be (count, 2 n) of float64");
  if (vectors) require_vectors(a, *vectors, m);
  compute(a.dtype(), [&]<class T>() {
    require_real<T>(values);
    const auto size = static_cast<std::int64_t>(n);
    Few<T> few(size, static_cast<std::int64_t>(m), vectors.has_value(), eps, solve);
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(count); ++b) {
      if (skip.data()[b]) continue;
      failed.data()[b] = !few.read(matrix<T>(a, b), static_cast<Triangle>(triangle));
      if (failed.data()[b]) continue;
      power.data()[b] = few.power();
      few.solve(lo, x.data(), static_cast<double*>(form.data()) + b * form.stride(0), defect.data() + b);
      T* to = vectors ? item<T>(*vectors, b) : nullptr;
      few.write(row<T>(values, b), values.stride(1), to, vectors ? vectors->stride(1) : 0,
                vectors ? vectors->stride(2) : 0);
    }
  });
}

void places_stack(const Rows& form, const Each<int>& power, const Rows& values, std::int64_t lo, double unit,
                  double least, EachOut<bool> in_place_out) {
  const std::size_t count = form.shape(0), m = values.shape(1);
  require(form.dtype() == nb::dtype<double>() && values.dtype() == nb::dtype<double>() && form.stride(1) == 1,
          "form and values must be float64");
  require(power.shape(0) == count && values.shape(0) == count && in_place_out.shape(0) == count, "one entry a matrix");
  nb::gil_scoped_release release;
  const DefaultArithmetic arithmetic;
  const auto n = static_cast<std::int64_t>(form.shape(1) / 2);
  Aligned<double> square(n), scaled(static_cast<std::int64_t>(m));
  for (std::int64_t b = 0; b < static_cast<std::int64_t>(count); ++b) {
    const double* d = static_cast<const double*>(form.data()) + b * form.stride(0);
    const Power scale(-power.data()[b]);
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(m); ++k)
      scaled[k] = scale(row<double>(values, b)[k * values.stride(1)]);
    in_place_out.data()[b] = in_place(d, d + n, n, scaled.get(), static_cast<std::int64_t>(m), lo, unit,
                                      scale(least), square.get());
  }
}

void require_pencil(const Stack& a, const Stack& b) {
  const std::size_t n = a.shape(1);
  require(n > 0 && a.shape(2) == n && b.shape(0) == a.shape(0) && b.shape(1) == n && b.shape(2) == n &&
              b.dtype() == a.dtype(),
          "a and b must be square and of one shape and dtype");
}

template <class T> using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;

void pencil_reduce_stack(const Stack& a, const Stack& b, int triangle, const Each<bool>& skip, const std::optional<Probe>& x,
                         double eps, StackOut reduced, StackOut factor, EachOut<int> power_a, EachOut<int> power_b,
                         EachOut<double> defect, EachOut<double> largest, EachOut<bool> definite) {
  const std::size_t count = a.shape(0), n = a.shape(1);
  require_pencil(a, b);
  for (const StackOut* out : {&reduced, &factor})
    require(out->shape(0) == count && out->shape(1) == n && out->shape(2) == n && out->stride(2) == 1 &&
                out->stride(1) == static_cast<std::int64_t>(n),
            "outputs must be (count, n, n) and contiguous");
  require(skip.shape(0) == count && power_a.shape(0) == count && power_b.shape(0) == count &&
              defect.shape(0) == count && largest.shape(0) == count && definite.shape(0) == count,
          "one entry a matrix");
  if (x) require_probe(*x, n);
  compute(a.dtype(), [&]<class T>() {
    require(reduced.dtype() == nb::dtype<T>() && factor.dtype() == nb::dtype<Wide<T>>(), "wrong dtype of an output");
    const auto size = static_cast<std::int64_t>(n);
    const auto kind = static_cast<Triangle>(triangle);
    Reduction<T> reduction(size);
    const void* known = nullptr; // one B for all is factored once
    bool good = false;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
      if (skip.data()[i]) continue;
      const Matrix<T> metric = matrix<T>(b, i);
      if (metric.data != known) good = factor_metric(reduction, metric, kind, eps);
      known = metric.data;
      definite.data()[i] = good;
      if (!good) continue;
      T* to = item<T>(reduced, i);
      reduce_pencil(reduction, matrix<T>(a, i), kind, to);
      power_a.data()[i] = reduction.power_a;
      power_b.data()[i] = reduction.power_b;
      reduction.cholesky().write(item<Wide<T>>(factor, i));
      if (!x) continue;
      defect.data()[i] = find_defect(reduction, x->data(), x->data() + size, to, eps);
      largest.data()[i] = reduction.largest;
    }
  });
}

// Values and vectors of C become those of the pencil.
void pencil_back_stack(const StackOut& factor, const Each<int>& power_a, const Each<int>& power_b, RowsOut values,
                       std::optional<StackOut> vectors) {
  const std::size_t count = factor.shape(0), n = factor.shape(1), m = values.shape(1);
  require(factor.shape(2) == n && power_a.shape(0) == count && power_b.shape(0) == count && values.shape(0) == count,
          "one entry a matrix");
  require(!vectors || (vectors->shape(0) == count && vectors->shape(1) == n && vectors->shape(2) == m),
          "vectors must be (count, n, m)");
  const auto run = [&]<class T>() {
    require(factor.dtype() == nb::dtype<Wide<T>>(), "wrong dtype of the factor");
    constexpr bool C = is_complex<T>;
    const auto size = static_cast<std::int64_t>(n), pairs = static_cast<std::int64_t>(m);
    Cholesky<C> cholesky(size);
    Split<C> x(size * pairs);
    for (std::int64_t b = 0; b < static_cast<std::int64_t>(count); ++b) {
      const Power scale(power_a.data()[b] - power_b.data()[b]), side(-power_b.data()[b] / 2);
      Real<T>* lambda = row<T>(values, b);
      for (std::int64_t k = 0; k < pairs; ++k) {
        Real<T>& value = lambda[k * values.stride(1)];
        value = static_cast<Real<T>>(scale(static_cast<double>(value)));
      }
      if (!vectors) continue;
      cholesky.read(item<Wide<T>>(factor, b));
      T* v = item<T>(*vectors, b);
      const auto at = [&](std::int64_t i, std::int64_t k) -> T& { return v[i * vectors->stride(1) + k * vectors->stride(2)]; };
      for (std::int64_t i = 0; i < size; ++i)
        for (std::int64_t k = 0; k < pairs; ++k) {
          x.re()[i * pairs + k] = static_cast<double>(std::real(at(i, k)));
          if constexpr (C) x.im()[i * pairs + k] = static_cast<double>(std::imag(at(i, k)));
        }
      cholesky.backward(x.re(), x.im(), pairs);
      for (std::int64_t i = 0; i < size; ++i)
        for (std::int64_t k = 0; k < pairs; ++k)
          at(i, k) = from_entry<T>({side(x.re()[i * pairs + k]), C ? side(x.im()[i * pairs + k]) : 0.0});
    }
  };
  if (vectors)
    compute(vectors->dtype(), [&]<class T>() {
      require_real<T>(values);
      run.template operator()<T>();
    });
  else
    compute(values.dtype(), [&]<class T>() {
      if (factor.dtype() == nb::dtype<double>())
        run.template operator()<Real<T>>();
      else
        run.template operator()<std::complex<Real<T>>>();
    });
}

void pencil_residual_stack(const Stack& a, const Stack& b, int triangle, const Rows& values, const Stack& vectors,
                           const Each<double>& floor, const Probe& x, bool full, double eps, double quantum,
                           EachOut<float> out) {
  const std::size_t count = a.shape(0), n = a.shape(1), m = values.shape(1);
  require_pencil(a, b);
  require(out.shape(0) == count && values.shape(0) == count && floor.shape(0) == count && m <= n, "one entry a matrix");
  require_probe(x, n);
  require_vectors(a, vectors, m);
  compute(a.dtype(), [&]<class T>() {
    require_real<T>(values);
    const auto size = static_cast<std::int64_t>(n);
    PencilProof<T> proof(size, static_cast<std::int64_t>(m), {eps, quantum});
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
      const Pencil<T> pencil{matrix<T>(a, i), matrix<T>(b, i), static_cast<Triangle>(triangle), row<T>(values, i),
                             values.stride(1), matrix<T>(vectors, i), floor.data()[i]};
      out.data()[i] = static_cast<float>(judge(proof, pencil, x.data(), x.data() + size, full));
    }
  });
}

void bind_pairs(nb::module_& m) {
  using nb::arg;
  m.def("few", &few_stack, arg("a"), arg("triangle"), arg("skip"), arg("lo"), arg("x"), arg("eps"),
        arg("values").noconvert(), arg("vectors").noconvert().none(), arg("form").noconvert(),
        arg("power").noconvert(), arg("defect").noconvert(), arg("failed").noconvert(), arg("isa") = "");
  m.def("places", &places_stack, arg("form"), arg("power"), arg("values"), arg("lo"), arg("unit"), arg("least"),
        arg("in_place").noconvert());
  m.def("pencil_reduce", &pencil_reduce_stack, arg("a"), arg("b"), arg("triangle"), arg("skip"), arg("x").none(), arg("eps"),
        arg("reduced").noconvert(), arg("factor").noconvert(), arg("power_a").noconvert(),
        arg("power_b").noconvert(), arg("defect").noconvert(), arg("largest").noconvert(), arg("definite").noconvert());
  m.def("pencil_back", &pencil_back_stack, arg("factor"), arg("power_a"), arg("power_b"),
        arg("values").noconvert(), arg("vectors").noconvert().none());
  m.def("pencil_residual", &pencil_residual_stack, arg("a"), arg("b"), arg("triangle"), arg("values"),
        arg("vectors"), arg("floor"), arg("x"), arg("full"), arg("eps"), arg("quantum"), arg("out").noconvert());
}

} // namespace kernels
