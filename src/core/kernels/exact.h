// Sums that do not depend on the order: fixed-point numbers, which add exactly.
//
// A number x is cut into integers ("limbs") with the units 2^-88, 2^-56, 2^-24, 2^8 and so on, each rounded to nearest,
// the remainder handed on; the last limb has the least unit. Limbs are added as 64-bit integers, so any batches in any
// order give the same bits. A row adds at most 2^31 to a limb, to the first at most 2^40: the caller carries after
// 2^22 rows at most. The caller scales x by a power of two that depends on the model alone, so that a typical x is near
// 1; what is lost is below 2^-89, of x^4 below 2^-185.
#pragma once

#include "job.h"

namespace treeinner {
constexpr int kLeastLimbs = 3, kMostLimbs = 10;  // of an exact sum; n limbs take numbers below 2^(32 n - 80)

// Fourth powers are of numbers times 2^24, so that they are as exact as squares: shares of a rare class, or of a model
// with an outlier among its leaves, may be 2^-40. Ten limbs then take those of numbers below 2^36.
constexpr double kFourthScale = 0x1p24;

// The limbs of one power: (columns, n), or of the rows of each cluster, (clusters, columns, n); or null.
struct Limbs {
  int64_t* data = nullptr;
  int n = 0;
};

// Adds the columns of values, (rows, columns), times scale, and their powers.
struct ExactArgs {
  const double* values;
  int64_t n_columns;
  double scale;
  Limbs sums, squares, fourths;  // fourths: of numbers times kFourthScale
  const int64_t* cluster;        // (rows,) whose limbs a row is added to; or null
  const int64_t* order;          // (rows,) which row of the values each is, or null: as they come
  bool* fits;                    // false if a number is too large or NaN; the limbs are then of no use
};

namespace TREEINNER_NS {
// A tile of numbers, scaled, behind the last column zeros: its largest number tells how many limbs it needs. It stays
// in L1 while its powers are taken. Its rows are of one cluster.
constexpr int kTileRows = 64, kTileColumns = 32;
struct Tile {
  alignas(64) double values[kTileRows][kTileColumns];
  int n_rows, n_columns;
  double largest;  // size of the largest number; infinite if one is NaN
};

inline void fill(Tile& t, const ExactArgs& args, int64_t first_row, int64_t first_column) {
  double most[kTileColumns] = {};
  for (int row = 0; row < t.n_rows; ++row) {
    const int64_t at = args.order ? args.order[first_row + row] : first_row + row;
    const double* values = args.values + at * args.n_columns + first_column;
    for (int c = 0; c < t.n_columns; ++c) {
      const double x = values[c] * args.scale, size = absolute(x);
      t.values[row][c] = x;
      most[c] = size <= most[c] ? most[c] : size < kInfinity ? size : kInfinity;
    }
  }
  t.largest = 0;
  for (int c = 0; c < t.n_columns; ++c) t.largest = most[c] > t.largest ? most[c] : t.largest;
}

// A tile's numbers, times scale, become their squares; they grow with their numbers.
inline void square(Tile& t, double scale) {
  const auto squared = [&](double x) { return (x * scale) * (x * scale); };
  for (int row = 0; row < t.n_rows; ++row)
    for (int c = 0; c < kTileColumns; ++c) t.values[row][c] = squared(t.values[row][c]);
  t.largest = squared(t.largest);
}

// A limb's unit times this, added to a number, rounds it to units, which the low bits of the sum then count.
constexpr double kShift = 0x1.8p52;
constexpr double kUnits[kMostLimbs] = {0x1p-88, 0x1p-56, 0x1p-24, 0x1p8,   0x1p40,
                                       0x1p72,  0x1p104, 0x1p136, 0x1p168, 0x1p200};  // from the last limb

// Add a tile to the last N limbs; the ones above are 0 in numbers as small as these. limbs: of the first column.
template <int N>
inline void cut_tile(const Tile& t, int64_t* limbs, int n_limbs) {
  for (int first = 0; first < t.n_columns; first += kLanes) {
    Tally tally[N] = {};
    for (int row = 0; row < t.n_rows; ++row) {
      Lanes x = load<Lanes>(&t.values[row][first]);
      TREEINNER_UNROLL for (int i = N - 1; i >= 0; --i) {
        const Lanes shift = all<Lanes>(kShift * kUnits[i]), shifted = x + shift;
        tally[i] = tally[i] + bits_of(shifted);
        x = x - (shifted - shift);
      }
    }
    for (int i = 0; i < N; ++i) {
      const uint64_t shifts = bits_of(kShift * kUnits[i]) * static_cast<uint64_t>(t.n_rows);
      alignas(64) uint64_t sum[kLanes];
      store(sum, tally[i]);
      for (int l = 0; l < kLanes && first + l < t.n_columns; ++l)
        limbs[(first + l + 1) * n_limbs - 1 - i] += static_cast<int64_t>(sum[l] - shifts);
    }
  }
}

// Adds a tile to the limbs from a place on. False if its largest number is too large for them.
inline bool add_tile(const Tile& t, const Limbs& limbs, int64_t place) {
  if (!limbs.data || t.largest == 0) return true;
  int n = kLeastLimbs;
  double half = kUnits[kLeastLimbs] / 2;  // of the unit above: smaller numbers are rounded to none of it
  for (; n < limbs.n && t.largest >= half; ++n) half *= 0x1p32;
  if (t.largest >= half * 0x1p9) return false;  // the first limb then gets 2^40 at most
  with_count<kLeastLimbs, kMostLimbs>(
      n, [&](auto count) { cut_tile<decltype(count)::n>(t, limbs.data + place * limbs.n, limbs.n); });
  return true;
}

inline bool add_exactly(int64_t n_rows, const ExactArgs& args) {
  Tile tile;
  for (int64_t first = 0; first < args.n_columns; first += kTileColumns) {
    std::memset(tile.values, 0, sizeof tile.values);
    tile.n_columns = args.n_columns - first < kTileColumns ? static_cast<int>(args.n_columns - first) : kTileColumns;
    for (int64_t row = 0; row < n_rows; row += tile.n_rows) {
      const auto together = [&](int64_t other) { return !args.cluster || args.cluster[other] == args.cluster[row]; };
      for (tile.n_rows = 1; tile.n_rows < kTileRows && row + tile.n_rows < n_rows && together(row + tile.n_rows);)
        ++tile.n_rows;
      fill(tile, args, row, first);
      const int64_t place = (args.cluster ? args.cluster[row] * args.n_columns : 0) + first;
      if (!add_tile(tile, args.sums, place)) return false;
      if (args.squares.data || args.fourths.data) square(tile, 1);
      if (!add_tile(tile, args.squares, place)) return false;
      if (args.fourths.data) square(tile, kFourthScale * kFourthScale);
      if (!add_tile(tile, args.fourths, place)) return false;
    }
  }
  return true;
}

inline void exact(const Job& job, const ExactArgs& args) { *args.fits = add_exactly(job.n_rows, args); }
}  // namespace TREEINNER_NS
}  // namespace treeinner
