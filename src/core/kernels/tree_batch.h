// Row scores of small trees, 32 trees at a time: what path.h adds with a weight per row, in half the time.
//
// Adding a record's steps one by one is bound by their scattered stores. So the trees of a tree batch are set aside, a
// byte and a weight per row, and added player by player: the steps of one player in one tree are a number per leaf,
// which AVX-512 looks up for 32 rows at once. The other instruction sets add the records. Both add the same float32
// numbers in the order of the trees, so they give the same bits; the sum of a tree batch goes to a sum in float64. Row
// scores are for standard errors, where the 24 bits of a product are plenty; the scores themselves are exact (boost.h).
#pragma once

#include "path.h"

namespace treeinner {
struct TreeBatchScratch {
  uint8_t* leaf;      // (kTreeBatch, run)
  float* weight;      // (kTreeBatch, run)
  float* row_weight;  // (run,)  of shares
  float* part;        // sums of a tree batch: by records (run, places), by lookup (run,)
  double* total;      // sums of all tree batches so far: by records (run, places), by lookup (places, run)
};

namespace TREEINNER_NS {
inline TreeBatchScratch tree_batch_scratch(const Forest& f, const PathTable* paths, Arena& arena) {
  const int64_t aside = paths && paths->scores ? kTreeBatch * kRun : 0, places = aside ? kRun * n_places(f) : 0;
  return {arena.take<uint8_t>(aside), arena.take<float>(aside), arena.take<float>(aside ? kRun : 0),
          arena.take<float>(places), arena.take<double>(places)};
}

// Leaves and weights of the rows of a run in a tree.
inline void set_aside(const ScoreTable& t, const TreeBatchScratch& s, const PathRun& run, double scale) {
  const int slot = run.tree % kTreeBatch, n = run.n;
  uint8_t* to = s.leaf + slot * kRun;
  float* weight = s.weight + slot * kRun;
  for (int r = 0; r < n; ++r) weight[r] = static_cast<float>(run.weight[r] * scale);
  for (int r = n; r % kFloats; ++r) weight[r] = 0;
  std::memcpy(to, run.frontier, kRun);
  for (int r = 0; t.by_lookup && r < n; r += kFloats) arrange(run.frontier + r, to + r);
}

// -- by lookup

// The level of shares: none, as it is, or times the weight of a row.
enum class Level { kNone, kPlain, kWeighted };

// One player's steps in one tree, for the rows that were set aside; of shares the level too.
template <Level Kind>
struct TreeSteps {
  FloatTable table, level;
  const uint8_t* leaf;
  const float *weight, *row_weight;
  TreeSteps(const ScoreTable& t, int64_t i, const TreeBatchScratch& s)
      : table{t.lookups[i].low, t.lookups[i].high},
        level(table),
        leaf(s.leaf + t.slot[i] * kRun),
        weight(s.weight + t.slot[i] * kRun),
        row_weight(s.row_weight) {
    if (Kind != Level::kNone) level = {t.level_lookups[i].low, t.level_lookups[i].high};
  }
  FloatPack add_to(FloatPack sum, int r) const {
    const FloatPack step = table(leaf + r) * load<FloatPack>(weight + r);
    if (Kind == Level::kNone) return sum + step;
    return sum +
           (step + (Kind == Level::kWeighted ? level(leaf + r) * load<FloatPack>(row_weight + r) : level(leaf + r)));
  }
};

template <Level Kind>
inline void add_lookups(const ScoreTable& t, int tree_batch, double unit, int n, const TreeBatchScratch& s) {
  float* part = s.part;
  int64_t i = t.first_lookup[tree_batch];
  for (int64_t use = t.first_use[tree_batch]; use < t.first_use[tree_batch + 1]; ++use) {
    const auto [place, n_trees] = t.uses[use];
    const int64_t end = i + n_trees;
    std::memset(part, 0, sizeof(float) * kRun);
    for (; i + 1 < end; i += 2) {  // two trees at once: the sums are read and written half as often
      const TreeSteps<Kind> a(t, i, s), b(t, i + 1, s);
      for (int r = 0; r < n; r += kFloats) store(part + r, b.add_to(a.add_to(load<FloatPack>(part + r), r), r));
    }
    for (; i < end; ++i) {
      const TreeSteps<Kind> a(t, i, s);
      for (int r = 0; r < n; r += kFloats) store(part + r, a.add_to(load<FloatPack>(part + r), r));
    }
    double* total = s.total + static_cast<int64_t>(place) * kRun;
    for (int r = 0; r < n; ++r) total[r] += part[r] * unit;
  }
}

// -- by records

// Records of shares: the steps, the level, then the players. All eight at a time: what is too many is not used.
template <int Entries, Level Kind>
inline void add_share_records(const float* records, const uint8_t* leaf, int n, const float* weight,
                              const float* row_weight, int64_t row_stride, float* sums) {
  for (int r = 0; r < n; ++r, sums += row_stride) {
    const float *step = records + leaf[r] * share_stride(Entries), *level = step + Entries;
    uint64_t packed[2];
    std::memcpy(packed, level + Entries, sizeof packed);
    auto player = [&](int i) { return static_cast<uint16_t>(packed[i / 4] >> 16 * (i % 4)); };
    const float w = weight[r], of_row = Kind == Level::kWeighted ? row_weight[r] : 1.0f;
    float share[kRecord], sum[Entries];
    for (int i = 0; i < kRecord; ++i)
      share[i] = step[i] * w + (Kind == Level::kWeighted ? level[i] * of_row : level[i]);
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) sum[i] = sums[player(i)] + share[i];
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) sums[player(i)] = sum[i];
  }
}

inline void add_score_records(const Forest& f, const PathTable& paths, int tree_batch, double unit, Level level, int n,
                              const TreeBatchScratch& s) {
  const ScoreTable& t = *paths.scores;
  const int64_t places = n_places(f);
  std::memset(s.part, 0, sizeof(float) * static_cast<size_t>(n * places));
  const int first = tree_batch * kTreeBatch, end = first + kTreeBatch < f.n_trees ? first + kTreeBatch : f.n_trees;
  for (int at = 0; at < n; at += kBlock)  // the sums of a block stay in L1
    for (int tree = first; tree < end; ++tree) {
      if (!t.takes_part[tree]) continue;
      const int slot = (tree - first) * kRun + at, rows = n - at < kBlock ? n - at : kBlock;
      float* part = s.part + at * places + static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
      const float *records = t.records + t.first_record[tree], *weight = s.weight + slot;
      const uint8_t* leaf = s.leaf + slot;
      with_count<1, kRecord>(paths.entries[tree], [&](auto entries) {
        constexpr int kEntries = decltype(entries)::n;
        if (level == Level::kNone) return add_records<true, kEntries>(records, leaf, rows, weight, places, part);
        with_count<1, 2>(static_cast<int>(level), [&](auto kind) {
          constexpr Level kLevel = static_cast<Level>(decltype(kind)::n);
          add_share_records<kEntries, kLevel>(records, leaf, rows, weight, s.row_weight + at, places, part);
        });
      });
    }
  for (int64_t i = 0; i < n * places; ++i) s.total[i] += s.part[i] * unit;
}

// -- either

// weighted: whether row weights are other than 1.
inline void add_tree_batch(const Forest& f, const PathTable& paths, int tree_batch, double scale, bool weighted, int n,
                           const TreeBatchScratch& s) {
  const ScoreTable& t = *paths.scores;
  const double unit = t.step_unit / scale;
  const Level level = !paths.level ? Level::kNone : weighted ? Level::kWeighted : Level::kPlain;
  if (!t.by_lookup) return add_score_records(f, paths, tree_batch, unit, level, n, s);
  with_count<0, 2>(static_cast<int>(level),
                   [&](auto kind) { add_lookups<static_cast<Level>(decltype(kind)::n)>(t, tree_batch, unit, n, s); });
}

inline void add_totals(const ScoreTable& t, const TreeBatchScratch& s, int64_t places, int n, double* sums) {
  if (!t.by_lookup) {
    for (int64_t i = 0; i < n * places; ++i) sums[i] += s.total[i];
    return;
  }
  for (int at = 0; at < n; at += kLanes)
    for (int64_t p = 0; p < places; ++p)
      for (int r = at; r < at + kLanes && r < n; ++r) sums[r * places + p] += s.total[p * kRun + r];
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
