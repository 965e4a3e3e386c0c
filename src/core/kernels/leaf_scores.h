// Scores from the fixed-point sums in the leaves. Runs once per call, whatever the rows.
#pragma once

#include "job.h"

namespace treeinner {
// Node values are (nodes, width), each tree's in the order of their numbers.
struct SplitScoresArgs {
  const double* node_value;
  const int64_t* leaf_sums;  // (leaves, width)
  double unit;               // of the sums
  double* out;  // (splits, width), what each split adds to the score: over its children, (value of the child - its own)
                // times the sum below the child
};

// Every split gets the weighted mean of the leaves below it. A split that no row has reached keeps its value; it counts
// for nothing.
struct CentreValuesArgs {
  const int64_t* leaf_weights;  // (leaves, width)
  double* node_value;
};

namespace TREEINNER_NS {
inline int64_t* scratch_of(const Job& job, const SplitScoresArgs&, Arena& arena) {
  return arena.take<int64_t>((2 * int64_t{job.forest->max_splits} + 1) * job.forest->width);
}
inline int64_t* scratch_of(const Job& job, const CentreValuesArgs&, Arena& arena) {
  return scratch_of(job, SplitScoresArgs{}, arena);
}

// sum: (nodes of the tree, width), sums of the leaves below each node. A split has a lower number than its children, so
// going back adds up.
inline void sums_below(const Tree& t, int64_t width, const int64_t* leaf_sums, int64_t* sum) {
  const int64_t n_leaves = t.n_splits + int64_t{1};
  std::memcpy(sum + t.n_splits * width, leaf_sums + t.first_leaf * width,
              sizeof(int64_t) * static_cast<size_t>(n_leaves * width));
  for (int64_t i = t.n_splits; i-- > 0;)
    for (int64_t k = 0; k < width; ++k)
      sum[i * width + k] = sum[t.splits[i].left * width + k] + sum[t.splits[i].right * width + k];
}

inline void split_scores(const Job& job, const SplitScoresArgs& args) {
  const Forest& f = *job.forest;
  const int64_t width = f.width;
  Arena arena(job.scratch);
  int64_t* below = scratch_of(job, args, arena);
  double* out = args.out;
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    const double* value = args.node_value + t.first_node * width;
    sums_below(t, width, args.leaf_sums, below);
    for (int64_t i = 0; i < t.n_splits; ++i)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t left = t.splits[i].left * width + k, right = t.splits[i].right * width + k;
        const double own = value[i * width + k];
        *out++ = ((value[left] - own) * static_cast<double>(below[left]) +
                  (value[right] - own) * static_cast<double>(below[right])) *
                 args.unit;
      }
  }
}

inline void centre_values(const Job& job, const CentreValuesArgs& args) {
  const Forest& f = *job.forest;
  const int64_t width = f.width;
  Arena arena(job.scratch);
  int64_t* below = scratch_of(job, args, arena);
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    double* v = args.node_value + t.first_node * width;
    sums_below(t, width, args.leaf_weights, below);
    for (int64_t i = t.n_splits; i-- > 0;)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t left = t.splits[i].left * width + k, right = t.splits[i].right * width + k, own = i * width + k;
        const double total = static_cast<double>(below[left]) * v[left] + static_cast<double>(below[right]) * v[right];
        if (below[own] > 0) v[own] = total / static_cast<double>(below[own]);
      }
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
