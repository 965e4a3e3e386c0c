// Row scores of small trees, a batch of trees at a time: what path.h adds with a weight per row, in half the time.
//
// Adding a record's steps one by one is bound by their scattered stores. So the trees of a batch are kept back, a byte
// and a weight per row, and added player by player: the steps of one player in one tree are a number per leaf, which
// AVX-512 looks up for 32 rows at once. Other levels add the records. Both add the same float32 numbers in the order of
// the trees, so they give the same bits; the sum of a batch goes to a sum in float64. Row scores are for standard
// errors, where the 24 bits of a product are plenty; the scores themselves are exact (boost.h).
#pragma once

#include "lookup.h"
#include "path.h"

namespace treeinner::TREEINNER_NS {

inline bool takes_part(const PathTable& paths, int tree) {
  return paths.scores && paths.scores->first_record[tree] >= 0;
}

// Leaves and weights of a run's n rows in a tree.
inline void keep(const ScoreScratch& s, int slot, const uint8_t* leaf, const double* push, double scale, int n) {
  uint8_t* kept = s.leaf + slot * kRun;
  float* weight = s.weight + slot * kRun;
  for (int r = 0; r < n; ++r) weight[r] = static_cast<float>(push[r] * scale);
#if defined(TREEINNER_LOOKS_UP)
  for (int r = 0; r < n; r += kFloats) arrange(leaf + r, kept + r);
  for (int r = n; r % kFloats; ++r) weight[r] = 0;
#else
  std::memcpy(kept, leaf, static_cast<size_t>(n));
#endif
}

#if defined(TREEINNER_LOOKS_UP)

// One player's steps in one tree, for the rows that were kept.
struct KeptTree {
  FloatTable table;
  const uint8_t* leaf;
  const float* weight;
  KeptTree(const Lookup& l, const ScoreScratch& s, int slot)
      : table(l.low, l.high), leaf(s.leaf + slot * kRun), weight(s.weight + slot * kRun) {}
  Floats operator()(int r) const { return table(leaf + r) * load(weight + r); }
};

// part: of one player. Two trees at once: it is read and written half as often.
inline void add_player(const ScoreScratch& s, const Lookup* lookup, const uint8_t* slot, int n_trees, int n,
                       float* part) {
  std::memset(part, 0, sizeof(float) * kRun);
  int i = 0;
  for (; i + 2 <= n_trees; i += 2) {
    const KeptTree a(lookup[i], s, slot[i]), b(lookup[i + 1], s, slot[i + 1]);
    for (int r = 0; r < n; r += kFloats) store(part + r, load(part + r) + a(r) + b(r));
  }
  if (i < n_trees) {
    const KeptTree a(lookup[i], s, slot[i]);
    for (int r = 0; r < n; r += kFloats) store(part + r, load(part + r) + a(r));
  }
}

inline void add_batch(const Forest&, const PathTable& paths, int batch, double unit, int n, const ScoreScratch& s) {
  const ScoreTable& t = *paths.scores;
  int64_t at = t.first_lookup[batch];
  for (int64_t i = t.first_use[batch]; i < t.first_use[batch + 1]; ++i) {
    const LookupUse use = t.uses[i];
    add_player(s, t.lookups + at, t.slot + at, use.n_trees, n, s.part);
    double* total = s.total + static_cast<int64_t>(use.place) * kRun;
    for (int r = 0; r < n; ++r) total[r] += s.part[r] * unit;
    at += use.n_trees;
  }
}

// Here the totals are (places, rows).
inline void add_totals(const ScoreScratch& s, int64_t n_places, int n, double* sums) {
  for (int at = 0; at < n; at += kLanes)
    for (int64_t p = 0; p < n_places; ++p)
      for (int r = at; r < at + kLanes && r < n; ++r) sums[r * n_places + p] += s.total[p * kRun + r];
}

#else

inline void add_batch(const Forest& f, const PathTable& paths, int batch, double unit, int n, const ScoreScratch& s) {
  const ScoreTable& t = *paths.scores;
  const int64_t n_places = static_cast<int64_t>(f.n_outputs) * f.n_players;
  std::memset(s.part, 0, sizeof(float) * static_cast<size_t>(n * n_places));
  const int first = batch * kBatch, end = first + kBatch < f.n_trees ? first + kBatch : f.n_trees;
  for (int tree = first; tree < end; ++tree) {
    if (!takes_part(paths, tree)) continue;
    const int slot = tree - first;
    float* part = s.part + static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
    with_entries(paths.entries[tree], [&](auto entries) {
      add_records<true, decltype(entries)::n>(t.records + t.first_record[tree], s.leaf + slot * kRun, n,
                                              s.weight + slot * kRun, n_places, part);
    });
  }
  for (int64_t i = 0; i < n * n_places; ++i) s.total[i] += s.part[i] * unit;
}

inline void add_totals(const ScoreScratch& s, int64_t n_places, int n, double* sums) {
  for (int64_t i = 0; i < n * n_places; ++i) sums[i] += s.total[i];
}

#endif

}  // namespace treeinner::TREEINNER_NS
