// What is made out of a forest for one method, as the kernels see it: borrowed arrays. The other headers here make it.
#pragma once

#include "forest.h"

namespace treeinner {
// -- path attributions: path_table.h

constexpr int kRecord = 8;  // entries of a record at most

// Doubles from one record to the next: records of up to six do not cross a line of cache.
TREEINNER_INLINE constexpr int record_stride(int entries) {
  return entries == 1 ? 2 : entries <= 3 ? 4 : entries <= 6 ? 8 : 10;
}

// An entry of a row score as four floats: the step, what of it the row's residual is not multiplied by (its level, of
// shares), and the step in more digits: as a whole number, whose sums over a tree batch are exact, and the rest.
constexpr int kQuad = 4;
// Players of quads are packed: so many bits for each, and so many players in 64 bits.
constexpr int kPlayerBits = 9, kPacked = 64 / kPlayerBits;
// Floats from one record of quads to the next, `floats` to an entry: whole lines of cache.
TREEINNER_INLINE constexpr int quad_stride(int entries, int floats) {
  return (entries * floats + (entries <= kPacked ? 2 : 4) + 15) / 16 * 16;
}

constexpr int kAside = 512;                // rows whose leaves are set aside
constexpr int kTreeBatch = 64;             // trees whose row scores are added together
constexpr int kSmall = 64;                 // leaves of a tree that takes part in that, at most
constexpr int kPlaces = 1 << kPlayerBits;  // outputs x players of a forest that does, at most
constexpr double kWhole = 0x1p18;          // a step as a whole number has units of step_unit / kWhole

// For the trees that have records of at most kSmall leaves, the same as quads in multiples of step_unit, then the
// players, packed. In a quad come the step; its level; the step again as a whole number; the rest of it. With fixed
// node values too: the level; what the level is more where they are fixed; the same two; and the steps stand between
// the quads and the players.
struct ScoreTable {
  double step_unit;
  const uint8_t* takes_part;    // (trees,)
  const int64_t* first_record;  // (trees,)  in records, of the tree's first leaf
  const float* records;         // 64-byte aligned
  bool with_fixed;
};

// A path attribution: what each way out of a deep split gives the player of its plane, and for the frontiers of the
// tops what the path to a node gives each player on it: entries (player, step). If no path to the frontier of a tree
// has more than kRecord players, its nodes have records instead, all of one length: the steps, then the players as
// 16-bit numbers. Entries that a path does not need have step 0.
struct PathTable {
  const char* deep;             // a DeepSplit, then its steps to the left and right, width doubles each; and so on
  const int32_t* entries;       // (trees,)  entries of a record; 0: the tree has none
  const int64_t* first_record;  // (trees,)  in records, of the first node of the tree's frontier
  const double* records;        // 64-byte aligned
  const int64_t* first_entry;   // (frontier + 1,)  none for nodes with a record
  const int32_t* player;        // (entries,)
  const double* step;           // (entries, width)
  const ScoreTable* scores;     // for row scores (kernels/tree_batch.h), or null
  // Of shares in a centred score (share_table.h), or null: what is multiplied by the weight of a row, and, in trees
  // with a top, by the value of its leaf less that of the root, root: (trees, width).
  const PathTable *level, *leaf;
  const double* root;
};

// -- TreeSHAP: shap_table.h

// What TreeSHAP needs of a split besides the split itself. Numbers of splits are places in the tree's order. Left here
// is the child with the smaller share of the cover.
struct ShapSplit {
  double share;           // product of the cover shares of this player's splits above; 1 if it is new on the path
  double child_share[2];  // left and right child's share of the cover
  int32_t split;          // which one it is, counted from the tree's first; ~ that, if its right child is left here
  int32_t player;
  int32_t previous;  // nearest split above with the same player, twice, + 1 if the path goes right there; -1: none
  int32_t leaf[2];   // children that are leaves, counted from the tree's first; -1: a split
  int32_t frame;     // its own; none in a quad's pairs
  int32_t down[2];   // not in a pair or quad: frames for the products of its children
  int32_t worth[2];  // and those with their worths: the same, but for a leaf
};

// Splits of one tree in the order of their kinds. A pair is a split with two leaves, a quad one with two pairs; the
// root is neither. First the other splits, from the root down; then the quads (three splits each: its own and its two
// pairs'), those first that are plain, with players that are new on the path; then the other pairs.
struct ShapTree {
  const ShapSplit* splits;
  int64_t n_inner, plain_end, quads_end, end;  // where each kind ends
  int32_t n_points;                            // of its quadrature rule; 0: a single leaf
  const double *u, *w;                         // Gauss-Legendre points on [0, 1], and their weights
};
}  // namespace treeinner
