// What a call of the lanes driver is given, in plain types that every instruction set shares.
#pragma once

#include <cstdint>

namespace kernels {

struct LanesTask {
  bool single, is_complex;
  std::int64_t n, count;
  const void* a; // strides in elements
  std::int64_t a_stride, a_row, a_column;
  int triangle;     // 0 lower, 1 upper, 2 both
  double tolerance; // of the defect; looked at where both triangles are read
  void* values;     // (count, n), contiguous
  void* vectors;    // (count, n, n), contiguous, or null
  const double *xr, *xi; // the probe, or null: no proof
  double threshold;      // largest residual that passes
  int sweeps;            // at most this many QR sweeps times n
  float* residual;
  std::uint8_t* status;
  std::int64_t* next; // the first matrix that no thread has taken yet
  int threads;
};

// As kernels.Status
inline constexpr std::uint8_t status_ok = 0, status_nonfinite = 2, status_not_hermitian = 3, status_failed = 5,
                              status_unchecked = 9;

// One for each instruction set that is compiled in; see lanes_isa.cpp. False: out of memory.
bool lanes_plain(const LanesTask& task);
bool lanes_v2(const LanesTask& task);
bool lanes_v3(const LanesTask& task);
bool lanes_v4(const LanesTask& task);

} // namespace kernels
