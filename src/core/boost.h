// Rows through all boosting rounds in one go: gradients at the margin before a round, what the round's trees make of
// them, leaf values added, and on.
//
// One visit of a tree gives a row everything: its leaf value, its gradient's place in the leaf's sum, and its row
// scores.
#pragma once

#include "loss.h"
#include "scores.h"

namespace treeinner::TREEINNER_NS {

struct Run {
  int64_t row;  // first row
  int n;        // rows
  double* push;
  int64_t* whole;
};

// Minus the gradients of the n rows of a run, from `row` on, weighted. push: (outputs + 2, kRun).
inline void weighted_gradients(const Gradients& g, int n_outputs, int64_t row, int n, double* push) {
  add_gradient(g.loss, n_outputs, n, g.y + row, g.y_stride, g.margin + row, g.stride, push, kRun);
  for (int k = 0; g.weight && k < n_outputs; ++k)
    for (int r = 0; r < n; ++r) push[k * kRun + r] *= g.weight[row + r];
}

// The same for all rows. out: as the margins.
inline void all_gradients(const Gradients& g, int n_outputs, int64_t n_rows, double* push, double* out) {
  for (int64_t row = 0; row < n_rows; row += kRun) {
    const int n = n_rows - row < kRun ? static_cast<int>(n_rows - row) : kRun;
    weighted_gradients(g, n_outputs, row, n, push);
    for (int k = 0; k < n_outputs; ++k)
      std::memcpy(out + k * g.stride + row, push + k * kRun, sizeof(double) * static_cast<size_t>(n));
  }
}

// A run's gradients, and as whole numbers, which add exactly.
inline void take_gradients(const Forest& f, const BoostInput& in, const Run& run) {
  weighted_gradients(in.gradients, f.n_outputs, run.row, run.n, run.push);
  double* largest = in.largest + run.row;
  for (int k = 0; k < f.n_outputs; ++k) {
    const double* push = run.push + k * kRun;
    for (int r = 0; r < run.n; ++r) {
      const double scaled = push[r] * in.whole_scale, size = __builtin_fabs(scaled);
      largest[r] = size <= largest[r] ? largest[r] : size;  // NaN too
      run.whole[k * kRun + r] = whole_number(scaled);
    }
  }
}

// What the rows of a run take from a tree by their leaves. One loop: it waits for sums that were
// just written, and two such sums wait no longer than one.
template <bool Weights, class Leaf>
inline void take_leaves(const Forest& f, const BoostInput& in, const Tree& t, int tree, const Leaf* leaf,
                        const Run& run) {
  const int output = f.tree_output[tree];
  const int64_t width = f.width;
  for (int k = 0; k < width; ++k) {
    double* margin = in.gradients.margin + (output + k) * in.gradients.stride + run.row;
    const double* value = f.leaf_value + t.first_leaf * width + k;
    int64_t* sums = in.leaf_sums + t.first_leaf * width + k;
    const int64_t* whole = run.whole + (output + k) * kRun;
    int64_t* weights = Weights ? in.leaf_weights + t.first_leaf * width + k : nullptr;
    const int64_t* weight = Weights ? in.whole_weight + run.row : nullptr;
    for (int r = 0; r < run.n; ++r) {
      const int64_t l = leaf[r] * width;
      margin[r] += value[l];
      sums[l] += whole[r];
      if (Weights) weights[l] += weight[r];
    }
  }
}

template <class Leaf>
inline void take_leaves(const Forest& f, const BoostInput& in, const Tree& t, int tree, const Leaf* leaf,
                        const Run& run) {
  if (in.leaf_weights)
    take_leaves<true>(f, in, t, tree, leaf, run);
  else
    take_leaves<false>(f, in, t, tree, leaf, run);
}

// What a run takes from a tree. exit: scratch, 64-byte aligned.
template <class Code>
inline void take_tree(const Forest& f, const BoostInput& in, const PathTable* paths, const Code* codes, int tree,
                      const Run& run, const ScoreScratch& scratch, uint8_t* exit) {
  const Crown& crown = f.crowns[tree];
  const Tree t = tree_of(f, tree);
  const Code* run_codes = codes + run.row * f.n_planes;
  const double* weight = run.push + f.tree_output[tree] * kRun;
  const int64_t place = static_cast<int64_t>(f.tree_output[tree]) * f.n_players;
  double* sums = in.sums + run.row * f.n_outputs * f.n_players + place;
  land(f, crown, run_codes, run.n, exit);
  if (!crown.below) take_leaves(f, in, t, tree, exit, run);
  if (paths && takes_part(*paths, tree))
    keep(scratch, tree % kBatch, exit, weight, in.whole_scale, run.n);
  else if (paths)
    add_exits<true>(f, tree, *paths, exit, run.n, weight, kRun, sums);
  if (!crown.below) return;
  int32_t leaf[kRun];
  if (paths)
    add_steps<true>(f, tree, *paths, run_codes, run.n, exit, weight, kRun, sums, leaf);
  else
    descend(f, crown, run_codes, run.n, exit, leaf);
  take_leaves(f, in, t, tree, leaf, run);
}

template <class Code>
inline void boost(const Forest& f, const BoostInput& in, const PathTable* paths, const Code* codes, int64_t n_rows,
                  double* push, int64_t* whole, const ScoreScratch& scratch) {
  const int64_t n_places = static_cast<int64_t>(f.n_outputs) * f.n_players, run_room = (f.n_outputs + 2) * kRun;
  const bool batches = paths && paths->scores;
  const double unit = batches ? paths->scores->step_unit / in.whole_scale : 0.0;
  alignas(64) uint8_t exit[kRun] = {};
  Run runs[kStrip / kRun];
  const int64_t strip = boosting_strip(f, paths);
  for (int64_t row = 0; row < n_rows; row += strip) {
    const int n = static_cast<int>(n_rows - row < strip ? n_rows - row : strip);
    int n_runs = 0;
    for (int at = 0; at < n; at += kRun, ++n_runs)
      runs[n_runs] = {row + at, n - at < kRun ? n - at : kRun, push + n_runs * run_room, whole + n_runs * run_room};
    if (batches) std::memset(scratch.total, 0, sizeof(double) * static_cast<size_t>(kRun * n_places));
    for (int round = 0; round < in.n_rounds; ++round) {
      for (int i = 0; i < n_runs; ++i) take_gradients(f, in, runs[i]);
      for (int tree = in.first_tree[round]; tree < in.first_tree[round + 1]; ++tree) {
        for (int i = 0; i < n_runs; ++i) take_tree(f, in, paths, codes, tree, runs[i], scratch, exit);
        if (batches && (tree % kBatch == kBatch - 1 || tree == f.n_trees - 1))
          add_batch(f, *paths, tree / kBatch, unit, n, scratch);
      }
    }
    if (batches) add_totals(scratch, n_places, n, in.sums + row * n_places);
  }
}

}  // namespace treeinner::TREEINNER_NS
