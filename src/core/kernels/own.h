// The signal score puts a player's own earlier effect back: in every round a row adds, for each player on its path,
// step . h . (what the player has added to the margin so far), h being the second derivative of the loss before the
// round. In float64: these sums are part of the score itself.
#pragma once

#include "gradient.h"
#include "path.h"

namespace treeinner {
// Both (rows, outputs, players), added to; null: no effects.
struct Effect {
  double* so_far = nullptr;    // contributions of the players
  double* put_back = nullptr;  // what their own effects add to the shares; null: contributions alone, of small trees
};

// Rows of a run in a round: its trees, their frontier nodes, (trees, kRun), and second derivatives, (outputs, kRun).
struct EffectRun {
  int64_t row;
  int first_tree, end_tree, n;
  const uint8_t* frontier;
  const double* curvature;
};

// What the squares of the steps of each player add up to over the rows, by the weights of the leaves: (outputs,
// players). For trees without a top.
struct SquaresArgs {
  const PathTable* table;
  const int64_t* leaf_weights;
  double* out;
};

namespace TREEINNER_NS {
// A round of one tree with records: both sums in one visit.
template <int Entries>
inline void put_back_records(const double* records, const uint8_t* frontier, int n, const double* curvature,
                             const double* weight, int64_t row_stride, double* so_far, double* put_back) {
  for (int r = 0; r < n; ++r, so_far += row_stride, put_back += row_stride) {
    const double* step = records + frontier[r] * record_stride(Entries);
    const Players player = players_at<Entries>(step + Entries);
    const double h = weight ? curvature[r] * weight[r] : curvature[r];
    double before[Entries], sum[Entries];  // the players of a record differ: all are read before one is written
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) before[i] = so_far[player(i)];
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) sum[i] = put_back[player(i)] + step[i] * (h * before[i]);
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) so_far[player(i)] = before[i] + step[i];
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) put_back[player(i)] = sum[i];
  }
}

// What a round adds to the contributions, and puts back of those before it.
template <class Code>
inline void add_effects(const Job& job, const Effect& effect, const PathTable& paths, const LossInput& input,
                        const EffectRun& run) {
  const Forest& f = *job.forest;
  const int64_t places = n_places(f), n_players = f.n_players;
  const int n_outputs = f.n_outputs, width = f.width, first = run.first_tree;
  double *so_far = effect.so_far + run.row * places, *put_back = effect.put_back + run.row * places;
  const double* weight = input.weight ? input.weight + run.row : nullptr;
  const Code* codes = codes_of<Code>(job) + run.row * f.n_planes;
  if (run.end_tree == first + 1 && paths.entries[first] && n_outputs == 1 && !f.tops[first].below)
    return with_count<1, kRecord>(paths.entries[first], [&](auto count) {
      put_back_records<decltype(count)::n>(paths.records + paths.first_record[first], run.frontier, run.n,
                                           run.curvature, weight, places, so_far, put_back);
    });
  const bool softmax = input.loss.kind == Loss::kSoftmax;
  int32_t leaf[kRun];
  const auto each_tree = [&](auto visit) {
    for (int tree = first; tree < run.end_tree; ++tree) {
      const PathRun here{tree, run.n, run.frontier + (tree - first) * kRun, nullptr, 0, nullptr};
      const auto of_tree = [&](int r, int player, const double* step) {
        for (int k = 0; k < width; ++k) visit(r, r * places + player, f.tree_output[tree] + k, step[k]);
      };
      for_each_step(f, paths, here, of_tree);
      if (f.tops[tree].below) for_each_deep(f, paths, codes, here, leaf, of_tree);
    }
  };
  // All steps of the round by what was there before it, then what they add.
  each_tree([&](int r, int64_t player, int output, double step) {
    const double w = weight ? weight[r] : 1.0, *h = run.curvature + r;
    double own = so_far[player + output * n_players];
    for (int k = 0; softmax && k < n_outputs; ++k) own -= h[k * kRun] * so_far[player + k * n_players];
    put_back[player + output * n_players] += step * (h[output * kRun] * w * own);
  });
  each_tree([&](int, int64_t player, int output, double step) { so_far[player + output * n_players] += step; });
}

inline void squares(const Job& job, const SquaresArgs& args) {
  const Forest& f = *job.forest;
  uint8_t frontier[1];
  for (int tree = 0; tree < f.n_trees; ++tree)
    for (int64_t leaf = f.first_leaf[tree]; leaf < f.first_leaf[tree + 1]; ++leaf) {
      frontier[0] = static_cast<uint8_t>(leaf - f.first_leaf[tree]);
      const auto weight = static_cast<double>(args.leaf_weights[leaf]);
      double* out = args.out + f.tree_output[tree] * f.n_players;
      for_each_step(f, *args.table, {tree, 1, frontier, nullptr, 0, nullptr},
                    [&](int, int player, const double* step) { out[player] += weight * *step * *step; });
    }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
