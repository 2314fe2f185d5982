// Implicit QR sweeps on the tridiagonal matrix, each lane in its own block, and the rotations saved.
//
// As LAPACK's ?steqr (QR branch): Wilkinson's shift, deflation where e^2 <= eps^2 |d d'| + the
// smallest normal number. But eps is the spacing of numbers, not half of it: with half of it equal
// values of d can be too coarse for a sweep to make e smaller (LAPACK turns such a 2 x 2 block
// directly). Every lane works on its own lowest unreduced block, so that no lane waits for another
// to deflate; outside of its block a lane's step is the identity.
#pragma once

#include "lanes_tridiagonal.hpp"

namespace {

// N: the size where it is small and known, so that all of d and e stay in registers, and the last
// 2 x 2 block of each lane is turned directly; else 0
template <class V, int N = 0> struct Iteration {
  using R = typename V::Real;
  using M = typename MaskFor<V>::Type;

  int size;
  V *d, *e;     // n each; e[n-1] is 0
  V *t, *s;     // saved rotations (tangent of half the angle, sine): sweep after sweep of n each
  int* range;   // and the first and one past the last of each sweep
  int capacity; // sweeps that fit
  int bound;    // no lane has anything left at or beyond this row

  // Sweep until no lane has anything left or the space or `sweeps` is used up; how many were done.
  // `left`: whether there may be more to do.
  template <bool save> KERNELS_INLINE int run(int sweeps, bool& left) {
    int done = 0;
    left = true;
    for (; done < sweeps && (!save || done < capacity); ++done) {
      const Block block = search();
      V *tangents = t + done * n(), *sines = s + done * n();
      if (!any(block.active)) {
        left = false;
        if constexpr (N > 0) turn_block<save>(tangents, sines), ++done;
        break;
      }
      if constexpr (N > 0) {
        shrinking<save, N>(block, tangents, sines);
      } else {
        const int first = n() - most(select(block.active, V(R(n())) - block.lo, V(0)));
        bound = most(block.hi);
        sweep<save, 0>(block, first, bound, tangents, sines);
        if constexpr (save) range[2 * done] = first, range[2 * done + 1] = bound;
      }
    }
    return done;
  }

  // Lanes that still have an off-diagonal element that is not negligible
  KERNELS_INLINE M unfinished() {
    const M active = search().active;
    return N > 0 ? active | !(e[0] == V(0)) : active;
  }

private:
  struct Block {
    M active;
    V lo, hi;                 // the block is rows lo to hi, both included; 0 and 0 where there is none
    V above, corner, between; // d[hi-1], d[hi], e[hi-1]
  };

  // The last 2 x 2 block directly: Jacobi's rotation, by the smaller of the two angles.
  template <bool save> KERNELS_INLINE void turn_block(V* tangents, V* sines) {
    const V apart = d[0] - d[1], twice = e[0] + e[0], zero(0), one(1);
    const V square = apart * apart + twice * twice;
    const M whole = V(Limits<R>::floor) <= square;
    const V tangent = select(whole, twice / (apart + with_sign(root(square), apart)), zero);
    const V change = e[0] * tangent;
    d[0] = d[0] + change;
    d[1] = d[1] - change;
    e[0] = zero;
    if constexpr (save) {
      const V cosine = one / root(one + tangent * tangent), sine = tangent * cosine;
      tangents[0] = sine / (one + cosine);
      sines[0] = sine;
      for (int i = 1; i < N - 1; ++i) tangents[i] = sines[i] = zero;
    }
  }

  // A sweep over as few rows as the lanes still need
  template <bool save, int rows> KERNELS_INLINE void shrinking(const Block& block, V* tangents, V* sines) {
    if constexpr (rows > 3)
      if (!any(block.active & (V(R(rows - 1)) <= block.hi))) {
        shrinking<save, rows - 1>(block, tangents, sines);
        if constexpr (save) tangents[rows - 2] = sines[rows - 2] = V(0);
        return;
      }
    sweep<save, rows>(block, 0, rows - 1, tangents, sines);
  }

  KERNELS_INLINE int n() const { return N > 0 ? N : size; }

  KERNELS_INLINE Block search() {
    const V tiny(Limits<R>::eps * Limits<R>::eps), floor(Limits<R>::floor), zero(0);
    Block b{zero < zero, zero, zero, zero, zero, V(1)};
    V start(0), row(0), di = d[0];
    each<(N > 0 ? N - 1 : 0)>(0, bound, [&](int i) __attribute__((always_inline)) {
      const V ei = e[i], dn = d[i + 1];
      const M small = ei * ei <= (tiny * magnitude(di)) * magnitude(dn) + floor;
      const M big = !small;
      const V begin = start, above = di;
      row = row + V(1);
      e[i] = select(small, zero, ei);
      start = select(small, row, start);
      di = dn;
      if (N > 0 && i == 0) return; // the last 2 x 2 block waits until all lanes have come to it
      b.active = b.active | big;
      b.lo = select(big, begin, b.lo);
      b.hi = select(big, row, b.hi);
      b.above = select(big, above, b.above);
      b.corner = select(big, dn, b.corner);
      b.between = select(big, ei, b.between);
    });
    return b;
  }

  static KERNELS_INLINE V shift(const Block& b) {
    const V half = (b.above - b.corner) / (b.between + b.between);
    const V length = root(half * half + V(1));
    return b.corner - b.between / (half + with_sign(length, half));
  }

  template <bool save, int rows> KERNELS_INLINE void sweep(const Block& block, int first, int last, V* tangents, V* sines) const {
    const V sigma = shift(block), zero(0), one(1), floor(Limits<R>::floor);
    V g = zero, sine = one, cosine = one, p = zero;
    V di = d[first];
    V row{R(first)};
    each<(rows > 0 ? rows - 1 : 0)>(first, last, [&](int i) __attribute__((always_inline)) {
      const M starts = row == block.lo, ends = block.active & (row == block.hi);
      const M inside = block.active & (block.lo <= row) & (row < block.hi);
      const M past = block.active & (block.lo < row) & (row <= block.hi);
      const V dn = d[i + 1], ei = e[i];
      g = select(starts, di - sigma, g);
      sine = select(starts, one, sine);
      cosine = select(starts, one, cosine);
      p = select(starts, zero, p);
      const V f = sine * ei, b = cosine * ei;
      const V square = f * f + g * g;
      const V r = with_sign(root(square), g); // so that the cosine is positive
      const M whole = floor <= square;
      const V inverse = select(whole, one / r, zero);
      sine = f * inverse;
      cosine = select(whole, g * inverse, one);
      if (i > first) e[i - 1] = select(past, select(ends, g, r), e[i - 1]);
      const V here = di - p;
      const V turn = (dn - here) * sine + (cosine + cosine) * b;
      p = sine * turn;
      d[i] = select(inside, here + p, select(ends, here, di));
      g = cosine * turn - b;
      if constexpr (save) {
        tangents[i] = select(inside, sine / (one + cosine), zero);
        sines[i] = select(inside, sine, zero);
      }
      di = dn;
      row = row + one;
    });
    const M ends = block.active & (row == block.hi); // in the last row nothing follows
    e[last - 1] = select(ends, g, e[last - 1]);
    d[last] = select(ends, di - p, di);
  }
};

} // namespace
