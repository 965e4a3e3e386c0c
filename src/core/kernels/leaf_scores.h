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

// For every split and output, children before their parents: visit(tree, where its values begin, place of the split, of
// its children). Places are node x width + output in the tree. below: (nodes of the tree, width), made on the way: sums
// of the leaves below each node.
template <class Visit>
inline void for_each_split(const Forest& f, const int64_t* leaf_sums, int64_t* below, Visit visit) {
  const int64_t width = f.width;
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    std::memcpy(below + t.n_splits * width, leaf_sums + t.first_leaf * width,
                sizeof(int64_t) * static_cast<size_t>((t.n_splits + int64_t{1}) * width));
    for (int64_t i = t.n_splits; i-- > 0;)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t own = i * width + k, left = t.splits[i].left * width + k, right = t.splits[i].right * width + k;
        below[own] = below[left] + below[right];
        visit(tree, t.first_node * width, own, left, right);
      }
  }
}

inline void split_scores(const Job& job, const SplitScoresArgs& args) {
  const Forest& f = *job.forest;
  Arena arena(job.scratch);
  int64_t* below = scratch_of(job, args, arena);
  for_each_split(f, args.leaf_sums, below, [&](int tree, int64_t first, int64_t own, int64_t left, int64_t right) {
    const double* v = args.node_value + first;
    const double total =
        (v[left] - v[own]) * static_cast<double>(below[left]) + (v[right] - v[own]) * static_cast<double>(below[right]);
    args.out[f.first_split[tree] * f.width + own] = total * args.unit;
  });
}

inline void centre_values(const Job& job, const CentreValuesArgs& args) {
  Arena arena(job.scratch);
  int64_t* below = scratch_of(job, args, arena);
  for_each_split(
      *job.forest, args.leaf_weights, below, [&](int, int64_t first, int64_t own, int64_t left, int64_t right) {
        double* v = args.node_value + first;
        const double total = static_cast<double>(below[left]) * v[left] + static_cast<double>(below[right]) * v[right];
        // A split that all rows pass on one side changes nothing, to the last bit.
        if (below[own] > 0)
          v[own] = !below[left] ? v[right] : !below[right] ? v[left] : total / static_cast<double>(below[own]);
      });
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
