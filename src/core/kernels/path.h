// Attribution by path: going from a node to its child adds (value of the child - value of the node) to the feature that
// the node tests.
//
// What the path through a top gives depends on a row through its frontier node alone. So there is a table: what the
// path to each of them gives each player on it; a row takes a handful of additions per tree. Below the top of a large
// tree it takes step by step: tables for thousands of leaves would not stay in the cache. With a weight per row and
// output the steps are multiplied by it: that is a row's share of a TreeInner score.
#pragma once

#include "../model/tables.h"
#include "route.h"

namespace treeinner {
struct PathArgs {
  const PathTable* table;
  const double* weight;      // (outputs, padded rows) or null; of shares: residuals, less their mean in the root
  const double* row_weight;  // (rows,) of shares; null: 1
  double* sums;              // (rows, outputs, players), added to
};

namespace TREEINNER_NS {
// The players of a record. Two loads for all of them: a core has room for three addresses per cycle, and loops over
// records ask for many.
struct Players {
  uint64_t packed[2];
  int operator()(int i) const { return static_cast<uint16_t>(packed[i / 4] >> 16 * (i % 4)); }
};

template <int Entries>
inline Players players_at(const void* behind_entries) {
  Players out{};
  std::memcpy(out.packed, behind_entries, Entries > 4 ? 16 : 8);
  return out;
}

// The records of the rows' frontier nodes, `Entries` in each.
template <bool Weighted, int Entries>
inline void add_records(const double* records, const uint8_t* frontier, int n, const double* weight, int64_t row_stride,
                        double* sums) {
  for (int r = 0; r < n; ++r, sums += row_stride) {
    const double* step = records + frontier[r] * record_stride(Entries);
    const Players player = players_at<Entries>(step + Entries);
    const double w = Weighted ? weight[r] : 1.0;
    double sum[Entries];  // the players of a record differ, so all sums are read before one is written
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) sum[i] = sums[player(i)] + (Weighted ? step[i] * w : step[i]);
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) sums[player(i)] = sum[i];
  }
}

// Rows of a run in one tree: their frontier nodes, their weights and sums for the tree's first output.
struct PathRun {
  int tree, n;
  const uint8_t* frontier;
  const double* weight;
  int64_t weight_stride;
  double* sums;
};

// visit(row, player, step by output of the tree): what the path through the top gives them.
template <class Visit>
inline void for_each_step(const Forest& f, const PathTable& table, const PathRun& run, Visit visit) {
  const int64_t* first_entry = table.first_entry + f.tops[run.tree].first_frontier;
  if (!table.entries[run.tree]) {
    for (int r = 0; r < run.n; ++r)
      for (int64_t i = first_entry[run.frontier[r]]; i < first_entry[run.frontier[r] + 1]; ++i)
        visit(r, table.player[i], table.step + i * f.width);
    return;
  }
  with_count<1, kRecord>(table.entries[run.tree], [&](auto entries) {
    constexpr int kEntries = decltype(entries)::n;
    const double* records = table.records + table.first_record[run.tree];
    for (int r = 0; r < run.n; ++r) {
      const double* step = records + run.frontier[r] * record_stride(kEntries);
      const Players player = players_at<kEntries>(step + kEntries);
      for (int i = 0; i < kEntries; ++i) visit(r, player(i), step + i);
    }
  });
}

// The same for the steps below a top. leaf: where the rows end.
template <class Code, class Visit>
inline void for_each_deep(const Forest& f, const PathTable& table, const Code* codes, const PathRun& run, int32_t* leaf,
                          Visit visit) {
  const Top& top = f.tops[run.tree];
  const int width = f.width;
  const int32_t* player = f.plane_player;
  const char* deep = table.deep + top.first_deep * deep_stride(width);
  descend(f, top, deep, width, codes, run.n, run.frontier, leaf, [=](int r, const DeepSplit& split, int side) {
    visit(r, player[split.plane], reinterpret_cast<const double*>(&split + 1) + side * width);
  });
}

// Adds the steps of a row's path, times its weights, to its sums.
template <bool Weighted>
inline auto adder(const Forest& f, const PathRun& run) {
  const int64_t row_stride = n_places(f), n_players = f.n_players, weight_stride = run.weight_stride;
  const int width = f.width;
  const double* weight = run.weight;
  double* sums = run.sums;
  return [=](int r, int player, const double* step) {
    double* sum = sums + r * row_stride + player;
    for (int k = 0; k < width; ++k) sum[k * n_players] += Weighted ? step[k] * weight[k * weight_stride + r] : step[k];
  };
}

// What the path through the top gives them.
template <bool Weighted>
inline void add_frontier(const Forest& f, const PathTable& table, const PathRun& run) {
  const double* records = table.records + table.first_record[run.tree];
  if (!table.entries[run.tree]) return for_each_step(f, table, run, adder<Weighted>(f, run));
  with_count<1, kRecord>(table.entries[run.tree], [&, run](auto entries) {
    add_records<Weighted, decltype(entries)::n>(records, run.frontier, run.n, run.weight, n_places(f), run.sums);
  });
}

// Below a top: the rest of their way, and what they take on it. leaf: where they end.
template <bool Weighted, class Code>
inline void add_steps(const Forest& f, const PathTable& table, const Code* codes, const PathRun& run, int32_t* leaf) {
  for_each_deep(f, table, codes, run, leaf, adder<Weighted>(f, run));
}

// Shares of the rows in a centred score: three attributions in one (model/share_table.h). leaf: where they end, below a
// top.
template <class Code>
inline void add_shares(const Forest& f, const PathTable& table, const Code* codes, const PathRun& run,
                       const double* row_weight, int32_t* leaf) {
  const Top& top = f.tops[run.tree];
  const PathRun level{run.tree, run.n, run.frontier, row_weight, 0, run.sums};
  add_frontier<true>(f, table, run);
  row_weight ? add_frontier<true>(f, *table.level, level) : add_frontier<false>(f, *table.level, level);
  if (!top.below) return;

  const int64_t row_stride = n_places(f), n_players = f.n_players;
  const int width = f.width;
  descend(f, top, codes, run.n, run.frontier, leaf);
  const double *value = f.leaf_value + f.first_leaf[run.tree] * width, *root = table.root + int64_t{run.tree} * width;
  const auto weight_of = [=](int r) { return row_weight ? row_weight[r] : 1.0; };
  const auto leaf_of = [=](int r, int k) { return (value[int64_t{leaf[r]} * width + k] - root[k]) * weight_of(r); };
  const int64_t* first_entry = table.leaf->first_entry + top.first_frontier;
  for (int r = 0; r < run.n; ++r)
    for (int k = 0; k < width; ++k) {
      double* sum = run.sums + r * row_stride + k * n_players;
      const double at_leaf = leaf_of(r, k);
      for (int64_t i = first_entry[run.frontier[r]]; i < first_entry[run.frontier[r] + 1]; ++i)
        sum[table.leaf->player[i]] += table.leaf->step[i * width + k] * at_leaf;
    }
  int32_t way[kRun];
  const char* deep = table.deep + top.first_deep * deep_stride(width);
  descend(f, top, deep, width, codes, run.n, run.frontier, way, [&](int r, const DeepSplit& split, int side) {
    const int64_t at = reinterpret_cast<const char*>(&split + 1) - table.deep;
    const auto step = [&](const PathTable& t) { return reinterpret_cast<const double*>(t.deep + at) + side * width; };
    double* sum = run.sums + r * row_stride + f.plane_player[split.plane];
    for (int k = 0; k < width; ++k)
      sum[k * n_players] += step(table)[k] * run.weight[k * run.weight_stride + r] +
                            step(*table.leaf)[k] * leaf_of(r, k) + step(*table.level)[k] * weight_of(r);
  });
}

template <class Code>
inline void path(const Job& job, const PathArgs& args) {
  const Forest& f = *job.forest;
  const int64_t row_stride = n_places(f), stride = padded(job.n_rows);
  alignas(64) uint8_t frontier[kRun];
  int32_t leaf[kRun];
  with_count<0, 1>(args.weight != nullptr, [&](auto flag) {
    constexpr bool kWeighted = decltype(flag)::n;
    for_each_run(job, [&](int tree, int64_t row, int n) {
      const Top& top = f.tops[tree];
      const Code* codes = codes_of<Code>(job) + row * f.n_planes;
      const double* w = kWeighted ? args.weight + f.tree_output[tree] * stride + row : nullptr;
      double* sums = args.sums + row * row_stride + static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
      const PathRun run{tree, n, frontier, w, stride, sums};
      route(f, top, codes, n, frontier);
      if (args.table->level)
        return add_shares(f, *args.table, codes, run, args.row_weight ? args.row_weight + row : nullptr, leaf);
      add_frontier<kWeighted>(f, *args.table, run);
      if (top.below) add_steps<kWeighted>(f, *args.table, codes, run, leaf);
    });
  });
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
