// Sums that do not depend on the order: fixed-point numbers, which add exactly.
//
// A number x is cut into five whole numbers ("limbs") with the units 2^40, 2^8, 2^-24, 2^-56 and 2^-88, each rounded to
// nearest, the remainder handed on. Limbs are added as 64-bit integers, so any batches in any order give the same bits.
// The caller scales x by a power of two that depends on the model alone, so that a typical x is near 1; what is lost is
// below 2^-89.
#pragma once

#include "forest.h"
#include "word.h"

namespace treeinner::TREEINNER_NS {

constexpr double kLargest = 0x1p80;  // the first limb then stays below 2^40: millions of such rows fit

inline int64_t bits_of(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

constexpr int kColumns = 32;    // go together, as vectors
constexpr int kTileRows = 128;  // whose largest number tells how many limbs they need

inline double scaled(double value, double scale, bool square) {
  const double x = value * scale;
  return square ? x * x : x;
}

// Largest size of the numbers of a tile; kLargest if one is NaN or too large.
inline double largest_of(const double* values, int64_t stride, int n_rows, int n, double scale, bool square) {
  double most[kColumns] = {};
  for (int row = 0; row < n_rows; ++row)
    for (int c = 0; c < n; ++c) {
      const double size = __builtin_fabs(scaled(values[row * stride + c], scale, square));
      most[c] = size <= most[c] ? most[c] : size < kLargest ? size : kLargest;
    }
  double largest = 0;
  for (int c = 0; c < n; ++c) largest = most[c] > largest ? most[c] : largest;
  return largest;
}

// Add a tile to the limbs from `First` on; the ones above are 0 in numbers as small as these.
template <int First>
inline void cut_tile(const double* values, int64_t stride, int n_rows, int n, double scale, bool square,
                     int64_t (*sum)[kColumns]) {
  const double shift = 0x1.8p52;  // adding it rounds to a whole number, which the low bits then hold
  constexpr double kUnit = First == 0 ? 0x1p40 : First == 1 ? 0x1p8 : 0x1p-24;
  for (int row = 0; row < n_rows; ++row)
    for (int c = 0; c < n; ++c) {
      double x = scaled(values[row * stride + c], scale, square), unit = kUnit, per_unit = 1 / kUnit;
#pragma GCC unroll 5
      for (int i = First; i < kLimbs; ++i) {
        const double shifted = x * per_unit + shift;
        sum[i][c] += bits_of(shifted) - bits_of(shift);
        x -= (shifted - shift) * unit;
        unit *= 0x1p-32;
        per_unit *= 0x1p32;
      }
    }
}

// limbs: (columns, 5) += the columns of values: (rows, columns), or their squares. False if a number is too large or
// NaN; the limbs are then of no use.
inline bool add_exactly(const double* values, int64_t n_rows, int64_t n_columns, double scale, bool square,
                        int64_t* limbs) {
  for (int64_t first = 0; first < n_columns; first += kColumns) {
    const int n = n_columns - first < kColumns ? static_cast<int>(n_columns - first) : kColumns;
    int64_t sum[kLimbs][kColumns] = {};
    for (int64_t row = 0; row < n_rows; row += kTileRows) {
      const int rows = n_rows - row < kTileRows ? static_cast<int>(n_rows - row) : kTileRows;
      const double* tile = values + row * n_columns + first;
      const double largest = largest_of(tile, n_columns, rows, n, scale, square);
      if (largest >= kLargest) return false;
      if (largest < 0x1p7)
        cut_tile<2>(tile, n_columns, rows, n, scale, square, sum);
      else if (largest < 0x1p39)
        cut_tile<1>(tile, n_columns, rows, n, scale, square, sum);
      else
        cut_tile<0>(tile, n_columns, rows, n, scale, square, sum);
    }
    for (int c = 0; c < n; ++c)
      for (int i = 0; i < kLimbs; ++i) limbs[(first + c) * kLimbs + i] += sum[i][c];
  }
  return true;
}

}  // namespace treeinner::TREEINNER_NS
