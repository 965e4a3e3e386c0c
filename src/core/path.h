// Attribution by path: a split on feature k adds (value of the child taken - value of the node) to k.
//
// steps: (splits, 2, width), what the left and the right child add. With a weight per row and output the step is multiplied
// by it: that is a row's share of a TreeInner score.
// sums: [block][output][player][64], added to.
#pragma once

#include "route.h"

namespace treeinner::TREEINNER_NS {

template <bool Weighted, class Code>
inline void add_path(const Forest& f, int first, int n_trees, const double* steps, const Code* codes, int64_t n_rows,
                     const double* weight, Word* reach, double* sums) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t block_sums = static_cast<int64_t>(f.n_outputs) * f.n_players * kRows;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows, stride = padded(n_rows);
  for (int64_t block = 0; block < n_blocks; ++block)
    for (int tree = first; tree < first + n_trees; ++tree) {
      const double* tree_steps = steps + f.first_split[tree] * 2 * f.width;
      double* tree_sums = sums + block * block_sums + static_cast<int64_t>(f.tree_output[tree]) * f.n_players * kRows;
      const double* w = Weighted ? weight + f.tree_output[tree] * stride + block * kRows : nullptr;
      walk(
          f, tree, codes + block * block_codes, rows_of_block(n_rows, block), reach,
          [&](int i, const Split& s, Word here, Word right) {
            for (int k = 0; k < f.width; ++k) {
              const double to_left = tree_steps[2 * i * f.width + k];
              const double to_right = tree_steps[(2 * i + 1) * f.width + k];
              double* sum = tree_sums + (static_cast<int64_t>(k) * f.n_players + s.player) * kRows;
              for (int g = 0; g < kGroups; ++g) {
                Lanes step = choose(mask_of(right, g), to_right, to_left);
                if (Weighted) step = step * load(w + k * stride + g * kLanes);
                store(sum + g * kLanes, add_where(mask_of(here, g), load(sum + g * kLanes), step));
              }
            }
          },
          [](int, Word) {});
    }
}

}  // namespace treeinner::TREEINNER_NS
