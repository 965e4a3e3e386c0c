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

constexpr int kPathBlocks = 4;  // blocks that share a tree's table while it is in L1

// Small tree: the entries of each row's leaf, `Entries` of them, or as many as the leaf has (0).
template <bool Weighted, int Entries>
inline void add_entries(const PathTable& table, const int64_t* first_entry, const Landing& landing, int n, int width,
                        int64_t n_players, const double* weight, int64_t weight_stride, int64_t row_stride,
                        double* sums) {
  for (int k = 0; k < width; ++k)
    for (int r = 0; r < n; ++r) {
      const int leaf = landing.leaf[landing.slot[r]];
      const int64_t begin = Entries ? first_entry[0] + leaf * Entries : first_entry[leaf];
      const int64_t count = Entries ? Entries : first_entry[leaf + 1] - begin;
      const int32_t* player = table.player + begin;
      const double* step = table.step + begin * width + k;
      double* sum = sums + r * row_stride + k * n_players;
      const double w = Weighted ? weight[k * weight_stride + r] : 1.0;
#pragma GCC unroll 8
      for (int64_t i = 0; i < count; ++i) sum[player[i]] += Weighted ? step[i * width] * w : step[i * width];
    }
}

template <bool Weighted, class... Args>
inline void add_entries(int entries, const Args&... args) {
  switch (entries) {
    case 1: return add_entries<Weighted, 1>(args...);
    case 2: return add_entries<Weighted, 2>(args...);
    case 3: return add_entries<Weighted, 3>(args...);
    case 4: return add_entries<Weighted, 4>(args...);
    case 5: return add_entries<Weighted, 5>(args...);
    case 6: return add_entries<Weighted, 6>(args...);
    case 7: return add_entries<Weighted, 7>(args...);
    case 8: return add_entries<Weighted, 8>(args...);
    default: return add_entries<Weighted, 0>(args...);
  }
}

// Large tree: the splits that some row reaches, row by row.
template <bool Weighted, class Code>
inline void add_steps(const Forest& f, const Tree& t, const double* node_value, const Code* block, Word rows,
                      const double* weight, int64_t weight_stride, int64_t row_stride, Word* words, double* sums) {
  walk(
      f, t, block, rows, words,
      [&](int i, Word here, Word right) {
        const Split& s = t.splits[i];
        for (; here; here &= here - 1) {
          const int r = __builtin_ctzll(here);
          const int64_t child = right >> r & 1 ? s.right : s.left;
          for (int k = 0; k < f.width; ++k) {
            const double step = node_value[child * f.width + k] - node_value[static_cast<int64_t>(i) * f.width + k];
            const double w = Weighted ? weight[k * weight_stride + r] : 1.0;
            sums[r * row_stride + k * static_cast<int64_t>(f.n_players) + s.player] += Weighted ? step * w : step;
          }
        }
      },
      [](int, Word) {});
}

template <bool Weighted, class Code>
inline void add_path(const Forest& f, int first, int n_trees, const PathTable& table, const Code* codes, int64_t n_rows,
                     const double* weight, Word* words, double* sums) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t row_stride = static_cast<int64_t>(f.n_outputs) * f.n_players;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows, stride = padded(n_rows);
  Landing landing;
  for (int64_t super = 0; super < n_blocks; super += kPathBlocks) {
    const int64_t end = super + kPathBlocks < n_blocks ? super + kPathBlocks : n_blocks;
    for (int tree = first; tree < first + n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      for (int64_t block = super; block < end; ++block) {
        const Code* block_of_codes = codes + block * block_codes;
        const Word rows = rows_of_block(n_rows, block);
        const int64_t row = block * kRows;
        const int n = n_rows - row < kRows ? static_cast<int>(n_rows - row) : kRows;
        const double* w = Weighted ? weight + f.tree_output[tree] * stride + row : nullptr;
        double* out = sums + row * row_stride + static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
        if (t.n_leaves <= kSmall) {
          land(f, t, block_of_codes, rows, n, words, landing);
          add_entries<Weighted>(table.entries[tree], table, table.first_entry + t.first_leaf, landing, n, f.width,
                                f.n_players, w, stride, row_stride, out);
        } else {
          const double* node_value = table.node_value + (f.first_split[tree] + t.first_leaf) * f.width;
          add_steps<Weighted>(f, t, node_value, block_of_codes, rows, w, stride, row_stride, words, out);
        }
      }
    }
  }
}

}  // namespace treeinner::TREEINNER_NS
