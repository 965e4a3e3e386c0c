// A whole ensemble as the kernels see it: borrowed arrays, small integers. build.h makes it, once per model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../simd/compiler.h"

namespace treeinner {
// Sizes that the kernels share with those who lay out and allocate for them.
constexpr int kBlock = 64;                // rows of a block: a bit of a word each, a byte of a register each
constexpr int kTogether = 4;              // blocks that go through a tree together: a split is read once for all
constexpr int kRun = kTogether * kBlock;  // rows that go through a tree together
constexpr int kStrip = 4096;              // rows that go through a large tree before the next one's turn
constexpr int kFrontier = 256;            // nodes below a top at most: the number of one is then a byte (route.h)
constexpr int kSlice = 16;                // rows that TreeSHAP takes at a time: what it holds for them should fit L1
constexpr int kPoints = 4;                // quadrature points of one sweep of TreeSHAP
constexpr size_t kAlign = 64;             // bytes, of what vectors are loaded from

// One inner node. Nodes are numbered within their tree: its n splits in pre-order, so that a subtree is a contiguous
// run, then its leaves in pre-order from n on.
struct Split {
  uint32_t plane;  // column of codes it tests
  int32_t cut;     // numeric: right if code >= cut
  int32_t set;     // categorical: first word of the bit set of codes that go right; -1: numeric
  int32_t left;    // number of the child
  int32_t right;
  int32_t player;                  // what gets the credit
  int32_t first_leaf, right_leaf;  // first leaf below the split, and below its right child
};

// A split of a large tree below its top, where a row goes alone: half a Split, because it comes from far.
struct DeepSplit {
  uint32_t plane;
  int32_t cut;       // numeric: as in Split; categorical: ~set
  int32_t child[2];  // left and right: a deep split, counted from the tree's first, or ~leaf
};

// Bytes from one deep split to the next if steps for so many outputs follow each.
TREEINNER_INLINE constexpr int64_t deep_stride(int width) {
  return static_cast<int64_t>(sizeof(DeepSplit) + 2 * sizeof(double) * width);
}

// The upper part of a tree, as much of it as has at most kFrontier nodes directly below it, its frontier. Of a small
// tree it is the tree. The splits of a top are a tree in their own right, with the frontier for leaves.
struct Top {
  const Split* splits;
  const int32_t* number;  // (splits + frontier,)  in the tree; null: the same
  const int32_t* below;   // (frontier,)  as DeepSplit::child; null: the frontier is the leaves, in their order
  const DeepSplit* deep;
  int32_t n_splits, n_frontier;
  int64_t first_frontier, first_deep;  // counted over all trees
};

struct ForestShape {
  int32_t n_trees, n_outputs, width, n_planes, n_players;
  int32_t code_bytes;  // 1 or 2
};

struct Forest : ForestShape {
  int32_t max_splits;  // of one tree
  int32_t max_depth;
  const Split* splits;
  const int64_t* first_split;  // (n_trees + 1,)
  const int64_t* first_leaf;   // (n_trees + 1,)
  const int32_t* tree_output;  // (n_trees,)
  const double* leaf_value;    // (n_leaves, width)
  const uint64_t* sets;
  const Top* tops;              // (n_trees,)
  const int32_t* plane_player;  // (n_planes,)
  int64_t strip;                // rows that go through a tree before the next one's turn, runs of them
};

struct Tree {
  const Split* splits;
  int32_t n_splits;
  int64_t first_leaf, first_node;
};

TREEINNER_INLINE Tree tree_of(const Forest& f, int tree) {
  const int64_t split = f.first_split[tree], leaf = f.first_leaf[tree];
  return {f.splits + split, static_cast<int32_t>(f.first_split[tree + 1] - split), leaf, split + leaf};
}

TREEINNER_INLINE int64_t n_leaves(const Forest& f) { return f.first_leaf[f.n_trees]; }
TREEINNER_INLINE int64_t n_nodes(const Forest& f) { return f.first_split[f.n_trees] + n_leaves(f); }
// Outputs x players: sums of a row.
TREEINNER_INLINE int64_t n_places(const Forest& f) { return static_cast<int64_t>(f.n_outputs) * f.n_players; }
TREEINNER_INLINE int64_t n_blocks(int64_t n_rows) { return (n_rows + kBlock - 1) / kBlock; }
TREEINNER_INLINE int64_t padded(int64_t n_rows) { return n_blocks(n_rows) * kBlock; }

// How the values of one column become codes in one plane. Values have codes 1..n + 1; a missing value has its own.
struct Plane {
  int32_t column;
  int32_t first;         // numeric: the plane covers thresholds [first, first + n) of the column
  int32_t n;             // numeric: how many
  int32_t missing_code;  // 0: always left, the largest code: always right
};

// One column: thresholds (numeric) or a table of codes (categorical).
struct Column {
  int64_t first_plane, n_planes;  // n_planes 0: the model does not use it
  int64_t categorical;
  int64_t zero_is_missing;
  int64_t first;  // in thresholds (numeric), in codes_of_category (categorical)
  int64_t n;      // thresholds padded to 2^k - 1, or number of categories
};

struct Binning {
  int32_t n_columns;
  int32_t greater_equal;  // right if x >= threshold, else right if x > threshold
  int32_t float32_input;
  int32_t truncate;  // category = trunc(x), else floor(x)
  const Column* columns;
  const Plane* planes;
  const double* thresholds;   // padded with NaN, which nothing exceeds
  const float* thresholds32;  // the same, rounded so that every float32 compares the same
  const uint16_t* codes_of_category;
  const int32_t* other_code;  // (n_columns,) code of a category outside the table
};
}  // namespace treeinner
