// Implicit QR sweeps on the tridiagonal matrix, each lane in its own block, and the rotations saved.
//
// As LAPACK's ?steqr (QR branch), with Wilkinson's shift. Every lane works on its own lowest
// unreduced block, so that no lane waits for another to deflate; outside of its block a lane's step
// is the identity.
#pragma once

#include "lanes_block.hpp"

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

  Iteration(int size, V* d, V* e, V* t, V* s, int* range, int capacity)
      : size(size), d(d), e(e), t(t), s(s), range(range), capacity(capacity), bound(size - 1) {}

  // Sweep until no lane has anything left or the space or `sweeps` is used up; how many were done.
  // `left`: whether there may be more to do.
  template <bool save> KERNELS_INLINE int run(int sweeps, bool& left) {
    int done = 0;
    left = true;
    for (; done < sweeps && (!save || done < capacity); ++done) {
      if (N > 0 || !known) block = search();
      V *tangents = t + done * n(), *sines = s + done * n();
      if (!any(block.active)) {
        left = false;
        if constexpr (N > 0) turn_block<save>(tangents, sines), ++done;
        break;
      }
      if constexpr (N > 0) {
        shrinking<save, N>(tangents, sines);
      } else {
        const int first = n() - most(select(block.active, V(R(n())) - block.lo, V(0)));
        bound = most(block.hi);
        known = first == 0; // nothing lies before what the sweep looks at
        sweep<save, 0>(first, bound, tangents, sines);
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
  template <bool save, int rows> KERNELS_INLINE void shrinking(V* tangents, V* sines) {
    if constexpr (rows > 3)
      if (!any(block.active & (V(R(rows - 1)) <= block.hi))) {
        shrinking<save, rows - 1>(tangents, sines);
        if constexpr (save) tangents[rows - 2] = sines[rows - 2] = V(0);
        return;
      }
    sweep<save, rows>(0, rows - 1, tangents, sines);
  }

  KERNELS_INLINE int n() const { return N > 0 ? N : size; }

  KERNELS_INLINE Block<V> search() {
    Search<V> found(0);
    V di = d[0];
    each<(N > 0 ? N - 1 : 0)>(0, bound, [&](int i) __attribute__((always_inline)) {
      const V dn = d[i + 1];
      e[i] = found.look(e[i], di, dn, N > 0 && i == 0); // the last 2 x 2 block of all lanes together
      di = dn;
    });
    return found.block;
  }

  template <bool save, int rows> KERNELS_INLINE void sweep(int first, int last, V* tangents, V* sines) {
    if (any(block.active & !(block.lo == V(R(first)))))
      sweep<save, rows, true>(first, last, tangents, sines);
    else
      sweep<save, rows, false>(first, last, tangents, sines);
  }

  // Outside of a lane's block the sine is 0, and a step changes nothing, not even a bit: beyond it,
  // since e is 0; before it, since sqrt(e^2) is |e|. apart: not all blocks begin in the first row.
  // The next block is looked for on the way, while square roots and divisions are waited for.
  template <bool save, int rows, bool apart>
  KERNELS_INLINE void sweep(int first, int last, V* tangents, V* sines) {
    const V sigma = find_shift(block.above, block.corner, block.between), zero(0), one(1), floor(Limits<R>::floor);
    V di = d[first], before = zero;
    V g = apart ? zero : di - sigma, cosine = one, p = zero;
    V sine = apart ? zero : select(block.active, one, zero);
    V row{R(first)};
    [[maybe_unused]] Search<V> found(first);
    each<(rows > 0 ? rows - 1 : 0)>(first, last, [&](int i) __attribute__((always_inline)) {
      const V dn = d[i + 1], ei = e[i];
      [[maybe_unused]] const M starts = block.active & (row == block.lo);
      if constexpr (apart) {
        g = select(starts, di - sigma, g);
        sine = select(starts, one, sine);
        row = row + one;
      }
      const V f = sine * ei, b = cosine * ei;
      const V square = f * f + g * g;
      const V r = with_sign(root(square), g); // so that the cosine is positive
      const V inverse = select(floor <= square, one / r, zero);
      sine = f * inverse;
      cosine = select((floor <= square) & !(f == zero), g * inverse, one);
      const V here = di - p;
      const V turn = (dn - here) * sine + (cosine + cosine) * b;
      p = sine * turn;
      d[i] = here + p;
      if (i > first) {
        const V left = apart ? select(starts, zero, r) : r;
        e[i - 1] = N > 0 ? left : found.look(left, before, here + p);
      }
      before = here + p;
      g = cosine * turn - b;
      if constexpr (save) {
        tangents[i] = sine / (one + cosine);
        sines[i] = sine;
      }
      di = dn;
    });
    d[last] = di - p;
    e[last - 1] = N > 0 ? g : found.look(g, before, di - p);
    if constexpr (N == 0) block = found.block;
  }

  Block<V> block;     // of the next sweep,
  bool known = false; // if it is known already
};

} // namespace
