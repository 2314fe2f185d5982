// What the search for a few pairs of one matrix is given, in plain types that every set shares.
#pragma once

#include <cstdint>

namespace kernels {

struct SubsetTask {
  bool is_complex, vectors;
  std::int64_t n, lo, m;
  double eps, tolerance;
  double *ar, *ai;       // the matrix in full, largest part near 1, column by column; destroyed
  const double *xr, *xi; // the probe
  double* form;          // out: diagonal, then the n - 1 entries beside it, none negative
  double* values;        // out: m
  double *vr, *vi;       // out: m columns of n
  double* defect;        // out
  double* work;          // subset_work(n, m, ...) of them
};

// Doubles of workspace.
inline std::int64_t subset_work(std::int64_t n, std::int64_t m, bool is_complex) {
  const std::int64_t row = n + 8, parts = is_complex ? 2 : 1;
  return parts * (n * row + 8 * row * 8 + 16 * row) + 8 * row * 8 + 8 * row + m * row;
}

void subset_plain(const SubsetTask& task);
void subset_v2(const SubsetTask& task);
void subset_v3(const SubsetTask& task);
void subset_v4(const SubsetTask& task);

} // namespace kernels
