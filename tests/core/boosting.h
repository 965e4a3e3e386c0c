// What a level makes of all boosting rounds, and the same put together from the simpler kernels.
#pragma once

#include <cmath>

#include "random_forest.h"

namespace treeinner {

struct Boosted {
  Array<double> margin, sums, largest;
  Array<int64_t> leaf_sums, leaf_weights;
};

constexpr double kWholeScale = 0x1p20;

// One tree per round. y and weight: (outputs, padded rows) and (rows,).
inline Boosted boosted(const Model& m, const Kernels& k, const void* codes, int n_rows, Loss::Kind kind,
                       const Array<double>& y, const Array<double>& weight, const Array<int64_t>& whole_weight) {
  const Forest& f = m.forest;
  const size_t outputs = static_cast<size_t>(f.n_outputs), rows = static_cast<size_t>(n_rows);
  const size_t padded = (rows + 63) / 64 * 64, run = static_cast<size_t>(kRun);
  const size_t places = outputs * static_cast<size_t>(f.n_players);
  Boosted out;
  out.margin.resize(outputs * padded);
  out.sums.resize(rows * places);
  out.largest.resize(rows);
  out.leaf_sums.resize(m.leaf_value.size());
  out.leaf_weights.resize(m.leaf_value.size());
  std::vector<int32_t> first_tree;
  for (int32_t tree = 0; tree <= f.n_trees; ++tree) first_tree.push_back(tree);
  const int64_t stride = static_cast<int64_t>(padded);
  const BoostInput in{{{kind, 1.0}, y.data(), stride, weight.data(), out.margin.data(), stride},
                      f.n_trees,
                      first_tree.data(),
                      kWholeScale,
                      out.leaf_sums.data(),
                      whole_weight.data(),
                      out.leaf_weights.data(),
                      out.largest.data(),
                      out.sums.data()};
  const size_t room = (rows + run - 1) / run * run * (outputs + 2);
  Array<double> push(room), total(run * places);
  Array<int64_t> whole(room);
  Array<uint8_t> leaf(run * kBatch);
  Array<float> kept(run * kBatch), part(run * places);
  const ScoreScratch scratch{leaf.data(), kept.data(), part.data(), total.data()};
  k.boost(f, in, &m.path, codes, n_rows, push.data(), whole.data(), scratch);
  return out;
}

// Row scores of squared error: margins and weighted paths, tree by tree, in float64.
inline Array<double> boosted_sums(const Model& m, const Kernels& k, const void* codes, int n_rows,
                                  const Array<double>& y, const Array<double>& weight) {
  const Forest& f = m.forest;
  const size_t padded = static_cast<size_t>((n_rows + 63) / 64 * 64), outputs = static_cast<size_t>(f.n_outputs);
  Array<double> margin(outputs * padded), push(outputs * padded);
  Array<double> sums(static_cast<size_t>(n_rows) * outputs * static_cast<size_t>(f.n_players));
  for (int tree = 0; tree < f.n_trees; ++tree) {
    for (size_t output = 0; output < outputs; ++output)
      for (size_t r = 0; r < static_cast<size_t>(n_rows); ++r)
        push[output * padded + r] = (y[output * padded + r] - margin[output * padded + r]) * weight[r];
    k.path(f, tree, 1, m.path, codes, n_rows, push.data(), sums.data());
    k.margins(f, tree, 1, codes, n_rows, margin.data());
  }
  return sums;
}

}  // namespace treeinner
