// QR sweeps for the eigenvalues alone, without square roots (Pal, Walker and Kahan's variant), each
// lane in its own block.
//
// As LAPACK's ?sterf (QR branch; Reinsch, Comm. ACM 16, 1973; Parlett, The Symmetric Eigenvalue
// Problem, section 8.15): of the off-diagonal elements the squares are kept. ?sterf divides three
// times a step, each division waiting for the one before; here the two that are left wait for none.
#pragma once

#include "lanes_block.hpp"

namespace {

template <class V> struct RootFree {
  using R = typename V::Real;
  using M = typename MaskFor<V>::Type;
  // A cosine squared below this is 0, whatever it is: what is lost is its root, relative to 1.
  static constexpr R least = sizeof(R) == 8 ? R(0x1p-300) : R(0x1p-80);

  int size;
  V *d, *e;  // n each; e[n-1] is 0. e becomes its square, and then 0
  int bound; // no lane has anything left at or beyond this row

  RootFree(int size, V* d, V* e) : size(size), d(d), e(e), bound(size - 1) {
    for (int i = 0; i < size; ++i) e[i] = e[i] * e[i];
  }

  // Sweep until no lane has anything left, or `sweeps` are done; return the lanes that have.
  KERNELS_INLINE M run(int sweeps) {
    bool known = false; // the next block, since nothing lies before what a sweep looks at
    for (; sweeps > 0; --sweeps) {
      if (!known) block = search();
      if (!any(block.active)) break;
      const int first = size - most(select(block.active, V(R(size)) - block.lo, V(0)));
      bound = most(block.hi);
      known = first == 0;
      if (any(block.active & !(block.lo == V(R(first)))))
        sweep<true>(first, bound);
      else
        sweep<false>(first, bound);
    }
    return search().active;
  }

private:
  using Seek = Search<V, true>;

  KERNELS_INLINE Block<V> search() {
    Seek found(0);
    for (int i = 0; i < bound; ++i) e[i] = found.look(e[i], d[i], d[i + 1]);
    return found.block;
  }

  // Outside of a lane's block nothing changes, not even a bit: cosine 1, sine 0, and no shift. apart:
  // not all blocks begin in the first row. The next block is looked for on the way.
  template <bool apart> KERNELS_INLINE void sweep(int first, int last) {
    const V shift = find_shift(block.above, block.corner, root(block.between)), zero(0), one(1);
    V sigma = apart ? zero : select(block.active, shift, zero);
    V gamma = d[first] - sigma, p = gamma * gamma, cosine = one, sine = zero; // squares of the two
    V before = zero, row{R(first)};
    [[maybe_unused]] V kept = zero; // the element before, if the block has not begun
    Seek found(first);
    for (int i = first; i < last; ++i) {
      const V alpha = d[i + 1], element = e[i];
      V between = element;
      if constexpr (apart) {
        const M starts = block.active & (row == block.lo);
        sigma = select(starts, shift, sigma);
        gamma = select(starts, gamma - shift, gamma);
        p = select(starts, gamma * gamma, p);
        between = select(block.active & (row < block.lo), zero, element);
        row = row + one;
      }
      const V r = p + between, inverse = one / r, ratio = r / p, share = p * inverse, last_cosine = cosine;
      const V moved = apart ? sine * r + kept : sine * r;
      const M idle = between == zero, none = (share < V(least)) & !idle;
      cosine = select(idle, one, select(none, zero, share));
      sine = select(idle, zero, select(none, one, between * inverse));
      const V next = cosine * (alpha - select(idle, zero, sigma)) - sine * gamma;
      const V here = gamma + select(idle, sigma, alpha - next);
      p = select(none, last_cosine * between, (next * next) * select(idle, one, ratio));
      sigma = select(idle, zero, sigma);
      gamma = next;
      d[i] = here;
      if (i > first) e[i - 1] = found.look(moved, before, here);
      before = here;
      if constexpr (apart) kept = element - between;
    }
    d[last] = gamma + sigma;
    e[last - 1] = found.look(sine * p, before, d[last]);
    block = found.block;
  }

  Block<V> block;
};

} // namespace
