// Scores from the sums of whole numbers in the leaves. Runs once per call, whatever the rows; plain C++, no vector
// code.
#pragma once

#include <cstdint>
#include <vector>

#include "forest.h"

namespace treeinner {

// Calls visit(tree, first_node, below) for every tree; below: (nodes, width), sums of the leaves below each node of the
// tree, in the order of their numbers. A split has a lower number than its children, so going back adds up.
template <class Visit>
inline void for_each_sums_below(const Forest& f, const int64_t* leaf_sums, Visit visit) {
  const int64_t width = f.width;
  std::vector<int64_t> below;
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Split* splits = f.splits + f.first_split[tree];
    const int64_t n_splits = f.first_split[tree + 1] - f.first_split[tree];
    const int64_t* of_leaf = leaf_sums + f.first_leaf[tree] * width;
    below.resize(static_cast<size_t>(n_splits * width));
    below.insert(below.end(), of_leaf, leaf_sums + f.first_leaf[tree + 1] * width);
    int64_t* sum = below.data();
    for (int64_t i = n_splits; i-- > 0;)
      for (int64_t k = 0; k < width; ++k)
        sum[i * width + k] = sum[splits[i].left * width + k] + sum[splits[i].right * width + k];
    visit(tree, f.first_split[tree] + f.first_leaf[tree], sum);
    below.clear();
  }
}

// out: (splits, width), what each split adds to the score: over its children, (value of the child - its own) times the
// sum below the child. node_value: (nodes, width), each tree's in the order of their numbers.
inline void split_scores(const Forest& f, const double* node_value, const int64_t* leaf_sums, double unit,
                         double* out) {
  const int64_t width = f.width;
  for_each_sums_below(f, leaf_sums, [&](int32_t tree, int64_t first_node, const int64_t* below) {
    const double* value = node_value + first_node * width;
    for (int64_t i = 0; i < f.first_split[tree + 1] - f.first_split[tree]; ++i) {
      const Split& s = f.splits[f.first_split[tree] + i];
      for (int64_t k = 0; k < width; ++k) {
        const int64_t left = s.left * width + k, right = s.right * width + k;
        const double own = value[i * width + k];
        *out++ = ((value[left] - own) * static_cast<double>(below[left]) +
                  (value[right] - own) * static_cast<double>(below[right])) *
                 unit;
      }
    }
  });
}

// value: (nodes, width), as node_value above; every split gets the weighted mean of the leaves below it. A split that
// no row has reached keeps its value; it counts for nothing.
inline void centre_values(const Forest& f, const int64_t* leaf_weights, double* value) {
  const int64_t width = f.width;
  for_each_sums_below(f, leaf_weights, [&](int32_t tree, int64_t first_node, const int64_t* below) {
    double* v = value + first_node * width;
    for (int64_t i = f.first_split[tree + 1] - f.first_split[tree]; i-- > 0;) {
      const Split& s = f.splits[f.first_split[tree] + i];
      for (int64_t k = 0; k < width; ++k) {
        const int64_t left = s.left * width + k, right = s.right * width + k, own = i * width + k;
        const double total = static_cast<double>(below[left]) * v[left] + static_cast<double>(below[right]) * v[right];
        if (below[own] > 0) v[own] = total / static_cast<double>(below[own]);
      }
    }
  });
}

}  // namespace treeinner
