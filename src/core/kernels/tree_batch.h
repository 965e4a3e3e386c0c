// Row scores of small trees, 64 trees at a time: what path.h adds with a weight per row, in half the time.
//
// The trees of a tree batch are set aside, a byte and a weight per row, and added to a few rows, whose sums stay in L1.
// An entry of a record is a quad: all that a step gives, added together in one register. Row scores are float32 numbers
// in it, for standard errors, where the 24 bits of a product are plenty; the scores themselves are exact (boost.h).
// Contributions are whole numbers and small rests. The sum of a tree batch goes to sums in float64.
#pragma once

#include "path.h"

namespace treeinner {
struct TreeBatchScratch {
  uint8_t* leaf;  // (kTreeBatch, kAside)
  float* weight;  // (kTreeBatch, kAside)
  float* part;    // (kTogetherRows, places, kQuad)  sums of a tree batch
};

namespace TREEINNER_NS {
constexpr int kTogetherRows = 64;  // rows that a tree batch is added to at a time

inline TreeBatchScratch tree_batch_scratch(const Forest& f, const PathTable* paths, Arena& arena) {
  const int64_t aside = paths && paths->scores ? kTreeBatch * kAside : 0, places = aside ? n_places(f) : 0;
  return {arena.take<uint8_t>(aside), arena.take<float>(aside), arena.take<float>(kTogetherRows * places * kQuad)};
}

// Leaves and weights of the rows of a run in a tree; `at`: where they begin.
inline void set_aside(const TreeBatchScratch& s, const PathRun& run, int at, double scale) {
  const int first = run.tree % kTreeBatch * kAside + at;
  std::memcpy(s.leaf + first, run.frontier, static_cast<size_t>(run.n));
  for (int r = 0; r < run.n; ++r) s.weight[first + r] = static_cast<float>(run.weight[r] * scale);
}

// The players of a record of quads: fewer loads and lines of cache than as 16-bit numbers.
struct PackedPlayers {
  uint64_t packed[2];
  int operator()(int i) const {
    return static_cast<int>(packed[i / kPacked] >> kPlayerBits * (i % kPacked) & ((1 << kPlayerBits) - 1));
  }
};

enum class Level { kApart, kAdded, kWeighted };  // with fixed node values it is added to the step, times a row's weight

// row_weight: of shares, if levels are weighted.
template <int Entries, Level Kind>
inline void add_quads(const float* records, const uint8_t* leaf, int n, const float* weight, const double* row_weight,
                      int64_t row_stride, float* sums) {
  constexpr bool kFixed = Kind != Level::kApart;
  constexpr int kFloats = kFixed ? kQuad + 1 : kQuad;
  for (int r = 0; r < n; ++r, sums += row_stride) {
    const float* quad = records + leaf[r] * quad_stride(Entries, kFloats);
    PackedPlayers player{};
    std::memcpy(player.packed, quad + kFloats * Entries, Entries <= kPacked ? 8 : 16);
    const float own = Kind == Level::kWeighted ? static_cast<float>(row_weight[r]) : weight[r];
    const Quad times = {{{own, 1.0f, 1.0f, 1.0f}}};
    const Quad four = {{{weight[r], weight[r], weight[r], weight[r]}}};
    Quad step{};        // of four entries, in one load
    Quad sum[Entries];  // the players of a record differ: all are read before one is written
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) {
      const Quad held = load<Quad>(quad + kQuad * i);
      sum[i] = load<Quad>(sums + kQuad * player(i)) + (Kind == Level::kAdded ? held : held * times);
      if (!kFixed) continue;
      const float* steps = quad + kQuad * Entries;
      if (i % kQuad == 0 && i + kQuad <= Entries) step = load<Quad>(steps + i) * four;
      sum[i].part[0][0] += i < Entries / kQuad * kQuad ? step.part[0][i % kQuad] : steps[i] * weight[r];
    }
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) store(sums + kQuad * player(i), sum[i]);
  }
}

// Of the rows that were set aside, row_weight: of shares; null: 1; sums, fixed and contributions: (rows, places), added
// to; fixed: of a table with fixed node values; contributions: or null.
inline void add_tree_batch(const Forest& f, const PathTable& paths, int tree_batch, double scale, int n,
                           const double* row_weight, const TreeBatchScratch& s, double* sums, double* fixed,
                           double* contributions) {
  const ScoreTable& t = *paths.scores;
  const int64_t places = n_places(f);
  const double unit = t.step_unit / scale, of_whole = t.step_unit / kWhole;
  const int first = tree_batch * kTreeBatch, end = first + kTreeBatch < f.n_trees ? first + kTreeBatch : f.n_trees;
  for (int at = 0; at < n; at += kTogetherRows) {
    const int rows = n - at < kTogetherRows ? n - at : kTogetherRows;
    std::memset(s.part, 0, sizeof(float) * static_cast<size_t>(rows * places * kQuad));
    for (int tree = first; tree < end; ++tree) {
      if (!t.takes_part[tree]) continue;
      const int aside = (tree - first) * kAside + at;
      float* part = s.part + int64_t{f.tree_output[tree]} * f.n_players * kQuad;
      const double* own = row_weight ? row_weight + at : nullptr;
      with_count<1, kRecord>(paths.entries[tree], [&](auto entries) {
        constexpr int kEntries = decltype(entries)::n;
        const auto add = !t.with_fixed ? add_quads<kEntries, Level::kApart>
                         : own         ? add_quads<kEntries, Level::kWeighted>
                                       : add_quads<kEntries, Level::kAdded>;
        add(t.records + t.first_record[tree], s.leaf + aside, rows, s.weight + aside, own, places * kQuad, part);
      });
    }
    for (int r = 0; r < rows; ++r) {
      const float* quad = s.part + r * places * kQuad;
      double* sum = sums + (at + r) * places;
      const double of_level = row_weight ? unit * row_weight[at + r] : unit;
      if (t.with_fixed) {  // the level is in the sum already
        for (int64_t i = 0; i < places; ++i) sum[i] += quad[i * kQuad] * unit;
        sum = fixed + (at + r) * places;
      }
      for (int64_t i = 0; i < places; ++i) sum[i] += quad[i * kQuad] * unit + quad[i * kQuad + 1] * of_level;
      if (!contributions) continue;
      sum = contributions + (at + r) * places;
      for (int64_t i = 0; i < places; ++i)
        sum[i] += (double{quad[i * kQuad + 2]} + double{quad[i * kQuad + 3]}) * of_whole;
    }
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
