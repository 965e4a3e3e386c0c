// Codes -> leaves. 64 rows go down a tree together: `reach` is the word of rows that reach a split.
#pragma once

#include "forest.h"
#include "word.h"

namespace treeinner::TREEINNER_NS {

constexpr int kSuperBlock = 8;  // blocks whose codes stay in L1 while the trees stream through

inline Word rows_of_block(int64_t n_rows, int64_t block) {
  const int64_t n = n_rows - block * kRows;
  return n >= kRows ? ~Word{0} : (Word{1} << n) - 1;
}

// Which rows of the block would go right at a split, whether or not they reach it.
template <class Code>
inline Word right_word(const Forest& f, const Split& s, const Code* block) {
  const Code* codes = block + static_cast<int64_t>(s.plane) * kRows;
  return s.set < 0 ? at_least(codes, static_cast<uint16_t>(s.cut)) : in_set(codes, f.sets + s.set);
}

// Visit the splits and leaves that some of `rows` reach: on_split(i, split, reach, right), on_leaf(leaf, reach).
// Numbers count from the tree's first split and first leaf. An empty subtree is skipped whole.
template <class Code, class OnSplit, class OnLeaf>
inline void walk(const Forest& f, int tree, const Code* block, Word rows, Word* reach, OnSplit on_split, OnLeaf on_leaf) {
  const Split* splits = f.splits + f.first_split[tree];
  const int n = static_cast<int>(f.first_split[tree + 1] - f.first_split[tree]);
  if (n == 0) return on_leaf(0, rows);
  reach[0] = rows;
  for (int i = 0; i < n;) {
    const Split& s = splits[i];
    const Word here = reach[i];
    if (!here) {
      i = s.skip;
      continue;
    }
    const Word right = right_word(f, s, block);
    on_split(i, s, here, right);
    const Word to_left = here & ~right, to_right = here & right;
    if (s.left >= 0)
      reach[s.left] = to_left;
    else
      on_leaf(~s.left, to_left);
    if (s.right >= 0)
      reach[s.right] = to_right;
    else
      on_leaf(~s.right, to_right);
    ++i;
  }
}

// The leaf of each row of a block. At most 64 leaves are reached, so a row's leaf is a byte: a slot in a short list.
struct Landing {
  alignas(64) uint8_t slot[kRows];
  int32_t leaf[kRows + 1];
};

template <class Code>
inline void land(const Forest& f, int tree, const Code* block, Word rows, Word* reach, Landing& landing) {
  int n = 0;
  walk(
      f, tree, block, rows, reach, [](int, const Split&, Word, Word) {},
      [&](int leaf, Word here) {
        landing.leaf[n] = leaf;
        put(landing.slot, here, static_cast<uint8_t>(n));
        n += here != 0;
      });
}

// Calls visit(tree, row, leaf) for every row and tree; for one row the trees come in order. Leaves count from the
// forest's first.
template <class Code, class Visit>
inline void for_each_leaf(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* reach,
                          Visit visit) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows;
  Landing landing;
  for (int64_t super = 0; super < n_blocks; super += kSuperBlock) {
    const int64_t end = super + kSuperBlock < n_blocks ? super + kSuperBlock : n_blocks;
    for (int tree = first; tree < first + n_trees; ++tree) {
      const int64_t base = f.first_leaf[tree];
      for (int64_t block = super; block < end; ++block) {
        const int64_t row = block * kRows;
        const int n = n_rows - row < kRows ? static_cast<int>(n_rows - row) : kRows;
        land(f, tree, codes + block * block_codes, rows_of_block(n_rows, block), reach, landing);
        for (int r = 0; r < n; ++r) visit(tree, row + r, base + landing.leaf[landing.slot[r]]);
      }
    }
  }
}

inline int64_t padded(int64_t n_rows) { return (n_rows + kRows - 1) / kRows * kRows; }

// out: (rows, trees) numbers of the leaves in the library's own count.
template <class Code>
inline void leaf_numbers(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* reach,
                         int32_t* out) {
  for_each_leaf(f, first, n_trees, codes, n_rows, reach, [&](int tree, int64_t row, int64_t leaf) {
    out[row * n_trees + tree - first] = f.leaf_id[leaf];
  });
}

// out: (outputs, padded rows); the leaf values are added in the order of the trees.
template <class Code>
inline void add_margins(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* reach,
                        double* out) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, reach, [&](int tree, int64_t row, int64_t leaf) {
    double* margin = out + f.tree_output[tree] * stride + row;
    for (int k = 0; k < f.width; ++k) margin[k * stride] += f.leaf_value[leaf * f.width + k];
  });
}

// sums: (leaves, width) += the weights, (outputs, padded rows), of the rows that land there. Whole numbers: exact sums.
template <class Code>
inline void add_leaf_sums(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows,
                          const int64_t* weight, Word* reach, int64_t* sums) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, reach, [&](int tree, int64_t row, int64_t leaf) {
    const int64_t* w = weight + f.tree_output[tree] * stride + row;
    for (int k = 0; k < f.width; ++k) sums[leaf * f.width + k] += w[k * stride];
  });
}

}  // namespace treeinner::TREEINNER_NS
