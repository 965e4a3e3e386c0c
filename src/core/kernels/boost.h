// Rows through all boosting rounds in one go: gradients at the margin before a round, or averaged over its step, what
// the round's trees make of them, leaf values added, and on.
//
// One visit of a tree gives a row everything: its leaf value, its gradient's place in the leaf's sum, and its row
// scores.
#pragma once

#include "gradient.h"
#include "own.h"
#include "tree_batch.h"

namespace treeinner {
// A row reaches one leaf of each tree, so a call adds at most rows * (L + 1/2) to a leaf sum, where L is the largest
// number of `largest`. The caller must refuse the rows unless |sum before| + rows * (L + 1/2) < 2^63: for 4,096 rows
// and sums below 2^62 before, L <= 2^49 is enough. NaN fails this comparison; it is added as 0, as are numbers from
// 2^62 on. Weights are as the caller passed them: |sum before| + the sum of fixed_weights < 2^63.
struct BoostArgs {
  LossInput input;  // margin: before the first round; after the last one on return
  int32_t n_rounds;
  const int32_t* first_tree;               // (rounds + 1,)
  double scale;                            // gradients are summed in the leaves as fixed-point integers of 1 / scale
  double* largest = nullptr;               // (rows,) size of each row's largest gradient so far, times scale
  int64_t* leaf_sums = nullptr;            // (leaves, width), added to; or null: `largest` is then not written
  int64_t* leaf_weights = nullptr;         // (leaves, width) sums of fixed_weights, added to; or null
  const int64_t* fixed_weights = nullptr;  // (rows,) weight of each row as a fixed-point integer
  const PathTable* paths = nullptr;        // or null: no row scores
  double* sums = nullptr;                  // (rows, outputs, players) row scores, added to
  const double* mean_residual = nullptr;   // (rounds, outputs) of shares: means over all rows
  const double* row_weight = nullptr;      // (rows,) of shares; null: 1
  const PathTable* fixed = nullptr;        // or null: shares of the same paths, with node values taken as fixed,
  double* fixed_sums = nullptr;            // which are added to these, as `sums`
  const int32_t* first_point = nullptr;    // (rounds + 1,) or null: residuals at the start of each round
  const double* point = nullptr;           // else averaged over its step: at these points of [0, 1],
  const double* point_weight = nullptr;    // with these weights
  double* first_order = nullptr;           // (rows,) += step times the residual at the start; or null
  const int32_t* trees = nullptr;          // the trees of all rounds, one after the other; null: 0, 1, ...
  const double* moved = nullptr;           // (rounds, outputs, stride) by trees left out, before each round; or null
  Effect effect{};                         // of the signal score, or none
};

struct BoostScratch {
  double* residual;         // (runs of a strip, outputs + 2, kRun)
  int64_t* fixed;           // the same as fixed-point integers
  uint8_t* frontier;        // (runs of a strip, trees of a round, kRun)  if residuals are averaged over steps
  double *step, *at, *sum;  // (outputs + 2, kRun) each, likewise
  double* curvature;        // (runs of a strip, outputs, kRun)  for effects
  TreeBatchScratch tree_batch;
};

namespace TREEINNER_NS {
struct Run {
  int64_t row;  // first row
  int n;        // rows
  double* residual;
  int64_t* fixed;
  uint8_t* frontier;  // (trees of the round, kRun), or one
  double* curvature;
};

// Rows that go through a round together, runs of them: tree batches have their own number.
inline int64_t strip_of(const Job& job, const BoostArgs& args) {
  return args.paths && args.paths->scores ? kAside : job.forest->strip;
}

// Whether the frontier nodes of all trees of a round are kept: until its residuals, or its effects are known.
inline bool keeps(const BoostArgs& args) { return args.first_point || args.effect.put_back; }
// Whether contributions are added up without a round's effects.
inline bool contributes(const BoostArgs& args) { return args.effect.so_far && !args.effect.put_back; }

inline int64_t kept_trees(const BoostArgs& args) {
  int64_t most = 1;
  for (int32_t i = 0; keeps(args) && i < args.n_rounds; ++i) {
    const int64_t n = args.first_tree[i + 1] - args.first_tree[i];
    most = n > most ? n : most;
  }
  return most;
}

inline BoostScratch scratch_of(const Job& job, const BoostArgs& args, Arena& arena) {
  const int64_t strip = strip_of(job, args), rows = job.n_rows < strip ? job.n_rows : strip;
  const int64_t runs = (rows + kRun - 1) / kRun, room = (job.forest->n_outputs + int64_t{2}) * kRun;
  const int64_t averaged = args.first_point ? room : 0;
  return {arena.take<double>(runs * room),
          arena.take<int64_t>(runs * room),
          arena.take<uint8_t>(runs * kept_trees(args) * kRun),
          arena.take<double>(averaged),
          arena.take<double>(averaged),
          arena.take<double>(averaged),
          arena.take<double>(args.effect.put_back ? runs * room : 0),
          tree_batch_scratch(*job.forest, args.paths, arena)};
}

// The step that a run takes in a round, (outputs, kRun). Frontier nodes are kept.
template <class Code>
inline void take_step(const Job& job, const BoostArgs& args, int round, const Run& run, double* step) {
  const Forest& f = *job.forest;
  const Code* codes = codes_of<Code>(job) + run.row * f.n_planes;
  int32_t leaf[kRun];
  std::memset(step, 0, sizeof(double) * static_cast<size_t>(f.n_outputs * kRun));
  const int first = args.first_tree[round];
  for (int tree = first; tree < args.first_tree[round + 1]; ++tree) {
    uint8_t* frontier = run.frontier + (tree - first) * kRun;
    const Top& top = f.tops[tree];
    route(f, top, codes, run.n, frontier);
    if (top.below)
      descend(f, top, codes, run.n, frontier, leaf);
    else
      for (int r = 0; r < run.n; ++r) leaf[r] = frontier[r];
    const double* value = f.leaf_value + f.first_leaf[tree] * f.width;
    for (int k = 0; k < f.width; ++k)
      for (int r = 0; r < run.n; ++r)
        step[(f.tree_output[tree] + k) * kRun + r] += value[int64_t{leaf[r]} * f.width + k];
  }
}

// Residuals averaged over the step of a round.
template <class Code>
inline void average_residuals(const Job& job, const BoostArgs& args, int round, const Run& run, const BoostScratch& s) {
  const Forest& f = *job.forest;
  const int n_outputs = f.n_outputs, n = run.n;
  const double* margin = args.input.margin + run.row;
  take_step<Code>(job, args, round, run, s.step);
  if (args.first_order) {
    weighted_residuals(args.input, n_outputs, run.row, margin, args.input.stride, n, run.residual);
    for (int k = 0; k < n_outputs; ++k)
      for (int r = 0; r < n; ++r) args.first_order[run.row + r] += s.step[k * kRun + r] * run.residual[k * kRun + r];
  }
  const int32_t begin = args.first_point[round], end = args.first_point[round + 1];
  std::memset(s.sum, 0, sizeof(double) * static_cast<size_t>(n_outputs * kRun));
  for (int32_t i = begin; i < end; ++i) {
    for (int k = 0; k < n_outputs; ++k)
      for (int r = 0; r < n; ++r)
        s.at[k * kRun + r] = margin[k * args.input.stride + r] + args.point[i] * s.step[k * kRun + r];
    weighted_residuals(args.input, n_outputs, run.row, s.at, kRun, n, run.residual);
    if (end - begin == 1) return;  // its weight is 1
    for (int k = 0; k < n_outputs; ++k)
      for (int r = 0; r < n; ++r) s.sum[k * kRun + r] += args.point_weight[i] * run.residual[k * kRun + r];
  }
  std::memcpy(run.residual, s.sum, sizeof(double) * static_cast<size_t>(n_outputs * kRun));
}

// A run's residuals, and as fixed-point integers, which add exactly; of shares less their mean.
template <class Code>
inline void take_residuals(const Job& job, const BoostArgs& args, int round, const Run& run, const BoostScratch& s) {
  const Forest& f = *job.forest;
  if (args.first_point)
    average_residuals<Code>(job, args, round, run, s);
  else
    weighted_residuals(args.input, f.n_outputs, run.row, args.input.margin + run.row, args.input.stride, run.n,
                       run.residual, run.curvature);
  double* largest = args.largest + run.row;
  for (int k = 0; k < f.n_outputs; ++k) {
    double* residual = run.residual + k * kRun;
    if (args.leaf_sums)
      for (int r = 0; r < run.n; ++r) {
        const double scaled = residual[r] * args.scale, size = absolute(scaled);
        largest[r] = size <= largest[r] ? largest[r] : size;  // NaN too
        run.fixed[k * kRun + r] = fixed_point(scaled);
      }
    if (args.mean_residual) {
      const double mean = args.mean_residual[round * f.n_outputs + k];
      const double* weight = args.row_weight ? args.row_weight + run.row : nullptr;
      for (int r = 0; r < run.n; ++r) residual[r] -= weight ? mean * weight[r] : mean;
    }
  }
}

// What trees that are left out have added to the margins of a run since the round before.
inline void move_margins(const Forest& f, const BoostArgs& args, int round, const Run& run) {
  for (int64_t k = 0; k < f.n_outputs; ++k) {
    const int64_t at = k * args.input.stride + run.row;
    const double* moved = args.moved + round * f.n_outputs * args.input.stride + at;
    for (int r = 0; r < run.n; ++r) args.input.margin[at + r] += moved[r];
  }
}

// What the rows of a run take from a tree by their leaves. One loop: it waits for sums that were just written, and two
// such sums wait no longer than one. Not inlined: the registers are all its own.
template <class Leaf>
TREEINNER_NOINLINE void take_leaves(const Forest& f, const BoostArgs& args, int tree, const Leaf* leaf,
                                    const Run& run) {
  const int output = f.tree_output[tree];
  const int64_t width = f.width, first = f.first_leaf[tree] * width;
  for (int k = 0; k < width; ++k) {
    double* margin = args.input.margin + (output + k) * args.input.stride + run.row;
    const double* value = f.leaf_value + first + k;
    int64_t* sums = args.leaf_sums ? args.leaf_sums + first + k : nullptr;
    const int64_t* fixed = run.fixed + (output + k) * kRun;
    int64_t* weights = args.leaf_weights ? args.leaf_weights + first + k : nullptr;
    const int64_t* weight = weights ? args.fixed_weights + run.row : nullptr;
    with_count<0, 2>((sums != nullptr) + (weights != nullptr), [&](auto n_sums) {
      for (int r = 0; r < run.n; ++r) {
        const int64_t l = leaf[r] * width;
        margin[r] += value[l];
        if (decltype(n_sums)::n > 0) sums[l] += fixed[r];
        if (decltype(n_sums)::n > 1) weights[l] += weight[r];
      }
    });
  }
}

// What a run takes from a tree.
template <class Code>
inline void take_tree(const Job& job, const BoostArgs& args, int tree, const Run& run, int at, uint8_t* frontier,
                      const TreeBatchScratch& s) {
  const Forest& f = *job.forest;
  const Top& top = f.tops[tree];
  const PathTable* paths = args.paths;
  const Code* codes = codes_of<Code>(job) + run.row * f.n_planes;
  const int64_t output = f.tree_output[tree], place = run.row * n_places(f) + output * f.n_players;
  const PathRun here{tree, run.n, frontier, run.residual + output * kRun, kRun, args.sums + place};
  int32_t leaf[kRun];
  if (!args.first_point) route(f, top, codes, run.n, frontier);
  if (!top.below) take_leaves(f, args, tree, frontier, run);
  const bool aside = paths && paths->scores && paths->scores->takes_part[tree], shares = paths && paths->level;
  if (aside) set_aside(s, here, at, args.scale);
  const double* row_weight = args.row_weight ? args.row_weight + run.row : nullptr;
  if (!aside && shares) add_shares(f, *paths, codes, here, row_weight, leaf);
  if (!aside && args.fixed)
    add_shares(f, *args.fixed, codes, {tree, run.n, frontier, here.weight, kRun, args.fixed_sums + place}, row_weight,
               leaf);
  if (!aside && paths && !shares) add_frontier<true>(f, *paths, here);
  if (!aside && contributes(args))
    add_frontier<false>(f, *paths, {tree, run.n, frontier, nullptr, 0, args.effect.so_far + place});
  if (!top.below) return;
  if (!paths)
    descend(f, top, codes, run.n, frontier, leaf);
  else if (!shares)
    add_steps<true>(f, *paths, codes, here, leaf);
  take_leaves(f, args, tree, leaf, run);
}

template <class Code>
inline void boost(const Job& job, const BoostArgs& args) {
  const Forest& f = *job.forest;
  Arena arena(job.scratch);
  const BoostScratch scratch = scratch_of(job, args, arena);
  const TreeBatchScratch& tree_batch = scratch.tree_batch;
  const int64_t places = n_places(f), run_room = (f.n_outputs + 2) * kRun, kept = kept_trees(args);
  const ScoreTable* scores = args.paths ? args.paths->scores : nullptr;
  Run runs[kStrip / kRun];
  const int64_t strip = strip_of(job, args);
  for (int64_t row = 0; row < job.n_rows; row += strip) {
    const int n = static_cast<int>(job.n_rows - row < strip ? job.n_rows - row : strip);
    int n_runs = 0;
    for (int at = 0; at < n; at += kRun, ++n_runs)
      runs[n_runs] = {row + at,
                      n - at < kRun ? n - at : kRun,
                      scratch.residual + n_runs * run_room,
                      scratch.fixed + n_runs * run_room,
                      scratch.frontier + n_runs * kept * kRun,
                      args.effect.put_back ? scratch.curvature + n_runs * run_room : nullptr};
    std::memset(scratch.frontier, 0, static_cast<size_t>(n_runs * kept * kRun));
    for (int round = 0; round < args.n_rounds; ++round) {
      const int first = args.first_tree[round];
      for (int i = 0; i < n_runs && args.moved; ++i) move_margins(f, args, round, runs[i]);
      for (int i = 0; i < n_runs; ++i) take_residuals<Code>(job, args, round, runs[i], scratch);
      for (int at = first; at < args.first_tree[round + 1]; ++at) {
        const int tree = args.trees ? args.trees[at] : at;
        for (int i = 0; i < n_runs; ++i)
          take_tree<Code>(job, args, tree, runs[i], i * kRun, runs[i].frontier + (keeps(args) ? at - first : 0) * kRun,
                          tree_batch);
        if (!scores || (tree % kTreeBatch != kTreeBatch - 1 && tree != f.n_trees - 1)) continue;
        const double* row_weight = args.row_weight ? args.row_weight + row : nullptr;
        double* fixed = args.fixed ? args.fixed_sums + row * places : nullptr;
        add_tree_batch(f, *args.paths, tree / kTreeBatch, args.scale, n, row_weight, tree_batch,
                       args.sums + row * places, fixed,
                       contributes(args) ? args.effect.so_far + row * places : nullptr);
      }
      for (int i = 0; i < n_runs && args.effect.put_back; ++i)
        add_effects<Code>(
            job, args.effect, *args.paths, args.input,
            {runs[i].row, first, args.first_tree[round + 1], runs[i].n, runs[i].frontier, runs[i].curvature});
    }
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
