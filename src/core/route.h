// Codes -> leaves. 64 rows go down a tree together: a word says which of them reach a node.
//
// A small tree is spread whole, without a branch: every split is one compare and every node gets its word. A large tree
// is walked, and empty subtrees are skipped.
#pragma once

#include "few.h"
#include "forest.h"
#include "word.h"

namespace treeinner::TREEINNER_NS {

constexpr int kSmall = 256;     // leaves of a small tree at most: a leaf's number is then a byte
constexpr int kSuperBlock = 8;  // blocks whose codes stay in L1 while the trees stream through

inline Word rows_of_block(int64_t n_rows, int64_t block) {
  const int64_t n = n_rows - block * kRows;
  return n >= kRows ? ~Word{0} : (Word{1} << n) - 1;
}

inline int64_t padded(int64_t n_rows) { return (n_rows + kRows - 1) / kRows * kRows; }

struct Tree {
  const Split* splits;
  int n_splits, n_leaves;
  int64_t first_leaf;
};

inline Tree tree_of(const Forest& f, int tree) {
  const int64_t split = f.first_split[tree], leaf = f.first_leaf[tree];
  return {f.splits + split, static_cast<int>(f.first_split[tree + 1] - split),
          static_cast<int>(f.first_leaf[tree + 1] - leaf), leaf};
}

// Which rows of the block would go right at a split, whether or not they reach it.
template <class Code>
inline Word right_word(const Forest& f, const Split& s, const Code* block) {
  const Code* codes = block + static_cast<int64_t>(s.plane) * kRows;
  return s.set < 0 ? at_least(codes, static_cast<uint16_t>(s.cut)) : in_set(codes, f.sets + s.set);
}

// Words of all nodes of a small tree: the rows that reach them.
template <class Code>
inline void spread(const Forest& f, const Tree& t, const Code* block, Word rows, Word* words) {
  words[0] = rows;
  for (int i = 0; i < t.n_splits; ++i) {
    const Split& s = t.splits[i];
    const Word here = words[i], right = right_word(f, s, block);
    words[s.left] = here & ~right;
    words[s.right] = here & right;
  }
}

// Visit the splits and leaves of a large tree that some of `rows` reach: on_split(i, here, right), on_leaf(leaf, here).
template <class Code, class OnSplit, class OnLeaf>
inline void walk(const Forest& f, const Tree& t, const Code* block, Word rows, Word* words, OnSplit on_split,
                 OnLeaf on_leaf) {
  words[0] = rows;
  for (int i = 0; i < t.n_splits;) {
    const Split& s = t.splits[i];
    const Word here = words[i];
    if (!here) {
      i = s.skip;
      continue;
    }
    const Word right = right_word(f, s, block);
    on_split(i, here, right);
    words[s.left] = here & ~right;
    words[s.right] = here & right;
    if (s.left >= t.n_splits) on_leaf(s.left - t.n_splits, here & ~right);
    if (s.right >= t.n_splits) on_leaf(s.right - t.n_splits, here & right);
    ++i;
  }
}

// The leaf of each row of a block, as a byte. In a large tree the byte is a place in a short list: 64 rows reach at
// most 64 leaves.
struct Landing {
  alignas(64) uint8_t slot[kRows];
  int32_t leaf[kSmall];

  Landing() {
    for (int l = 0; l < kSmall; ++l) leaf[l] = l;
  }
};

inline void land_small(const Tree& t, const Word* words, Landing& landing) {
  Bytes slot = no_bytes();
  for (int l = 1; l < t.n_leaves; ++l) put(slot, words[t.n_splits + l], static_cast<uint8_t>(l));
  store(landing.slot, slot);
}

// The slots of the n rows of a block that go down a small tree.
template <class Code>
inline void land(const Forest& f, const Tree& t, const Code* block, Word rows, int n, Word* words, Landing& landing) {
  if (n <= kFew) {
    for (int r = 0; r < n; ++r) landing.slot[r] = static_cast<uint8_t>(leaf_of(f, t.splits, t.n_splits, block, r));
    return;
  }
  spread(f, t, block, rows, words);
  land_small(t, words, landing);
}

template <class Code>
inline void land_large(const Forest& f, const Tree& t, const Code* block, Word rows, Word* words, Landing& landing) {
  Bytes slot = no_bytes();
  int n = 0;
  walk(
      f, t, block, rows, words, [](int, Word, Word) {},
      [&](int leaf, Word here) {
        landing.leaf[n] = leaf;
        put(slot, here, static_cast<uint8_t>(n));
        n += here != 0;
      });
  store(landing.slot, slot);
}

// Calls visit(tree, row, leaf) for every row and tree; for one row the trees come in order. Leaves count from the
// forest's first. words: scratch for the nodes of the largest tree.
template <class Code, class Visit>
inline void for_each_leaf(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* words,
                          Visit visit) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows;
  Landing small, large;
  for (int64_t super = 0; super < n_blocks; super += kSuperBlock) {
    const int64_t end = super + kSuperBlock < n_blocks ? super + kSuperBlock : n_blocks;
    for (int tree = first; tree < first + n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      Landing& landing = t.n_leaves <= kSmall ? small : large;
      for (int64_t block = super; block < end; ++block) {
        const Word rows = rows_of_block(n_rows, block);
        const int64_t row = block * kRows;
        const int n = n_rows - row < kRows ? static_cast<int>(n_rows - row) : kRows;
        if (t.n_leaves <= kSmall)
          land(f, t, codes + block * block_codes, rows, n, words, landing);
        else
          land_large(f, t, codes + block * block_codes, rows, words, landing);
        for (int r = 0; r < n; ++r) visit(tree, row + r, t.first_leaf + landing.leaf[landing.slot[r]]);
      }
    }
  }
}

// out: (rows, trees) numbers of the leaves in the library's own count.
template <class Code>
inline void leaf_numbers(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* words,
                         int32_t* out) {
  for_each_leaf(f, first, n_trees, codes, n_rows, words,
                [&](int tree, int64_t row, int64_t leaf) { out[row * n_trees + tree - first] = f.leaf_id[leaf]; });
}

// out: (outputs, padded rows); the leaf values are added in the order of the trees.
template <class Code>
inline void add_margins(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* words,
                        double* out) {
  const int64_t stride = padded(n_rows);
  if (f.width == 1) {
    for_each_leaf(f, first, n_trees, codes, n_rows, words, [&](int tree, int64_t row, int64_t leaf) {
      out[f.tree_output[tree] * stride + row] += f.leaf_value[leaf];
    });
    return;
  }
  for_each_leaf(f, first, n_trees, codes, n_rows, words, [&](int tree, int64_t row, int64_t leaf) {
    double* margin = out + f.tree_output[tree] * stride + row;
    for (int k = 0; k < f.width; ++k) margin[k * stride] += f.leaf_value[leaf * f.width + k];
  });
}

// sums: (leaves, width) += the weights, (outputs, padded rows), of the rows that land there. Whole numbers: exact sums.
template <class Code>
inline void add_leaf_sums(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows,
                          const int64_t* weight, Word* words, int64_t* sums) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, words, [&](int tree, int64_t row, int64_t leaf) {
    const int64_t* w = weight + f.tree_output[tree] * stride + row;
    for (int k = 0; k < f.width; ++k) sums[leaf * f.width + k] += w[k * stride];
  });
}

}  // namespace treeinner::TREEINNER_NS
