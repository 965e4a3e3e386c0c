// Rows through all boosting rounds in one go: gradients at the margin before a round, what the round's trees make of
// them, leaf values added, and on.
//
// One visit of a tree gives a row everything: its leaf value, its gradient's place in the leaf's sum, and its row
// scores.
#pragma once

#include "loss.h"
#include "path.h"

namespace treeinner::TREEINNER_NS {

constexpr int kRun = kPathBlocks * kRows;  // rows that go through the rounds together

struct Run {
  int64_t row;  // first row
  int n;        // rows
  double* push;
  int64_t* whole;
};

// Minus the gradients of a run, weighted; and as whole numbers, which add exactly.
inline void take_gradients(const Forest& f, const BoostInput& in, const Run& run) {
  add_gradient(in.loss, f.n_outputs, run.n, in.y + run.row, in.y_stride, in.margin + run.row, in.stride, run.push,
               kRun);
  double* largest = in.largest + run.row;
  for (int k = 0; k < f.n_outputs; ++k) {
    double* push = run.push + k * kRun;
    if (in.weight)
      for (int r = 0; r < run.n; ++r) push[r] *= in.weight[run.row + r];
    for (int r = 0; r < run.n; ++r) {
      const double scaled = push[r] * in.whole_scale, size = __builtin_fabs(scaled);
      largest[r] = size <= largest[r] ? largest[r] : size;  // NaN too
      run.whole[k * kRun + r] = size < 0x1p62 ? static_cast<int64_t>(__builtin_rint(scaled)) : 0;
    }
  }
}

// What the rows of one block take from a tree, by their leaves.
inline void take_leaves(const Forest& f, const BoostInput& in, const Tree& t, int tree, const Landing& landing,
                        const Run& run, int at, int n) {
  const int output = f.tree_output[tree];
  for (int k = 0; k < f.width; ++k) {
    double* margin = in.margin + (output + k) * in.stride + run.row + at;
    const double* value = f.leaf_value + t.first_leaf * f.width + k;
    int64_t* sums = in.leaf_sums + t.first_leaf * f.width + k;
    const int64_t* whole = run.whole + (output + k) * kRun + at;
    for (int r = 0; r < n; ++r) {
      const int64_t leaf = static_cast<int64_t>(landing.leaf[landing.slot[r]]) * f.width;
      margin[r] += value[leaf];
      sums[leaf] += whole[r];
    }
    if (in.leaf_weights) {
      int64_t* weights = in.leaf_weights + t.first_leaf * f.width + k;
      for (int r = 0; r < n; ++r)
        weights[static_cast<int64_t>(landing.leaf[landing.slot[r]]) * f.width] += in.whole_weight[run.row + at + r];
    }
  }
}

template <class Code>
inline void boost(const Forest& f, const BoostInput& in, const PathTable* paths, const Code* codes, int64_t n_rows,
                  Word* words, double* push, int64_t* whole) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t row_stride = static_cast<int64_t>(f.n_outputs) * f.n_players;
  Landing small, large;
  for (int64_t row = 0; row < n_rows; row += kRun) {
    const Run run{row, n_rows - row < kRun ? static_cast<int>(n_rows - row) : kRun, push, whole};
    for (int round = 0; round < in.n_rounds; ++round) {
      take_gradients(f, in, run);
      for (int tree = in.first_tree[round]; tree < in.first_tree[round + 1]; ++tree) {
        const Tree t = tree_of(f, tree);
        for (int at = 0; at < run.n; at += kRows) {
          const int64_t block = (row + at) / kRows;
          const Word rows = rows_of_block(n_rows, block);
          const Code* block_of_codes = codes + block * block_codes;
          const int n = run.n - at < kRows ? run.n - at : kRows;
          const double* weight = push + f.tree_output[tree] * kRun + at;
          double* sums = in.sums + (row + at) * row_stride + static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
          if (t.n_leaves <= kSmall) {
            spread(f, t, block_of_codes, rows, words);
            land_small(t, words, small);
            if (paths)
              add_entries<true>(paths->entries[tree], *paths, paths->first_entry + t.first_leaf, small, n, f.width,
                                static_cast<int64_t>(f.n_players), weight, int64_t{kRun}, row_stride, sums);
            take_leaves(f, in, t, tree, small, run, at, n);
          } else {
            if (paths)
              add_steps<true>(f, t, paths->node_value + (f.first_split[tree] + t.first_leaf) * f.width, block_of_codes,
                              rows, weight, kRun, row_stride, words, sums);
            land_large(f, t, block_of_codes, rows, words, large);
            take_leaves(f, in, t, tree, large, run, at, n);
          }
        }
      }
    }
  }
}

}  // namespace treeinner::TREEINNER_NS
