// Codes -> leaves, 64 rows at a time.
//
// In a small tree a row carries a byte, the first leaf below the node where it stands: at the root that is leaf 0, and
// it changes only when the row goes right. The splits come in pre-order, so at a split the rows that stand there are
// those with its first leaf: one compare, one compare of codes, one masked move; no branch, nothing is stored. A large
// tree is walked with a word per node that says which rows reach it, and empty subtrees are skipped.
#pragma once

#include "few.h"
#include "forest.h"
#include "word.h"

namespace treeinner::TREEINNER_NS {

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

// Leaves of N neighbouring blocks in a small tree, a byte per row.
template <int N, class Code>
inline void land_small(const Forest& f, const Tree& t, const Code* codes, uint8_t* leaf) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  Bytes place[N];
  TREEINNER_UNROLL for (int b = 0; b < N; ++b) place[b] = no_bytes();
  for (int i = 0; i < t.n_splits; ++i) {
    const Split& s = t.splits[i];
    const Code* at = codes + static_cast<int64_t>(s.plane) * kRows;
    const uint8_t from = static_cast<uint8_t>(s.first_leaf), to = static_cast<uint8_t>(s.right_leaf);
    if (s.set < 0) {
      const uint16_t cut = static_cast<uint16_t>(s.cut);
      TREEINNER_UNROLL for (int b = 0; b < N; ++b) move(place[b], from, marks_at_least(at + b * block_codes, cut), to);
    } else {
      for (int b = 0; b < N; ++b) move(place[b], from, marks(in_set(at + b * block_codes, f.sets + s.set)), to);
    }
  }
  TREEINNER_UNROLL for (int b = 0; b < N; ++b) store(leaf + b * kRows, place[b]);
}

// The same for n rows, up to kTogether blocks of them. leaf: 64-byte aligned.
template <class Code>
inline void land_small(const Forest& f, const Tree& t, const Code* codes, int n, uint8_t* leaf) {
  if (n <= kFew) {
    for (int r = 0; r < n; ++r) leaf[r] = static_cast<uint8_t>(leaf_of(f, t.splits, t.n_splits, codes, r));
    return;
  }
  if (n > (kTogether - 1) * kRows) return land_small<kTogether>(f, t, codes, leaf);
  for (int r = 0; r < n; r += kRows) land_small<1>(f, t, codes + static_cast<int64_t>(r) * f.n_planes, leaf + r);
}

// Leaves of one block in a large tree.
template <class Code>
inline void land_large(const Forest& f, const Tree& t, const Code* block, Word rows, Word* words, int32_t* leaf) {
  walk(
      f, t, block, rows, words, [](int, Word, Word) {},
      [&](int l, Word here) {
        for (; here; here &= here - 1) leaf[__builtin_ctzll(here)] = l;
      });
}

// Calls visit(tree, row, n, leaf) for n rows from `row` on; for one row the trees come in order. leaf[r]: that of row +
// r, counted from the tree's first. words: scratch for the nodes of the largest tree.
template <class Code, class Visit>
inline void for_each_leaf(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* words,
                          Visit visit) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows;
  alignas(64) uint8_t small[kTogether * kRows];
  int32_t large[kRows];
  for (int64_t begin = 0; begin < n_blocks; begin += kTogether) {
    const int64_t end = begin + kTogether < n_blocks ? begin + kTogether : n_blocks;
    const int64_t row = begin * kRows;
    const int n = n_rows - row < kTogether * kRows ? static_cast<int>(n_rows - row) : kTogether * kRows;
    for (int tree = first; tree < first + n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      if (t.n_leaves <= kSmallTree) {
        land_small(f, t, codes + begin * block_codes, n, small);
        visit(tree, row, n, small);
        continue;
      }
      for (int64_t block = begin; block < end; ++block) {
        const int64_t left = n_rows - block * kRows;
        land_large(f, t, codes + block * block_codes, rows_of_block(n_rows, block), words, large);
        visit(tree, block * kRows, static_cast<int>(left < kRows ? left : kRows), large);
      }
    }
  }
}

// out: (rows, trees) numbers of the leaves in the library's own count.
template <class Code>
inline void leaf_numbers(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* words,
                         int32_t* out) {
  for_each_leaf(f, first, n_trees, codes, n_rows, words, [&](int tree, int64_t row, int n, const auto* leaf) {
    const int32_t* id = f.leaf_id + f.first_leaf[tree];
    for (int r = 0; r < n; ++r) out[(row + r) * n_trees + tree - first] = id[leaf[r]];
  });
}

// out: (outputs, padded rows); the leaf values are added in the order of the trees.
template <class Code>
inline void add_margins(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Word* words,
                        double* out) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, words, [&](int tree, int64_t row, int n, const auto* leaf) {
    const double* value = f.leaf_value + f.first_leaf[tree] * f.width;
    double* margin = out + f.tree_output[tree] * stride + row;
    if (f.width == 1) {
      for (int r = 0; r < n; ++r) margin[r] += value[leaf[r]];
      return;
    }
    for (int k = 0; k < f.width; ++k)
      for (int r = 0; r < n; ++r) margin[k * stride + r] += value[static_cast<int64_t>(leaf[r]) * f.width + k];
  });
}

// sums: (leaves, width) += the weights, (outputs, padded rows), of the rows that land there. Whole numbers: exact sums.
template <class Code>
inline void add_leaf_sums(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows,
                          const int64_t* weight, Word* words, int64_t* sums) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, words, [&](int tree, int64_t row, int n, const auto* leaf) {
    const int64_t* w = weight + f.tree_output[tree] * stride + row;
    int64_t* sum = sums + f.first_leaf[tree] * f.width;
    for (int k = 0; k < f.width; ++k)
      for (int r = 0; r < n; ++r) sum[static_cast<int64_t>(leaf[r]) * f.width + k] += w[k * stride + r];
  });
}

}  // namespace treeinner::TREEINNER_NS
