// Attribution by path: going from a node to its child adds (value of the child - value of the node) to the feature that
// the node tests.
//
// It depends on a row through its leaf alone. So a small tree has a table: what the path to each leaf gives each player
// on it; a row takes a handful of additions per tree. In a large tree the path itself is cheaper than its table. With a
// weight per row and output the steps are multiplied by it: that is a row's share of a TreeInner score. sums: (rows,
// outputs, players), added to.
#pragma once

#include "route.h"

namespace treeinner::TREEINNER_NS {

constexpr int kRun = kTogether * kRows;  // rows that go through the trees together

// call(Count<n>): for n up to kRecord.
template <class Call>
inline void with_entries(int n, Call call) {
  switch (n) {
    case 1: return call(Count<1>{});
    case 2: return call(Count<2>{});
    case 3: return call(Count<3>{});
    case 4: return call(Count<4>{});
    case 5: return call(Count<5>{});
    case 6: return call(Count<6>{});
    case 7: return call(Count<7>{});
    case 8: return call(Count<8>{});
  }
}

// Small tree: the records of the rows' leaves, `Entries` in each.
template <bool Weighted, int Entries, class Number>
inline void add_records(const Number* records, const uint8_t* leaf, int n, const Number* weight, int64_t row_stride,
                        Number* sums) {
  for (int r = 0; r < n; ++r, sums += row_stride) {
    const Number* step = records + leaf[r] * record_stride<Number>(Entries);
    // Two loads for all players: a core has room for three addresses per cycle, and this loop asks for many.
    uint64_t packed[2] = {0, 0};
    std::memcpy(packed, step + Entries, Entries > 4 ? 16 : 8);
    auto player = [&](int i) { return static_cast<uint16_t>(packed[i / 4] >> 16 * (i % 4)); };
    const Number w = Weighted ? weight[r] : Number(1);
    Number sum[Entries];  // the players of a record differ, so all sums are read before one is written
#pragma GCC unroll 8
    for (int i = 0; i < Entries; ++i) sum[i] = sums[player(i)] + (Weighted ? step[i] * w : step[i]);
#pragma GCC unroll 8
    for (int i = 0; i < Entries; ++i) sums[player(i)] = sum[i];
  }
}

// The same by entries, as many as each leaf has.
template <bool Weighted>
inline void add_entries(const PathTable& table, const int64_t* first_entry, const uint8_t* leaf, int n, int width,
                        int64_t n_players, const double* weight, int64_t weight_stride, int64_t row_stride,
                        double* sums) {
  for (int k = 0; k < width; ++k)
    for (int r = 0; r < n; ++r) {
      double* sum = sums + r * row_stride + k * n_players;
      const double w = Weighted ? weight[k * weight_stride + r] : 1.0;
      for (int64_t i = first_entry[leaf[r]]; i < first_entry[leaf[r] + 1]; ++i)
        sum[table.player[i]] += Weighted ? table.step[i * width + k] * w : table.step[i * width + k];
    }
}

// weight and sums: of the first row and the tree's first output.
template <bool Weighted>
inline void add_leaves(const Forest& f, int tree, const PathTable& table, const uint8_t* leaf, int n,
                       const double* weight, int64_t weight_stride, double* sums) {
  const int64_t row_stride = static_cast<int64_t>(f.n_outputs) * f.n_players;
  if (!table.entries[tree])
    return add_entries<Weighted>(table, table.first_entry + f.first_leaf[tree], leaf, n, f.width, f.n_players, weight,
                                 weight_stride, row_stride, sums);
  const double* records = table.records + table.first_record[tree];
  with_entries(table.entries[tree], [&](auto entries) {
    add_records<Weighted, decltype(entries)::n>(records, leaf, n, weight, row_stride, sums);
  });
}

// Large tree: the splits that some row reaches, row by row.
template <bool Weighted, class Code>
inline void add_steps(const Forest& f, int tree, const PathTable& table, const Code* codes, int n, const double* weight,
                      int64_t weight_stride, Word* words, double* sums) {
  const Tree t = tree_of(f, tree);
  const double* node_value = table.node_value + (f.first_split[tree] + t.first_leaf) * f.width;
  const int64_t row_stride = static_cast<int64_t>(f.n_outputs) * f.n_players;
  for (int at = 0; at < n; at += kRows)
    walk(
        f, t, codes + static_cast<int64_t>(at) * f.n_planes, rows_of_block(n, at / kRows), words,
        [&](int i, Word here, Word right) {
          const Split& s = t.splits[i];
          for (; here; here &= here - 1) {
            const int r = __builtin_ctzll(here);
            const int64_t child = right >> r & 1 ? s.right : s.left;
            double* sum = sums + (at + r) * row_stride + s.player;
            for (int k = 0; k < f.width; ++k) {
              const double step = node_value[child * f.width + k] - node_value[static_cast<int64_t>(i) * f.width + k];
              const double w = Weighted ? weight[k * weight_stride + at + r] : 1.0;
              sum[k * static_cast<int64_t>(f.n_players)] += Weighted ? step * w : step;
            }
          }
        },
        [](int, Word) {});
}

template <bool Weighted, class Code>
inline void add_path(const Forest& f, int first, int n_trees, const PathTable& table, const Code* codes, int64_t n_rows,
                     const double* weight, Word* words, double* sums) {
  const int64_t row_stride = static_cast<int64_t>(f.n_outputs) * f.n_players, stride = padded(n_rows);
  alignas(64) uint8_t leaf[kRun];
  for (int64_t row = 0; row < n_rows; row += kRun) {
    const int n = n_rows - row < kRun ? static_cast<int>(n_rows - row) : kRun;
    const Code* run_codes = codes + row * f.n_planes;
    for (int tree = first; tree < first + n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      const double* w = Weighted ? weight + f.tree_output[tree] * stride + row : nullptr;
      double* run_sums = sums + row * row_stride + static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
      if (t.n_leaves <= kSmallTree) {
        land_small(f, t, run_codes, n, leaf);
        add_leaves<Weighted>(f, tree, table, leaf, n, w, stride, run_sums);
      } else {
        add_steps<Weighted>(f, tree, table, run_codes, n, w, stride, words, run_sums);
      }
    }
  }
}

}  // namespace treeinner::TREEINNER_NS
