// A whole ensemble as the kernels see it: borrowed arrays, small integers. Built and checked in treeinner/kernels.py.
#pragma once

#include <cstdint>

namespace treeinner {

// Sizes that the kernels share with those who lay out and allocate for them.
constexpr int kExits = 256;           // of a crown at most: an exit's number is then a byte (route.h)
constexpr int kTogether = 4;          // blocks that go down a crown together: a split is read once for all (route.h)
constexpr int kRun = kTogether * 64;  // rows that go through a tree together
constexpr int kStrip = 4096;          // rows that go through a large tree before the next one's turn (route.h)
constexpr int kPoints = 4;            // quadrature points of one sweep of TreeSHAP (shap.h)
constexpr int kSweepRows = 16;        // rows that a sweep takes at a time: what it keeps for them should fit L1
constexpr int kBatch = 32;            // trees whose row scores are added together (scores.h)
constexpr int kLookup = 64;           // leaves of a tree that takes part in that, at most
constexpr int kPlaces = 512;          // outputs x players of a forest that does, at most: their sums stay in L2

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

// A split of a large tree below its crown, where a row goes alone: half a Split, because it comes from far.
struct Fork {
  uint32_t plane;
  int32_t cut;       // numeric: as in Split; categorical: ~set
  int32_t child[2];  // left and right: a fork, counted from the tree's first, or ~leaf
};

// The upper part of a tree, so much of it that the places where rows come out of it, its exits, have numbers of one
// byte. Of a small tree it is the tree. The splits of a crown are a tree in their own right, with exits for leaves.
struct Crown {
  const Split* splits;
  const int32_t* below;  // (exits,)  as Fork::child; null: the exits are the leaves, in their order
  const Fork* forks;
  int32_t n_splits, n_exits;
  int64_t first_exit, first_fork;  // counted over all trees
};

// Row scores in batches of kBatch trees (scores.h): for the trees that have records of at most kLookup leaves, the same
// steps in float32, as multiples of step_unit, in two forms. By leaf: records. By place (output x players + player):
// the trees of a batch that have the player, and for each of them a number per leaf, its 16-bit halves apart.
struct Lookup {
  uint16_t low[kLookup], high[kLookup];
};

struct LookupUse {
  int32_t place, n_trees;
};

struct ScoreTable {
  double step_unit;
  const int64_t* first_record;  // (trees,)  in records, of the tree's first leaf; -1: the tree takes no part
  const float* records;         // 64-byte aligned
  const int64_t* first_use;     // (batches + 1,)
  const LookupUse* uses;
  const int64_t* first_lookup;  // (batches + 1,)
  const uint8_t* slot;          // (lookups,)  the tree, counted from the batch's first
  const Lookup* lookups;        // 64-byte aligned
};

// A path attribution: what each way out of a fork gives the player of its plane, and for the exits of the crowns what
// the path to them gives each player on it: entries (player, step). If no path to an exit of a tree has more than
// kRecord players, its exits have records instead, all of one length: the steps, then the players as 16-bit numbers.
// Entries that a path does not need have step 0.
struct PathTable {
  const char* forks;            // a Fork, then its steps to the left and to the right, width doubles each; and so on
  const int32_t* entries;       // (trees,)  entries of a record; 0: the tree has none
  const int64_t* first_record;  // (trees,)  in records, of the tree's first exit
  const double* records;        // 64-byte aligned
  const int64_t* first_entry;   // (exits + 1,)  none for exits with a record
  const int32_t* player;        // (entries,)
  const double* step;           // (entries, width)
  const ScoreTable* scores;     // or null: the forest takes no part
};

constexpr int kRecord = 8;

// Bytes from one fork to the next if steps for so many outputs follow each.
constexpr int64_t fork_stride(int width) { return static_cast<int64_t>(sizeof(Fork) + 2 * sizeof(double) * width); }

// Numbers from one record to the next: records of up to six doubles do not cross a line of cache, nor do floats.
template <class Number>
constexpr int record_stride(int entries) {
  if (sizeof(Number) == 4) return entries <= 4 ? 8 : 16;
  return entries == 1 ? 2 : entries <= 3 ? 4 : entries <= 6 ? 8 : 10;
}

struct Forest {
  int32_t n_trees, n_outputs, width, n_planes, n_players;
  int32_t code_bytes;  // 1 or 2
  int32_t max_splits;  // of one tree
  int32_t max_depth;
  const Split* splits;
  const int64_t* first_split;  // (n_trees + 1,)
  const int64_t* first_leaf;   // (n_trees + 1,)
  const int32_t* tree_output;  // (n_trees,)
  const double* leaf_value;    // (n_leaves, width)
  const int32_t* leaf_id;      // (n_leaves,)
  const uint64_t* sets;
  const Crown* crowns;          // (n_trees,)
  const int32_t* plane_player;  // (n_planes,)
  int64_t strip;                // rows that go through a tree before the next one's turn, runs of them
};

// How the values of one column become codes in one plane. Values have codes 1..n + 1; a missing value has its own.
struct Plane {
  int32_t column;
  int32_t first;         // numeric: the plane covers thresholds [first, first + n) of the column
  int32_t n;             // numeric: how many
  int32_t missing_code;  // 0: always left, the largest code: always right
};

// One column: thresholds (numeric) or a table of codes (categorical).
struct Column {
  int32_t first_plane, n_planes;  // n_planes 0: the model does not use it
  int32_t categorical;
  int32_t zero_is_missing;
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

// The values of one column of a table, anywhere in memory.
struct Values {
  const char* data;
  int64_t stride;  // bytes
  int32_t dtype;   // see gather in bin.h
};

// What TreeSHAP needs of a split besides the split itself (shap.h). Numbers of splits are places in the tree's order.
// Left here is the child with the smaller share of the cover.
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
  int64_t n_inner, n_plain, n_quads, n_pairs;  // n_quads counts the plain ones too

  int64_t plain_end() const { return n_inner + 3 * n_plain; }
  int64_t quads_end() const { return n_inner + 3 * n_quads; }
  int64_t end() const { return quads_end() + n_pairs; }
};

struct ShapForest {
  const ShapSplit* splits;     // each tree's from its first split on
  const int32_t* kinds;        // (n_trees, 4)  n_inner, n_plain, n_quads, n_pairs
  const int32_t* n_points;     // (n_trees,)  0: a single leaf
  const int64_t* first_point;  // (n_trees,)  in u and w
  const double* u;             // Gauss-Legendre points on [0, 1]
  const double* w;             // their weights

  ShapTree tree(const Forest& f, int i) const {
    const int32_t* n = kinds + 4 * static_cast<int64_t>(i);
    return {splits + f.first_split[i], n[0], n[1], n[2], n[3]};
  }
};

// Rows that satisfied all earlier splits on the player of a split; those of them that go left.
struct ShapWords {
  uint64_t was, left;
};

constexpr int kShapConstants = 2 * kPoints + 4;  // doubles of a split's constants at most (shap.h)

struct ShapScratch {
  ShapWords* words;   // (max_splits,)
  double* frames;     // (2 max_splits + 2, 4, 16), 64-byte aligned
  double* constants;  // (max_splits, kShapConstants)
};

// A loss whose gradient needs its own row alone (loss.h).
struct Loss {
  enum Kind : int32_t { kSquared = 0, kLogistic = 1, kPoisson = 2, kSoftmax = 3 };
  int32_t kind;
  double scale;  // of the margin, for kLogistic
};

// What gradients are taken of. Row arrays are (outputs, rows) with a stride.
struct Gradients {
  Loss loss;
  const double* y;
  int64_t y_stride;      // 0: every output has the same target
  const double* weight;  // (rows,) or null
  double* margin;
  int64_t stride;  // of the margin
};

// Rows on their way through the boosting rounds (boost.h).
struct BoostInput {
  Gradients gradients;  // margin: before the first round; after the last one on return
  int32_t n_rounds;
  const int32_t* first_tree;    // (rounds + 1,)
  double whole_scale;           // gradients are summed in the leaves as whole numbers of 1 / whole_scale
  int64_t* leaf_sums;           // (leaves, width), added to
  const int64_t* whole_weight;  // (rows,) weight of each row as a whole number
  int64_t* leaf_weights;        // (leaves, width) sums of them, added to; or null
  double* largest;              // (rows,) size of each row's largest gradient as a whole number, so far
  double* sums;                 // (rows, outputs, players) row scores, added to; or null
};

// Rows that go through a round together, runs of them: batches of trees want one.
inline int64_t boosting_strip(const Forest& f, const PathTable* paths) {
  return paths && paths->scores ? kRun : f.strip;
}

struct ScoreScratch {  // all 64-byte aligned; run: kTogether x 64 rows
  uint8_t* leaf;       // (kBatch, run)
  float* weight;       // (kBatch, run)
  float* part;         // (run, places) sums of a batch
  double* total;       // (run, places) sums of all batches so far
};

// A node as permute.h wants it; each tree's in the order of their numbers. Groups are the sets of columns that are
// shuffled together.
struct ShuffleNode {
  uint32_t place;    // of its plane in the pairs
  int32_t cut, set;  // as in Split
  int32_t step[2];   // from its number to that of its left and right child; 0 at a leaf
  int32_t group;     // -1 at a leaf
  int32_t above;     // nearest split above on the same group; -1: none
  int32_t pad;
};

struct ShuffleScratch {
  void* pairs;       // (planes, 2, 64) codes, 64-byte aligned
  uint64_t* gone;    // (max_splits + 1,)
  uint64_t* strays;  // (64 * max_depth + 2,)
};

constexpr int kLimbs = 5;  // of an exact sum (exact.h)

// Where exact sums of powers go, each (columns, 5), or null. Fourth powers of numbers below kFourthBorder are held
// times 2^kSmallFourths, the others, up to 2^40, times 2^kLargeFourths: at the border 28 bits are left.
struct PowerLimbs {
  int64_t *sums, *squares, *small_fourths, *large_fourths;
};
constexpr int kSmallFourths = 60, kLargeFourths = -80;
constexpr double kFourthBorder = 0x1p5, kSmallRoot = 0x1p30, kLargeRoot = 0x1p-40;  // roots of those factors

// What the compiled levels offer; see the headers named for what each does.
struct Kernels {
  const char* name;
  void (*bin)(const Binning&, int32_t first_column, int32_t n_columns, const Values*, int32_t code_bytes,
              int32_t n_planes, int64_t n_rows, void* codes);
  void (*leaves)(const Forest&, int32_t tree, int32_t n, const void* codes, int64_t n_rows, int32_t* out);
  void (*margins)(const Forest&, int32_t tree, int32_t n, const void* codes, int64_t n_rows, double* out);
  void (*leaf_sums)(const Forest&, int32_t tree, int32_t n, const void* codes, int64_t n_rows, const int64_t* weight,
                    int64_t* sums);
  void (*path)(const Forest&, int32_t tree, int32_t n, const PathTable&, const void* codes, int64_t n_rows,
               const double* weight, double* sums);
  void (*boost)(const Forest&, const BoostInput&, const PathTable*, const void* codes, int64_t n_rows, double* push,
                int64_t* whole, const ScoreScratch&);
  void (*push)(const Gradients&, int32_t n_outputs, int64_t n_rows, double* scratch, double* out);
  void (*shap)(const Forest&, int32_t tree, int32_t n, const ShapForest&, const void* codes, int64_t n_rows,
               const double* tree_scale, const double* weight, const ShapScratch&, double* sums);
  bool (*exact)(const double* values, int64_t n_rows, int64_t n_columns, double scale, const PowerLimbs&);
  void (*shuffle)(const Forest&, const ShuffleNode*, int32_t n_groups, bool sets, const void* own, const void* shuffled,
                  int64_t n_rows, const ShuffleScratch&, double* change);
};

// Only the levels of this architecture are linked in.
extern const Kernels kBaseline, kAvx2, kAvx512, kNeon;

}  // namespace treeinner
