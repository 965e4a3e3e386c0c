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

// limbs: (columns, 5) += the columns of values: (rows, columns), or their squares. False if a number is too large or
// NaN.
inline bool add_exactly(const double* values, int64_t n_rows, int64_t n_columns, double scale, bool square,
                        int64_t* limbs) {
  constexpr int kColumns = 32;    // go together, as vectors
  const double shift = 0x1.8p52;  // adding it rounds to a whole number, which the low bits then hold
  bool fits = true;
  for (int64_t first = 0; first < n_columns; first += kColumns) {
    const int n = n_columns - first < kColumns ? static_cast<int>(n_columns - first) : kColumns;
    int64_t sum[kLimbs][kColumns] = {};
    double too_large[kColumns] = {};
    for (int64_t row = 0; row < n_rows; ++row)
      for (int c = 0; c < n; ++c) {
        double x = values[row * n_columns + first + c] * scale;
        x = square ? x * x : x;
        const bool good = __builtin_fabs(x) < kLargest;
        too_large[c] = good ? too_large[c] : 1.0;
        x = good ? x : 0.0;
        double unit = 0x1p40, per_unit = 0x1p-40;
#pragma GCC unroll 5
        for (int i = 0; i < kLimbs; ++i) {
          const double shifted = x * per_unit + shift;
          sum[i][c] += bits_of(shifted) - bits_of(shift);
          x -= (shifted - shift) * unit;
          unit *= 0x1p-32;
          per_unit *= 0x1p32;
        }
      }
    for (int c = 0; c < n; ++c) {
      fits = fits && too_large[c] == 0.0;
      for (int i = 0; i < kLimbs; ++i) limbs[(first + c) * kLimbs + i] += sum[i][c];
    }
  }
  return fits;
}

}  // namespace treeinner::TREEINNER_NS
