// Where the tridiagonal matrix of each lane still has something to do.
//
// As in LAPACK's ?steqr, an off-diagonal element is negligible where e^2 <= eps^2 |d d'| + the
// smallest normal number. But eps is the spacing of numbers, not half of it: with half of it equal
// values of d can be too coarse for a sweep to make e smaller (LAPACK turns such a 2 x 2 block
// directly).
#pragma once

#include "lanes_tridiagonal.hpp"

namespace {

// A lane's lowest unreduced block
template <class V> struct Block {
  typename MaskFor<V>::Type active;
  V lo, hi;                 // rows lo to hi, both included; 0 and 0 where there is none
  V above, corner, between; // d[hi-1], d[hi], e[hi-1] (or its square)
};

// Each lane's lowest block, found row by row. squared: of the off-diagonal elements the squares are kept.
template <class V, bool squared = false> struct Search {
  using R = typename V::Real;
  using M = typename MaskFor<V>::Type;

  Block<V> block{V(0) < V(0), V(0), V(0), V(0), V(0), V(1)};
  V start, row;
  explicit KERNELS_INLINE Search(int first) : start(R(first)), row(R(first)) {}

  // The element between rows with these diagonals; what is negligible comes back as 0. `waits`: it is in no block.
  KERNELS_INLINE V look(V between, V above, V below, bool waits = false) {
    const V tiny(Limits<R>::eps * Limits<R>::eps), floor(Limits<R>::floor);
    const V size = squared ? between : between * between;
    const M small = size <= (tiny * magnitude(above)) * magnitude(below) + floor;
    const M big = !small;
    const V begin = start;
    row = row + V(1);
    start = select(small, row, start);
    if (!waits) {
      block.active = block.active | big;
      block.lo = select(big, begin, block.lo);
      block.hi = select(big, row, block.hi);
      block.above = select(big, above, block.above);
      block.corner = select(big, below, block.corner);
      block.between = select(big, between, block.between);
    }
    return select(small, V(0), between);
  }
};

// Wilkinson's: the eigenvalue of the block's last 2 x 2 that is nearer to its corner
template <class V> KERNELS_INLINE V find_shift(V above, V corner, V between) {
  const V half = (above - corner) / (between + between);
  const V length = root(half * half + V(1));
  return corner - between / (half + with_sign(length, half));
}

} // namespace
