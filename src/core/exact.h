// Sums that do not depend on the order: fixed-point numbers, which add exactly.
//
// A number x is cut into five whole numbers ("limbs") with the units 2^40, 2^8, 2^-24, 2^-56 and 2^-88, each rounded to
// nearest, the remainder handed on. Limbs are added as 64-bit integers, so any batches in any order give the same bits.
// The caller scales x by a power of two that depends on the model alone, so that a typical x is near 1; what is lost is
// below 2^-89.
#pragma once

#include <cmath>
#include <cstdint>

namespace treeinner {

constexpr int kLimbs = 5;
constexpr double kLargest = 0x1p80;  // the first limb then stays below 2^40: millions of such rows fit

// limbs: (columns, 5) += the columns of values: (rows, columns), or their squares. False if a number is too large or
// NaN.
inline bool add_exactly(const double* values, int64_t n_rows, int64_t n_columns, double scale, bool square,
                        int64_t* limbs) {
  bool fits = true;
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t column = 0; column < n_columns; ++column) {
      double x = values[row * n_columns + column] * scale;
      if (square) x *= x;
      if (!(std::fabs(x) < kLargest)) {
        fits = false;
        continue;
      }
      int64_t* limb = limbs + column * kLimbs;
      double unit = 0x1p40, per_unit = 0x1p-40;
      for (int i = 0; i < kLimbs; ++i, unit *= 0x1p-32, per_unit *= 0x1p32) {
        const double whole = std::rint(x * per_unit);
        limb[i] += static_cast<int64_t>(whole);
        x -= whole * unit;
      }
    }
  return fits;
}

}  // namespace treeinner
