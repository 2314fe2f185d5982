// The phase of an eigenvector: its largest component real and positive.
#pragma once

#include "matrix.hpp"

namespace kernels {

// Room for one matrix of n rows and m columns.
struct GaugeRoom {
  GaugeRoom(std::int64_t n, std::int64_t m) : size(n * m), largest(m), blemish(m), cosine(m), sine(m), pivot(m) {}

  Aligned<double> size, largest, blemish, cosine, sine;
  Aligned<std::int64_t> pivot;
};

// Turn every column of `v` (n rows, m columns).
template <class T> struct Columns {
  T* data;
  std::int64_t row, column, n, m;

  T& at(std::int64_t i, std::int64_t k) const { return data[i * row + k * column]; }
};

void fix_columns(const Columns<float>& v, GaugeRoom& room);
void fix_columns(const Columns<double>& v, GaugeRoom& room);
void fix_columns(const Columns<std::complex<float>>& v, GaugeRoom& room);
void fix_columns(const Columns<std::complex<double>>& v, GaugeRoom& room);

} // namespace kernels
