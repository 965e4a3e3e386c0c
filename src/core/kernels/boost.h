// Rows through all boosting rounds in one go: gradients at the margin before a round, what the round's trees make of
// them, leaf values added, and on.
//
// One visit of a tree gives a row everything: its leaf value, its gradient's place in the leaf's sum, and its row
// scores.
#pragma once

#include "gradient.h"
#include "tree_batch.h"

namespace treeinner {
struct BoostArgs {
  LossInput input;  // margin: before the first round; after the last one on return
  int32_t n_rounds;
  const int32_t* first_tree;     // (rounds + 1,)
  double scale;                  // gradients are summed in the leaves as fixed-point integers of 1 / scale
  int64_t* leaf_sums;            // (leaves, width), added to
  const int64_t* fixed_weights;  // (rows,) weight of each row as a fixed-point integer
  int64_t* leaf_weights;         // (leaves, width) sums of them, added to; or null
  double* largest;               // (rows,) size of each row's largest gradient so far, times scale
  const PathTable* paths;        // or null: no row scores
  double* sums;                  // (rows, outputs, players) row scores, added to
};

struct BoostScratch {
  double* residual;  // (runs of a strip, outputs + 2, kRun)
  int64_t* fixed;    // the same as fixed-point integers
  TreeBatchScratch tree_batch;
};

namespace TREEINNER_NS {
struct Run {
  int64_t row;  // first row
  int n;        // rows
  double* residual;
  int64_t* fixed;
};

// Rows that go through a round together, runs of them: tree batches want one.
inline int64_t strip_of(const Job& job, const BoostArgs& args) {
  return args.paths && args.paths->scores ? kRun : job.forest->strip;
}

inline BoostScratch scratch_of(const Job& job, const BoostArgs& args, Arena& arena) {
  const int64_t strip = strip_of(job, args), rows = job.n_rows < strip ? job.n_rows : strip;
  const int64_t room = (rows + kRun - 1) / kRun * kRun * (job.forest->n_outputs + 2);
  return {arena.take<double>(room), arena.take<int64_t>(room), tree_batch_scratch(*job.forest, args.paths, arena)};
}

// A run's residuals, and as fixed-point integers, which add exactly.
inline void take_residuals(const Forest& f, const BoostArgs& args, const Run& run) {
  weighted_residuals(args.input, f.n_outputs, run.row, run.n, run.residual);
  double* largest = args.largest + run.row;
  for (int k = 0; k < f.n_outputs; ++k) {
    const double* residual = run.residual + k * kRun;
    for (int r = 0; r < run.n; ++r) {
      const double scaled = residual[r] * args.scale, size = __builtin_fabs(scaled);
      largest[r] = size <= largest[r] ? largest[r] : size;  // NaN too
      run.fixed[k * kRun + r] = fixed_point(scaled);
    }
  }
}

// What the rows of a run take from a tree by their leaves. One loop: it waits for sums that were just written, and two
// such sums wait no longer than one.
template <class Leaf>
inline void take_leaves(const Forest& f, const BoostArgs& args, int tree, const Leaf* leaf, const Run& run) {
  const int output = f.tree_output[tree];
  const int64_t width = f.width, first = f.first_leaf[tree] * width;
  for (int k = 0; k < width; ++k) {
    double* margin = args.input.margin + (output + k) * args.input.stride + run.row;
    const double* value = f.leaf_value + first + k;
    int64_t* sums = args.leaf_sums + first + k;
    const int64_t* fixed = run.fixed + (output + k) * kRun;
    int64_t* weights = args.leaf_weights ? args.leaf_weights + first + k : nullptr;
    const int64_t* weight = weights ? args.fixed_weights + run.row : nullptr;
    with_count<0, 1>(weights != nullptr, [&](auto weighted) {
      for (int r = 0; r < run.n; ++r) {
        const int64_t l = leaf[r] * width;
        margin[r] += value[l];
        sums[l] += fixed[r];
        if (decltype(weighted)::n) weights[l] += weight[r];
      }
    });
  }
}

// What a run takes from a tree.
template <class Code>
inline void take_tree(const Job& job, const BoostArgs& args, int tree, const Run& run, const TreeBatchScratch& s) {
  const Forest& f = *job.forest;
  alignas(64) uint8_t frontier[kRun] = {};
  const Top& top = f.tops[tree];
  const PathTable* paths = args.paths;
  const Code* codes = codes_of<Code>(job) + run.row * f.n_planes;
  const int64_t output = f.tree_output[tree];
  const PathRun here{tree,     run.n,
                     frontier, run.residual + output * kRun,
                     kRun,     args.sums + run.row * n_places(f) + output * f.n_players};
  route(f, top, codes, run.n, frontier);
  if (!top.below) take_leaves(f, args, tree, frontier, run);
  if (paths && paths->scores && paths->scores->takes_part[tree])
    set_aside(*paths->scores, s, here, args.scale);
  else if (paths)
    add_frontier<true>(f, *paths, here);
  if (!top.below) return;
  int32_t leaf[kRun];
  if (paths)
    add_steps<true>(f, *paths, codes, here, leaf);
  else
    descend(f, top, codes, run.n, frontier, leaf);
  take_leaves(f, args, tree, leaf, run);
}

template <class Code>
inline void boost(const Job& job, const BoostArgs& args) {
  const Forest& f = *job.forest;
  Arena arena(job.scratch);
  const BoostScratch scratch = scratch_of(job, args, arena);
  const TreeBatchScratch& tree_batch = scratch.tree_batch;
  const int64_t places = n_places(f), run_room = (f.n_outputs + 2) * kRun;
  const ScoreTable* scores = args.paths ? args.paths->scores : nullptr;
  const double unit = scores ? scores->step_unit / args.scale : 0.0;
  Run runs[kStrip / kRun];
  const int64_t strip = strip_of(job, args);
  for (int64_t row = 0; row < job.n_rows; row += strip) {
    const int n = static_cast<int>(job.n_rows - row < strip ? job.n_rows - row : strip);
    int n_runs = 0;
    for (int at = 0; at < n; at += kRun, ++n_runs)
      runs[n_runs] = {row + at, n - at < kRun ? n - at : kRun, scratch.residual + n_runs * run_room,
                      scratch.fixed + n_runs * run_room};
    if (scores) std::memset(tree_batch.total, 0, sizeof(double) * static_cast<size_t>(kRun * places));
    for (int round = 0; round < args.n_rounds; ++round) {
      for (int i = 0; i < n_runs; ++i) take_residuals(f, args, runs[i]);
      for (int tree = args.first_tree[round]; tree < args.first_tree[round + 1]; ++tree) {
        for (int i = 0; i < n_runs; ++i) take_tree<Code>(job, args, tree, runs[i], tree_batch);
        if (scores && (tree % kTreeBatch == kTreeBatch - 1 || tree == f.n_trees - 1))
          scores->by_lookup ? add_lookups(*scores, tree / kTreeBatch, unit, n, tree_batch)
                            : add_score_records(f, *args.paths, tree / kTreeBatch, unit, n, tree_batch);
      }
    }
    if (scores) add_totals(*scores, tree_batch, places, n, args.sums + row * places);
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
