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
constexpr int kTileRows = 128;  // whose largest number tells how many limbs they need; a tile stays in L1

struct Plain {
  double operator()(double x) const { return x; }
};
struct Square {
  double operator()(double x) const { return x * x; }
};
// Fourth powers span twice the range of the squares, so they are held in two parts (forest.h); each is 0 in the other.
struct SmallFourth {
  double operator()(double x) const {
    const double square = x * x, root = square * kSmallRoot;
    return square >= kFourthBorder * kFourthBorder ? 0.0 : root * root;
  }
};
struct LargeFourth {
  double operator()(double x) const {
    const double square = x * x, root = square * kLargeRoot;
    return square >= kFourthBorder * kFourthBorder ? root * root : 0.0;
  }
};

struct Tile {
  const double* values;
  int64_t stride;
  int n_rows, n_columns;
  double scale;
};

// Largest size of the numbers of a tile; kLargest if one is NaN or too large.
template <class Power>
inline double largest_of(const Tile& t, Power power) {
  double most[kColumns] = {};
  for (int row = 0; row < t.n_rows; ++row)
    for (int c = 0; c < t.n_columns; ++c) {
      const double size = __builtin_fabs(power(t.values[row * t.stride + c] * t.scale));
      most[c] = size <= most[c] ? most[c] : size < kLargest ? size : kLargest;
    }
  double largest = 0;
  for (int c = 0; c < t.n_columns; ++c) largest = most[c] > largest ? most[c] : largest;
  return largest;
}

// Add a tile to the limbs from `First` on; the ones above are 0 in numbers as small as these.
template <int First, class Power>
inline void cut_tile(const Tile& t, Power power, int64_t (*sum)[kColumns]) {
  const double shift = 0x1.8p52;  // adding it rounds to a whole number, which the low bits then hold
  constexpr double kUnit = First == 0 ? 0x1p40 : First == 1 ? 0x1p8 : 0x1p-24;
  for (int row = 0; row < t.n_rows; ++row)
    for (int c = 0; c < t.n_columns; ++c) {
      double x = power(t.values[row * t.stride + c] * t.scale), unit = kUnit, per_unit = 1 / kUnit;
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

// limbs: (columns, 5) += a power of a tile's columns. False if a number is too large or NaN.
template <class Power>
inline bool add_tile(const Tile& t, Power power, int64_t* limbs) {
  if (!limbs) return true;
  const double largest = largest_of(t, power);
  if (largest >= kLargest) return false;
  if (largest == 0) return true;
  int64_t sum[kLimbs][kColumns] = {};
  if (largest < 0x1p7)
    cut_tile<2>(t, power, sum);
  else if (largest < 0x1p39)
    cut_tile<1>(t, power, sum);
  else
    cut_tile<0>(t, power, sum);
  for (int c = 0; c < t.n_columns; ++c)
    for (int i = 0; i < kLimbs; ++i) limbs[c * kLimbs + i] += sum[i][c];
  return true;
}

// Add the powers of the columns of values, (rows, columns), times scale. False if a number is too large or NaN; the
// limbs are then of no use.
inline bool add_exactly(const double* values, int64_t n_rows, int64_t n_columns, double scale, const PowerLimbs& to) {
  for (int64_t first = 0; first < n_columns; first += kColumns) {
    const int n = n_columns - first < kColumns ? static_cast<int>(n_columns - first) : kColumns;
    const auto from_first = [&](int64_t* limbs) { return limbs ? limbs + first * kLimbs : nullptr; };
    for (int64_t row = 0; row < n_rows; row += kTileRows) {
      const int rows = n_rows - row < kTileRows ? static_cast<int>(n_rows - row) : kTileRows;
      const Tile tile{values + row * n_columns + first, n_columns, rows, n, scale};
      if (!add_tile(tile, Plain{}, from_first(to.sums)) || !add_tile(tile, Square{}, from_first(to.squares)) ||
          !add_tile(tile, SmallFourth{}, from_first(to.small_fourths)) ||
          !add_tile(tile, LargeFourth{}, from_first(to.large_fourths)))
        return false;
    }
  }
  return true;
}

}  // namespace treeinner::TREEINNER_NS
