// Codes -> leaves, many rows at a time.
//
// In a crown a row carries a byte, the first exit below the node where it stands: at the root that is exit 0, and it
// changes only when the row goes right. The splits come in pre-order, so at a split the rows that stand there are those
// with its first exit: one compare, one compare of codes, one masked move; no branch, nothing is stored. Below the
// crown of a large tree the rows are few at every split, and each goes on alone.
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
  int n_splits;
  int64_t first_leaf;
};

inline Tree tree_of(const Forest& f, int tree) {
  const int64_t split = f.first_split[tree];
  return {f.splits + split, static_cast<int>(f.first_split[tree + 1] - split), f.first_leaf[tree]};
}

// Which rows of the block would go right at a split, whether or not they reach it.
template <class Code>
inline Word right_word(const Forest& f, const Split& s, const Code* block) {
  const Code* codes = block + static_cast<int64_t>(s.plane) * kRows;
  return s.set < 0 ? at_least(codes, static_cast<uint16_t>(s.cut)) : in_set(codes, f.sets + s.set);
}

// Exits of N neighbouring blocks, a byte per row.
template <int N, class Code>
inline void land(const Forest& f, const Crown& c, const Code* codes, uint8_t* exit) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  Bytes place[N];
  TREEINNER_UNROLL for (int b = 0; b < N; ++b) place[b] = no_bytes();
  for (int i = 0; i < c.n_splits; ++i) {
    const Split& s = c.splits[i];
    const Code* at = codes + static_cast<int64_t>(s.plane) * kRows;
    const uint8_t from = static_cast<uint8_t>(s.first_leaf), to = static_cast<uint8_t>(s.right_leaf);
    if (s.set < 0) {
      const uint16_t cut = static_cast<uint16_t>(s.cut);
      TREEINNER_UNROLL for (int b = 0; b < N; ++b) move(place[b], from, marks_at_least(at + b * block_codes, cut), to);
    } else {
      for (int b = 0; b < N; ++b) move(place[b], from, marks(in_set(at + b * block_codes, f.sets + s.set)), to);
    }
  }
  TREEINNER_UNROLL for (int b = 0; b < N; ++b) store(exit + b * kRows, place[b]);
}

// The same for n rows, up to kTogether blocks of them. exit: 64-byte aligned.
template <class Code>
inline void land(const Forest& f, const Crown& c, const Code* codes, int n, uint8_t* exit) {
  if (n <= kFew) {
    for (int r = 0; r < n; ++r) exit[r] = static_cast<uint8_t>(leaf_of(f, c.splits, c.n_splits, codes, r));
    return;
  }
  if (n > (kTogether - 1) * kRows) return land<kTogether>(f, c, codes, exit);
  for (int r = 0; r < n; r += kRows) land<1>(f, c, codes + static_cast<int64_t>(r) * f.n_planes, exit + r);
}

// n rows from their exits to their leaves, in a large tree; calls step(row, fork, side) on the way. A level at a time
// for the rows of a block: their ways do not depend on each other, so the processor works on many at once, a row's next
// fork is on its way while the others take their step, and the list of rows that go on is kept without a jump that
// could be guessed wrong. forks: those of the tree, with what follows each, for `width` outputs.
template <class Code, class Step>
inline void descend(const Forest& f, const Crown& c, const char* forks, int width, const Code* codes, int n,
                    const uint8_t* exit, int32_t* leaf, Step step) {
  const int64_t stride = fork_stride(width);
  const auto fetch = [&](int fork) { __builtin_prefetch(forks + (fork < 0 ? 0 : fork) * stride); };
  int16_t rows[kRows];
  for (int first = 0; first < n; first += kRows, exit += kRows, leaf += kRows, codes += f.n_planes * kRows) {
    const int in_block = n - first < kRows ? n - first : kRows;
    int going = 0;
    for (int r = 0; r < in_block; ++r) {
      leaf[r] = c.below[exit[r]];
      fetch(leaf[r]);
      rows[going] = static_cast<int16_t>(r);
      going += leaf[r] >= 0;
    }
    while (going) {
      const int count = going;
      going = 0;
      for (int i = 0; i < count; ++i) {
        const int r = rows[i];
        const Fork& fork = *reinterpret_cast<const Fork*>(forks + leaf[r] * stride);
        const int code = codes[static_cast<int64_t>(fork.plane) * kRows + r];
        const int side = fork.cut >= 0 ? code >= fork.cut : f.sets[~fork.cut + (code >> 6)] >> (code & 63) & 1;
        step(first + r, fork, side);
        const int child = fork.child[side];
        leaf[r] = child;
        fetch(child);
        rows[going] = static_cast<int16_t>(r);
        going += child >= 0;
      }
    }
    for (int r = 0; r < in_block; ++r) leaf[r] = ~leaf[r];
  }
}

// The same without steps.
template <class Code>
inline void descend(const Forest& f, const Crown& c, const Code* codes, int n, const uint8_t* exit, int32_t* leaf) {
  descend(f, c, reinterpret_cast<const char*>(c.forks), 0, codes, n, exit, leaf, [](int, const Fork&, int) {});
}

// Calls visit(tree, row, n) for runs of n rows from `row` on; for one row the trees come in order. Small trees stay in
// the cache while the runs pass; large ones do not, so more rows pass them before the next tree's turn.
template <class Visit>
inline void for_each_run(const Forest& f, int first, int n_trees, int64_t n_rows, Visit visit) {
  for (int64_t begin = 0; begin < n_rows; begin += f.strip) {
    const int64_t end = n_rows - begin < f.strip ? n_rows : begin + f.strip;
    for (int tree = first; tree < first + n_trees; ++tree)
      for (int64_t row = begin; row < end; row += kRun)
        visit(tree, row, static_cast<int>(end - row < kRun ? end - row : kRun));
  }
}

// Calls visit(tree, row, n, leaf) for such runs. leaf[r]: that of row + r, counted from the tree's first.
template <class Code, class Visit>
inline void for_each_leaf(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, Visit visit) {
  alignas(64) uint8_t exit[kRun];
  int32_t leaf[kRun];
  for_each_run(f, first, n_trees, n_rows, [&](int tree, int64_t row, int n) {
    const Crown& crown = f.crowns[tree];
    const Code* run_codes = codes + row * f.n_planes;
    land(f, crown, run_codes, n, exit);
    if (!crown.below) return visit(tree, row, n, exit);
    descend(f, crown, run_codes, n, exit, leaf);
    visit(tree, row, n, leaf);
  });
}

// out: (rows, trees) numbers of the leaves in the library's own count.
template <class Code>
inline void leaf_numbers(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, int32_t* out) {
  for_each_leaf(f, first, n_trees, codes, n_rows, [&](int tree, int64_t row, int n, const auto* leaf) {
    const int32_t* id = f.leaf_id + f.first_leaf[tree];
    for (int r = 0; r < n; ++r) out[(row + r) * n_trees + tree - first] = id[leaf[r]];
  });
}

// out: (outputs, padded rows); the leaf values are added in the order of the trees.
template <class Code>
inline void add_margins(const Forest& f, int first, int n_trees, const Code* codes, int64_t n_rows, double* out) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, [&](int tree, int64_t row, int n, const auto* leaf) {
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
                          const int64_t* weight, int64_t* sums) {
  const int64_t stride = padded(n_rows);
  for_each_leaf(f, first, n_trees, codes, n_rows, [&](int tree, int64_t row, int n, const auto* leaf) {
    const int64_t* w = weight + f.tree_output[tree] * stride + row;
    int64_t* sum = sums + f.first_leaf[tree] * f.width;
    for (int k = 0; k < f.width; ++k)
      for (int r = 0; r < n; ++r) sum[static_cast<int64_t>(leaf[r]) * f.width + k] += w[k * stride + r];
  });
}

}  // namespace treeinner::TREEINNER_NS
