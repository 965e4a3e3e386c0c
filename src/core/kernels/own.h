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
  double* put_back = nullptr;  // what their own effects add to the shares
};

// Rows of a run in a round: its trees, their frontier nodes, (trees, kRun), and second derivatives, (outputs, kRun).
struct EffectRun {
  int64_t row;
  int first_tree, end_tree, n;
  const uint8_t* frontier;
  const double* curvature;
};

namespace TREEINNER_NS {
// A round of one tree with records: both sums in one visit.
template <int Entries>
inline void add_effect_records(const double* records, const uint8_t* frontier, int n, const double* curvature,
                               const double* weight, int64_t row_stride, double* so_far, double* put_back) {
  for (int r = 0; r < n; ++r, so_far += row_stride, put_back += row_stride) {
    const double* step = records + frontier[r] * record_stride<double>(Entries);
    uint64_t packed[2] = {0, 0};
    std::memcpy(packed, step + Entries, Entries > 4 ? 16 : 8);
    auto player = [&](int i) { return static_cast<uint16_t>(packed[i / 4] >> 16 * (i % 4)); };
    const double h = weight ? curvature[r] * weight[r] : curvature[r];
    double before[Entries], sum[Entries];  // the players of a record differ: all are read before one is written
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) before[i] = so_far[player(i)];
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) sum[i] = put_back[player(i)] + step[i] * (h * before[i]);
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) so_far[player(i)] = before[i] + step[i];
    TREEINNER_UNROLL for (int i = 0; i < Entries; ++i) put_back[player(i)] = sum[i];
  }
}

// visit(row of the run, player, output of the tree, step), for every step on the rows' paths in a tree.
template <class Code, class Visit>
inline void for_each_step(const Job& job, const PathTable& table, const PathRun& run, int64_t row, Visit visit) {
  const Forest& f = *job.forest;
  const Top& top = f.tops[run.tree];
  const int width = f.width, entries = table.entries[run.tree];
  const int64_t* first_entry = table.first_entry + top.first_frontier;
  for (int r = 0; r < run.n; ++r) {
    const double* step = table.records + table.first_record[run.tree] + run.frontier[r] * record_stride<double>(entries);
    for (int i = 0; i < entries; ++i) {
      uint16_t player;
      std::memcpy(&player, reinterpret_cast<const char*>(step + entries) + i * 2, sizeof player);
      visit(r, player, 0, step[i]);
    }
    for (int64_t i = first_entry[run.frontier[r]]; !entries && i < first_entry[run.frontier[r] + 1]; ++i)
      for (int k = 0; k < width; ++k) visit(r, table.player[i], k, table.step[i * width + k]);
  }
  if (!top.below) return;
  int32_t leaf[kRun];
  const Code* codes = codes_of<Code>(job) + row * f.n_planes;
  const char* deep = table.deep + top.first_deep * deep_stride(width);
  descend(f, top, deep, width, codes, run.n, run.frontier, leaf, [&](int r, const DeepSplit& split, int side) {
    const double* step = reinterpret_cast<const double*>(&split + 1) + side * width;
    for (int k = 0; k < width; ++k) visit(r, f.plane_player[split.plane], k, step[k]);
  });
}

template <class Code>
inline void add_effects(const Job& job, const Effect& effect, const PathTable& paths, const LossInput& input,
                        const EffectRun& run) {
  const Forest& f = *job.forest;
  const int64_t places = n_places(f), n_players = f.n_players;
  const int n_outputs = f.n_outputs;
  double *so_far = effect.so_far + run.row * places, *put_back = effect.put_back + run.row * places;
  const double* weight = input.weight ? input.weight + run.row : nullptr;
  const int first = run.first_tree, entries = first < run.end_tree ? paths.entries[first] : 0;
  if (run.end_tree == first + 1 && entries && !f.tops[first].below && n_outputs == 1)
    return with_count<1, kRecord>(entries, [&](auto count) {
      add_effect_records<decltype(count)::n>(paths.records + paths.first_record[first], run.frontier, run.n,
                                             run.curvature, weight, places, so_far, put_back);
    });
  const bool softmax = input.loss.kind == Loss::kSoftmax;
  const auto each_tree = [&](auto visit) {
    for (int tree = first; tree < run.end_tree; ++tree) {
      const PathRun here{tree, run.n, run.frontier + (tree - first) * kRun, nullptr, 0, nullptr};
      const int output = f.tree_output[tree];
      for_each_step<Code>(job, paths, here, run.row, [&](int r, int player, int k, double step) {
        visit(r, output + k, (r * n_outputs + output + k) * n_players + player, step);
      });
    }
  };
  // All steps of the round by what was there before it, then what they add.
  each_tree([&](int r, int output, int64_t place, double step) {
    const double w = weight ? weight[r] : 1.0, *h = run.curvature + r;
    double own = so_far[place];
    const double* of_row = so_far + place - output * n_players;
    for (int k = 0; softmax && k < n_outputs; ++k) own -= h[k * kRun] * of_row[k * n_players];
    put_back[place] += step * (h[output * kRun] * w * own);
  });
  each_tree([&](int, int, int64_t place, double step) { so_far[place] += step; });
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
