// Columns made unique: of unit length, the largest component real and positive.
#pragma once

#include "lanes_vector.hpp"

namespace {

// n columns, `ld` from row to row; two rows, real and imaginary, for each one of complex columns.
template <class R, bool is_complex> struct Columns {
  using V = Vec<R>;
  static constexpr int parts = is_complex ? 2 : 1;

  V* z;
  int n, ld;
  Mask<R> flipped; // lanes whose rows are in reverse order

  void finish() const {
    int c = 0;
    for (; c + 4 <= n; c += 4) finish<4>(z + c);
    for (; c < n; ++c) finish<1>(z + c);
  }

private:
  struct Pivot {
    V re, im, row;
  };

  template <int J> KERNELS_INLINE void finish(V* column) const {
    V length[J], peak[J];
    for (int b = 0; b < J; ++b) length[b] = peak[b] = V(0);
    for (int i = 0; i < n; ++i)
      for (int b = 0; b < J; ++b) {
        const V size = square_at(column + i * parts * ld + b);
        length[b] = length[b] + size;
        peak[b] = larger(size, peak[b]);
      }
    // A hundred rotations leave a column some eps short or long: 1 / sqrt near 1.
    for (int b = 0; b < J; ++b) length[b] = V(R(1.5)) - V(R(0.5)) * length[b];
    Pivot at[J];
    for (int b = 0; b < J; ++b) peak[b] = peak[b] * V(edge), at[b] = {V(0), V(0), V(-1)};
    // What symmetry makes equal is tied, and the first of them counts: in each lane's own order of rows.
    for (int i = 0; i < n; ++i) look<J>(column, i, peak, at, flipped);
    for (int i = n - 1; i >= 0; --i) look<J>(column, i, peak, at, !flipped);
    turn<J>(column, length, at);
  }

  // 1 - sqrt(eps), squared
  static constexpr R edge = sizeof(R) == 8 ? R((1 - 0x1p-26) * (1 - 0x1p-26)) : R((1 - 3.4526698e-4) * (1 - 3.4526698e-4));

  KERNELS_INLINE V square_at(const V* x) const {
    if constexpr (is_complex)
      return x[0] * x[0] + x[ld] * x[ld];
    else
      return x[0] * x[0];
  }

  template <int J> KERNELS_INLINE void look(const V* column, int i, const V* peak, Pivot* at, Mask<R> where) const {
    for (int b = 0; b < J; ++b) {
      const V* x = column + i * parts * ld + b;
      const auto here = where & (peak[b] <= square_at(x));
      at[b].re = select(here, x[0], at[b].re);
      if constexpr (is_complex) {
        at[b].im = select(here, x[ld], at[b].im);
        at[b].row = select(here, V(R(i)), at[b].row);
      }
    }
  }

  // Times `scale` and the conjugate phase of the pivot, which itself becomes exactly real
  template <int J> KERNELS_INLINE void turn(V* column, const V* scale, const Pivot* at) const {
    V c[J], s[J], length[J];
    for (int b = 0; b < J; ++b) {
      if constexpr (is_complex) {
        const V size = root(at[b].re * at[b].re + at[b].im * at[b].im), inverse = scale[b] / size;
        const auto none = size == V(0);
        c[b] = select(none, scale[b], at[b].re * inverse);
        s[b] = select(none, V(0), at[b].im * inverse);
        length[b] = size * scale[b];
      } else {
        c[b] = with_sign(scale[b], at[b].re);
      }
    }
    for (int i = 0; i < n; ++i)
      for (int b = 0; b < J; ++b) {
        V* x = column + i * parts * ld + b;
        if constexpr (is_complex) {
          const auto here = at[b].row == V(R(i));
          const V p = x[0], q = x[ld];
          x[0] = select(here, length[b], p * c[b] + q * s[b]);
          x[ld] = select(here, V(0), q * c[b] - p * s[b]);
        } else {
          x[0] = x[0] * c[b];
        }
      }
  }
};

} // namespace
