// What is made out of a forest for one method, as the kernels see it: borrowed arrays. The other headers here make it.
#pragma once

#include "forest.h"

namespace treeinner {
// -- path attributions: path_table.h

constexpr int kRecord = 8;  // entries of a record at most

// Numbers from one record to the next: records of up to six doubles do not cross a line of cache, nor do floats.
template <class Number>
TREEINNER_INLINE constexpr int record_stride(int entries) {
  if (sizeof(Number) == 4) return entries <= 4 ? 8 : 16;
  return entries == 1 ? 2 : entries <= 3 ? 4 : entries <= 6 ? 8 : 10;
}

// The same for records of shares, which hold two numbers per entry.
TREEINNER_INLINE constexpr int share_stride(int entries) { return entries <= 6 ? 16 : 32; }

constexpr int kTreeBatch = 32;  // trees whose row scores are added together
constexpr int kLookup = 64;     // leaves of a tree that takes part in that, at most
constexpr int kPlaces = 512;    // outputs x players of a forest that does, at most: their sums stay in L2

// A float for each leaf, its 16-bit halves apart.
struct Lookup {
  uint16_t low[kLookup], high[kLookup];
};

struct LookupUse {
  int32_t place, n_trees;
};

// For the trees that have records of at most kLookup leaves, the same steps in float32, as multiples of step_unit. In
// one of two forms, as the instruction set wants it. By leaf: records. By place (output x players + player): the trees
// of a tree batch that have the player, and for each of them a Lookup.
struct ScoreTable {
  double step_unit;
  bool by_lookup;
  const uint8_t* takes_part;    // (trees,)
  const int64_t* first_record;  // (trees,)  in records, of the tree's first leaf
  const float* records;         // 64-byte aligned
  const int64_t* first_use;     // (tree batches + 1,)
  const LookupUse* uses;
  const int64_t* first_lookup;  // (tree batches + 1,)
  const uint8_t* slot;          // (lookups,)  the tree, counted from the tree batch's first
  const Lookup* lookups;        // 64-byte aligned
  // Of shares, the same for the level, which is multiplied by the weight of a row and not by its residual; or null. In
  // records it stands behind the steps.
  const Lookup* level_lookups;
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
