// A register of numbers, one matrix a lane, and masks over lanes.
//
// Included by lanes_isa.cpp alone, which is compiled once an instruction set: everything here has
// internal linkage, so that the linker cannot give one set's code to another. Only + - * / sqrt,
// comparisons and selections: each is exact or correctly rounded on every CPU, so the bits of a
// lane are the same whatever the width.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

#define KERNELS_INLINE inline __attribute__((always_inline))

#if defined(__AVX512F__) && defined(__AVX512DQ__)
constexpr int register_bytes = 64;
#elif defined(__AVX2__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

template <class R> struct Register; // vector_size wants a type that is no template's parameter
template <> struct Register<double> {
  using Integer = std::int64_t;
  typedef double Raw __attribute__((vector_size(register_bytes)));
  typedef std::int64_t Bits __attribute__((vector_size(register_bytes)));
};
template <> struct Register<float> {
  using Integer = std::int32_t;
  typedef float Raw __attribute__((vector_size(register_bytes)));
  typedef std::int32_t Bits __attribute__((vector_size(register_bytes)));
};

template <class R> struct Vec {
  using Real = R;
  static constexpr int lanes = register_bytes / static_cast<int>(sizeof(R));
  using Raw = typename Register<R>::Raw;
  using Bits = typename Register<R>::Bits;
  Raw raw;

  Vec() = default;
  KERNELS_INLINE Vec(R x) : raw(x - Raw{}) {} // x - 0 is x, for -0 too
  KERNELS_INLINE explicit Vec(Raw x) : raw(x) {}
};

#define KERNELS_BOTH(op)                                                                               \
  template <class R> KERNELS_INLINE Vec<R> operator op(Vec<R> a, Vec<R> b) { return Vec<R>(a.raw op b.raw); }
KERNELS_BOTH(+)
KERNELS_BOTH(-)
KERNELS_BOTH(*)
KERNELS_BOTH(/)
#undef KERNELS_BOTH
template <class R> KERNELS_INLINE Vec<R> operator-(Vec<R> a) { return Vec<R>(-a.raw); }

#if defined(__AVX512F__) && defined(__AVX512DQ__)

template <class R> struct Mask {
  using Raw = std::conditional_t<sizeof(R) == 8, __mmask8, __mmask16>;
  Raw raw;
};
template <class R> KERNELS_INLINE Mask<R> operator&(Mask<R> a, Mask<R> b) {
  return {static_cast<typename Mask<R>::Raw>(a.raw & b.raw)};
}
template <class R> KERNELS_INLINE Mask<R> operator|(Mask<R> a, Mask<R> b) {
  return {static_cast<typename Mask<R>::Raw>(a.raw | b.raw)};
}
template <class R> KERNELS_INLINE Mask<R> operator!(Mask<R> a) {
  return {static_cast<typename Mask<R>::Raw>(~a.raw)};
}
template <class R> KERNELS_INLINE bool any(Mask<R> a) { return a.raw != 0; }
template <class R> KERNELS_INLINE bool lane(Mask<R> a, int w) { return (a.raw >> w) & 1; }
#define KERNELS_COMPARE(op, code)                                                                      \
  KERNELS_INLINE Mask<double> operator op(Vec<double> a, Vec<double> b) {                              \
    return {_mm512_cmp_pd_mask(a.raw, b.raw, code)};                                                   \
  }                                                                                                    \
  KERNELS_INLINE Mask<float> operator op(Vec<float> a, Vec<float> b) {                                 \
    return {_mm512_cmp_ps_mask(a.raw, b.raw, code)};                                                   \
  }
KERNELS_COMPARE(<, _CMP_LT_OQ)
KERNELS_COMPARE(<=, _CMP_LE_OQ)
KERNELS_COMPARE(==, _CMP_EQ_OQ)
#undef KERNELS_COMPARE
KERNELS_INLINE Vec<double> select(Mask<double> m, Vec<double> a, Vec<double> b) {
  return Vec<double>(_mm512_mask_blend_pd(m.raw, b.raw, a.raw));
}
KERNELS_INLINE Vec<float> select(Mask<float> m, Vec<float> a, Vec<float> b) {
  return Vec<float>(_mm512_mask_blend_ps(m.raw, b.raw, a.raw));
}
KERNELS_INLINE Vec<double> root(Vec<double> a) { return Vec<double>(_mm512_maskz_sqrt_pd(0xff, a.raw)); }
KERNELS_INLINE Vec<float> root(Vec<float> a) { return Vec<float>(_mm512_maskz_sqrt_ps(0xffff, a.raw)); }

#else

template <class R> struct Mask {
  typename Vec<R>::Bits raw;
};
template <class R> KERNELS_INLINE Mask<R> operator&(Mask<R> a, Mask<R> b) { return {a.raw & b.raw}; }
template <class R> KERNELS_INLINE Mask<R> operator|(Mask<R> a, Mask<R> b) { return {a.raw | b.raw}; }
template <class R> KERNELS_INLINE Mask<R> operator!(Mask<R> a) { return {~a.raw}; }
template <class R> KERNELS_INLINE bool lane(Mask<R> a, int w) { return a.raw[w] != 0; }
template <class R> KERNELS_INLINE bool any(Mask<R> a) {
#if defined(__AVX2__)
  return _mm256_movemask_epi8((__m256i)a.raw) != 0;
#elif defined(__x86_64__)
  return _mm_movemask_epi8((__m128i)a.raw) != 0;
#else
  bool found = false;
  for (int w = 0; w < Vec<R>::lanes; ++w) found |= a.raw[w] != 0;
  return found;
#endif
}
template <class R> KERNELS_INLINE Mask<R> operator<(Vec<R> a, Vec<R> b) {
  return {(typename Vec<R>::Bits)(a.raw < b.raw)};
}
template <class R> KERNELS_INLINE Mask<R> operator<=(Vec<R> a, Vec<R> b) {
  return {(typename Vec<R>::Bits)(a.raw <= b.raw)};
}
template <class R> KERNELS_INLINE Mask<R> operator==(Vec<R> a, Vec<R> b) {
  return {(typename Vec<R>::Bits)(a.raw == b.raw)};
}
template <class R> KERNELS_INLINE Vec<R> select(Mask<R> m, Vec<R> a, Vec<R> b) {
#if defined(__AVX2__)
  if constexpr (sizeof(R) == 8)
    return Vec<R>(_mm256_blendv_pd(b.raw, a.raw, (__m256d)m.raw));
  else
    return Vec<R>(_mm256_blendv_ps(b.raw, a.raw, (__m256)m.raw));
#elif defined(__SSE4_1__)
  if constexpr (sizeof(R) == 8)
    return Vec<R>(_mm_blendv_pd(b.raw, a.raw, (__m128d)m.raw));
  else
    return Vec<R>(_mm_blendv_ps(b.raw, a.raw, (__m128)m.raw));
#else
  using Bits = typename Vec<R>::Bits;
  return Vec<R>((typename Vec<R>::Raw)((m.raw & (Bits)a.raw) | (~m.raw & (Bits)b.raw)));
#endif
}
template <class R> KERNELS_INLINE Vec<R> root(Vec<R> a) {
#if defined(__AVX2__)
  if constexpr (sizeof(R) == 8)
    return Vec<R>(_mm256_sqrt_pd(a.raw));
  else
    return Vec<R>(_mm256_sqrt_ps(a.raw));
#elif defined(__x86_64__)
  if constexpr (sizeof(R) == 8)
    return Vec<R>(_mm_sqrt_pd(a.raw));
  else
    return Vec<R>(_mm_sqrt_ps(a.raw));
#else
  for (int w = 0; w < Vec<R>::lanes; ++w) a.raw[w] = sizeof(R) == 8 ? __builtin_sqrt(a.raw[w]) : __builtin_sqrtf(a.raw[w]);
  return a;
#endif
}

#endif

template <class R> KERNELS_INLINE Vec<R> magnitude(Vec<R> a) {
  using Bits = typename Vec<R>::Bits;
  constexpr typename Register<R>::Integer rest = ~(typename Register<R>::Integer(1) << (8 * sizeof(R) - 1));
  return Vec<R>((typename Vec<R>::Raw)((Bits)a.raw & rest));
}
// |a| with the sign of b
template <class R> KERNELS_INLINE Vec<R> with_sign(Vec<R> a, Vec<R> b) {
  using Bits = typename Vec<R>::Bits;
  constexpr typename Register<R>::Integer rest = ~(typename Register<R>::Integer(1) << (8 * sizeof(R) - 1));
  return Vec<R>((typename Vec<R>::Raw)(((Bits)a.raw & rest) | ((Bits)b.raw & ~rest)));
}
template <class R> KERNELS_INLINE Vec<R> larger(Vec<R> a, Vec<R> b) { return select(b < a, a, b); }

template <class V> struct MaskFor { using Type = Mask<typename V::Real>; };

// Two registers side by side, to hide the latency of square roots and divisions.
template <class R> struct Twin {
  using Real = R;
  static constexpr int lanes = 2 * Vec<R>::lanes;
  Vec<R> x, y;
  Twin() = default;
  KERNELS_INLINE Twin(R a) : x(a), y(a) {}
  KERNELS_INLINE Twin(Vec<R> a, Vec<R> b) : x(a), y(b) {}
};
template <class R> struct TwinMask {
  Mask<R> x, y;
};
template <class R> struct MaskFor<Twin<R>> { using Type = TwinMask<R>; };
#define KERNELS_TWIN(op)                                                                               \
  template <class R> KERNELS_INLINE Twin<R> operator op(Twin<R> a, Twin<R> b) { return {a.x op b.x, a.y op b.y}; }
KERNELS_TWIN(+)
KERNELS_TWIN(-)
KERNELS_TWIN(*)
KERNELS_TWIN(/)
#undef KERNELS_TWIN
template <class R> KERNELS_INLINE Twin<R> operator-(Twin<R> a) { return {-a.x, -a.y}; }
#define KERNELS_TWIN(op)                                                                               \
  template <class R> KERNELS_INLINE TwinMask<R> operator op(Twin<R> a, Twin<R> b) {                    \
    return {a.x op b.x, a.y op b.y};                                                                   \
  }
KERNELS_TWIN(<)
KERNELS_TWIN(<=)
KERNELS_TWIN(==)
#undef KERNELS_TWIN
template <class R> KERNELS_INLINE TwinMask<R> operator&(TwinMask<R> a, TwinMask<R> b) { return {a.x & b.x, a.y & b.y}; }
template <class R> KERNELS_INLINE TwinMask<R> operator|(TwinMask<R> a, TwinMask<R> b) { return {a.x | b.x, a.y | b.y}; }
template <class R> KERNELS_INLINE TwinMask<R> operator!(TwinMask<R> a) { return {!a.x, !a.y}; }
template <class R> KERNELS_INLINE bool any(TwinMask<R> a) { return any(a.x | a.y); }
template <class R> KERNELS_INLINE bool lane(TwinMask<R> a, int w) {
  return w < Vec<R>::lanes ? lane(a.x, w) : lane(a.y, w - Vec<R>::lanes);
}
template <class R> KERNELS_INLINE Twin<R> select(TwinMask<R> m, Twin<R> a, Twin<R> b) {
  return {select(m.x, a.x, b.x), select(m.y, a.y, b.y)};
}
template <class R> KERNELS_INLINE Twin<R> root(Twin<R> a) { return {root(a.x), root(a.y)}; }
template <class R> KERNELS_INLINE Twin<R> magnitude(Twin<R> a) { return {magnitude(a.x), magnitude(a.y)}; }
template <class R> KERNELS_INLINE Twin<R> with_sign(Twin<R> a, Twin<R> b) { return {with_sign(a.x, b.x), with_sign(a.y, b.y)}; }
template <class R> KERNELS_INLINE Twin<R> larger(Twin<R> a, Twin<R> b) { return {larger(a.x, b.x), larger(a.y, b.y)}; }

template <class R> KERNELS_INLINE Mask<R> part_of(Mask<R> m, int) { return m; }
template <class R> KERNELS_INLINE Mask<R> part_of(TwinMask<R> m, int u) { return u == 0 ? m.x : m.y; }

// The largest over lanes of small whole numbers kept as reals
template <int h, class R, std::size_t... k>
KERNELS_INLINE R largest(Vec<R> a, std::index_sequence<k...> all) {
  if constexpr (h < Vec<R>::lanes)
    return largest<2 * h>(larger(a, Vec<R>(__builtin_shufflevector(a.raw, a.raw, (k ^ h)...))), all);
  else
    return a.raw[0];
}
template <class R> KERNELS_INLINE int most(Vec<R> a) {
  return static_cast<int>(largest<1>(a, std::make_index_sequence<Vec<R>::lanes>()));
}
template <class R> KERNELS_INLINE int most(Twin<R> a) { return most(larger(a.x, a.y)); }

// Rows of a square become its columns: stage h exchanges the off-diagonal h x h blocks.
template <int h, class R, std::size_t... k>
KERNELS_INLINE void exchange(Vec<R>& a, Vec<R>& b, std::index_sequence<k...>) {
  constexpr int W = Vec<R>::lanes;
  const auto x = a.raw, y = b.raw;
  a.raw = __builtin_shufflevector(x, y, ((k & h) ? W + k - h : k)...);
  b.raw = __builtin_shufflevector(x, y, ((k & h) ? W + k : k + h)...);
}
template <int h, class R> KERNELS_INLINE void transpose(Vec<R>* rows) {
  constexpr int W = Vec<R>::lanes;
  if constexpr (h < W) {
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i)
      if (!(i & h)) exchange<h>(rows[i], rows[i + h], std::make_index_sequence<W>());
    transpose<2 * h>(rows);
  }
}
// One of each in turn: a0 b0 a1 b1 ..., the first half and the second; and the reverse.
template <class R, std::size_t... k>
KERNELS_INLINE void zip(Vec<R>& a, Vec<R>& b, std::index_sequence<k...>) {
  constexpr int W = Vec<R>::lanes;
  const auto x = a.raw, y = b.raw;
  a.raw = __builtin_shufflevector(x, y, (k % 2 * W + k / 2)...);
  b.raw = __builtin_shufflevector(x, y, (k % 2 * W + (W + k) / 2)...);
}
template <class R, std::size_t... k>
KERNELS_INLINE void unzip(Vec<R>& a, Vec<R>& b, std::index_sequence<k...>) {
  const auto x = a.raw, y = b.raw;
  a.raw = __builtin_shufflevector(x, y, (2 * k)...);
  b.raw = __builtin_shufflevector(x, y, (2 * k + 1)...);
}
template <class R> KERNELS_INLINE Vec<R> load(const R* p) {
  Vec<R> x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
template <class R> KERNELS_INLINE void store(R* p, Vec<R> x) { __builtin_memcpy(p, &x, sizeof x); }

#if defined(__AVX512F__) && defined(__AVX512DQ__)
// Numbers of two registers by index, the second's from W on; indices count modulo 2 W.
using Indices = __m512i;
KERNELS_INLINE Vec<double> look_up(Vec<double> a, Vec<double> b, Indices at) {
  return Vec<double>(_mm512_permutex2var_pd(a.raw, at, b.raw));
}
KERNELS_INLINE Vec<float> look_up(Vec<float> a, Vec<float> b, Indices at) {
  return Vec<float>(_mm512_permutex2var_ps(a.raw, at, b.raw));
}
template <class Integer> KERNELS_INLINE Indices load_indices(const Integer* p) { return _mm512_loadu_si512(p); }
template <class R> KERNELS_INLINE Mask<R> not_below(Indices at, int bound) {
  if constexpr (sizeof(R) == 8)
    return {_mm512_cmpge_epi64_mask(at, _mm512_set1_epi64(bound))};
  else
    return {_mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(bound))};
}
// first, W + first, first + 1, W + first + 1, ...
template <class R> KERNELS_INLINE Indices alternate(int first) {
  if constexpr (sizeof(R) == 8)
    return _mm512_add_epi64(_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_set1_epi64(first));
  else
    return _mm512_add_epi32(_mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), _mm512_set1_epi32(first));
}
// The first `count` numbers, or all if there are fewer
KERNELS_INLINE void store_some(double* to, Vec<double> x, int count) {
  _mm512_mask_storeu_pd(to, count >= 8 ? 0xff : static_cast<__mmask8>((1u << count) - 1), x.raw);
}
KERNELS_INLINE void store_some(float* to, Vec<float> x, int count) {
  _mm512_mask_storeu_ps(to, count >= 16 ? 0xffff : static_cast<__mmask16>((1u << count) - 1), x.raw);
}
#endif

// f(0) ... f(N - 1) written out if N is known, else f(from) ... f(to - 1)
template <int N, class F> KERNELS_INLINE void each(int from, int to, F&& f) {
  if constexpr (N > 0)
    [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) { (f(i), ...); }
    (std::make_integer_sequence<int, N>());
  else
    for (int i = from; i < to; ++i) f(i);
}

// A complex number a lane.
template <class V> struct Pair {
  V re, im;
};
template <class V> KERNELS_INLINE Pair<V> operator+(Pair<V> a, Pair<V> b) { return {a.re + b.re, a.im + b.im}; }
template <class V> KERNELS_INLINE Pair<V> operator-(Pair<V> a, Pair<V> b) { return {a.re - b.re, a.im - b.im}; }
template <class V> KERNELS_INLINE Pair<V> operator*(Pair<V> a, Pair<V> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class V> KERNELS_INLINE Pair<V> operator*(Pair<V> a, V b) { return {a.re * b, a.im * b}; }
template <class V> KERNELS_INLINE Pair<V> conjugate(Pair<V> a) { return {a.re, -a.im}; }
template <class R> KERNELS_INLINE Vec<R> conjugate(Vec<R> a) { return a; }
template <class R> KERNELS_INLINE Vec<R> real(Vec<R> a) { return a; }
template <class V> KERNELS_INLINE V real(Pair<V> a) { return a.re; }
template <class R> KERNELS_INLINE Vec<R> square(Vec<R> a) { return a * a; }
template <class V> KERNELS_INLINE V square(Pair<V> a) { return a.re * a.re + a.im * a.im; }
// conj(a) b, and its real part
template <class R> KERNELS_INLINE Vec<R> inner(Vec<R> a, Vec<R> b) { return a * b; }
template <class V> KERNELS_INLINE Pair<V> inner(Pair<V> a, Pair<V> b) {
  return {a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}
template <class R> KERNELS_INLINE Vec<R> inner_real(Vec<R> a, Vec<R> b) { return a * b; }
template <class V> KERNELS_INLINE V inner_real(Pair<V> a, Pair<V> b) { return a.re * b.re + a.im * b.im; }
template <class E> KERNELS_INLINE E nought() {
  if constexpr (sizeof(E) == register_bytes)
    return E(0);
  else
    return E{{0}, {0}};
}

template <class E> struct Element { // the register type behind a real or complex element
  using V = E;
  static constexpr bool is_complex = false;
};
template <class U> struct Element<Pair<U>> {
  using V = U;
  static constexpr bool is_complex = true;
};

} // namespace
