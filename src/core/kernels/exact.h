// Sums that do not depend on the order: fixed-point numbers, which add exactly, and counts.
//
// A number x is cut into five integers ("limbs") with the units 2^40, 2^8, 2^-24, 2^-56 and 2^-88, each rounded to
// nearest, the remainder handed on. Limbs are added as 64-bit integers, so any batches in any order give the same bits.
// The caller scales x by a power of two that depends on the model alone, so that a typical x is near 1; what is lost is
// below 2^-89.
#pragma once

#include "job.h"

namespace treeinner {
constexpr int kLimbs = 5;  // of an exact sum

// Numbers of every size are counted too: 2^kSizeBits sizes from one power of two to the next, from 2^kLeastSize up to
// 2^kMostSize. What is smaller is not counted. Each count is followed by the sum of the next kOffsetBits bits of its
// numbers.
constexpr int kSizeBits = 2, kOffsetBits = 8, kLeastSize = -56, kMostSize = 40;
constexpr int kSizes = (kMostSize - kLeastSize) << kSizeBits, kCounts = 2 * kSizes;

// Adds the columns of values, (rows, columns), times scale, and their squares. Limbs are (columns, 5), or null.
struct ExactArgs {
  const double* values;
  int64_t n_columns;
  double scale;
  int64_t *sums, *squares;
  int64_t* counts;  // (columns, kCounts) or null
  bool* fits;       // false if a number is too large or NaN; the limbs are then of no use
};

namespace TREEINNER_NS {
constexpr double kLargest = 0x1p80;  // the first limb then stays below 2^40: millions of such rows fit

// A tile of numbers, scaled, behind the last column zeros: its largest number tells how many limbs it needs. It stays
// in L1 while its powers are taken.
constexpr int kTileRows = 64, kTileColumns = 32;
struct Tile {
  alignas(64) double values[kTileRows][kTileColumns];
  int n_rows, n_columns;
};

// Takes numbers into a tile and returns the size of the largest; infinite if one is NaN.
inline double fill(Tile& t, const double* values, int64_t stride, double scale) {
  double most[kTileColumns] = {};
  std::memset(t.values, 0, sizeof t.values);
  for (int row = 0; row < t.n_rows; ++row)
    for (int c = 0; c < t.n_columns; ++c) {
      const double x = values[row * stride + c] * scale, size = absolute(x);
      t.values[row][c] = x;
      most[c] = size <= most[c] ? most[c] : size < kInfinity ? size : kInfinity;
    }
  double largest = 0;
  for (int c = 0; c < t.n_columns; ++c) largest = most[c] > largest ? most[c] : largest;
  return largest;
}

// A limb's unit times this, added to a number, rounds it to units, which the low bits of the sum then count.
constexpr double kShift = 0x1.8p52;
constexpr double kUnits[kLimbs] = {0x1p40, 0x1p8, 0x1p-24, 0x1p-56, 0x1p-88};

// Add a tile to the limbs from `First` on; the ones above are 0 in numbers as small as these.
template <int First, class Power>
inline void cut_tile(const Tile& t, Power power, int64_t* limbs) {
  for (int first = 0; first < t.n_columns; first += kLanes) {
    Tally tally[kLimbs] = {};
    for (int row = 0; row < t.n_rows; ++row) {
      Lanes x = power(load<Lanes>(&t.values[row][first]));
      TREEINNER_UNROLL for (int i = First; i < kLimbs; ++i) {
        const Lanes shift = all<Lanes>(kShift * kUnits[i]), shifted = x + shift;
        tally[i] = tally[i] + bits_of(shifted);
        x = x - (shifted - shift);
      }
    }
    for (int i = First; i < kLimbs; ++i) {
      const uint64_t shifts = bits_of(kShift * kUnits[i]) * static_cast<uint64_t>(t.n_rows);
      alignas(64) uint64_t sum[kLanes];
      store(sum, tally[i]);
      for (int l = 0; l < kLanes && first + l < t.n_columns; ++l)
        limbs[(first + l) * kLimbs + i] += static_cast<int64_t>(sum[l] - shifts);
    }
  }
}

// limbs: (columns, 5) += a power of a tile's columns. largest: size of the largest power. False if that is too large.
template <class Power>
inline bool add_tile(const Tile& t, Power power, double largest, int64_t* limbs) {
  if (!limbs || largest == 0) return true;
  if (largest >= kLargest) return false;
  with_count<0, 2>(largest < 0x1p7    ? 2
                   : largest < 0x1p39 ? 1
                                      : 0,
                   [&](auto first) { cut_tile<decltype(first)::n>(t, power, limbs); });
  return true;
}

// counts: (columns, kCounts) += the tile's numbers, by the exponent and the first bits of each. Row by row: neighbours
// in a column are often of one size, and would wait for each other.
inline void count_sizes(const Tile& t, int64_t* counts) {
  constexpr uint64_t kFirst = static_cast<uint64_t>(kLeastSize + 1023) << kSizeBits, kOffsets = 1 << kOffsetBits;
  for (int row = 0; row < t.n_rows; ++row)
    for (int c = 0; c < t.n_columns; ++c) {
      const uint64_t first_bits = bits_of(absolute(t.values[row][c])) >> (52 - kSizeBits - kOffsetBits);
      const uint64_t size = first_bits / kOffsets - kFirst;
      if (size >= kSizes) continue;
      int64_t* count = counts + c * int64_t{kCounts} + 2 * static_cast<int64_t>(size);
      ++count[0];
      count[1] += static_cast<int64_t>(first_bits % kOffsets);
    }
}

inline bool add_exactly(int64_t n_rows, const ExactArgs& args) {
  Tile tile;
  for (int64_t first = 0; first < args.n_columns; first += kTileColumns) {
    tile.n_columns = args.n_columns - first < kTileColumns ? static_cast<int>(args.n_columns - first) : kTileColumns;
    const auto from_first = [&](int64_t* limbs) { return limbs ? limbs + first * kLimbs : nullptr; };
    for (int64_t row = 0; row < n_rows; row += kTileRows) {
      tile.n_rows = n_rows - row < kTileRows ? static_cast<int>(n_rows - row) : kTileRows;
      const double largest = fill(tile, args.values + row * args.n_columns + first, args.n_columns, args.scale);
      const auto itself = [](Lanes x) { return x; };
      const auto square = [](Lanes x) { return x * x; };
      // The powers grow with their numbers.
      if (!add_tile(tile, itself, largest, from_first(args.sums)) ||
          !add_tile(tile, square, largest * largest, from_first(args.squares)))
        return false;
      if (args.counts) count_sizes(tile, args.counts + first * kCounts);
    }
  }
  return true;
}

inline void exact(const Job& job, const ExactArgs& args) { *args.fits = add_exactly(job.n_rows, args); }
}  // namespace TREEINNER_NS
}  // namespace treeinner
