// Codes -> leaves, many rows at a time.
//
// In a top a row carries a byte, the first frontier node below the node where it stands: at the root that is 0, and it
// changes only when the row goes right. The splits come in pre-order, so at a split the rows that stand there are those
// with its first frontier node: one compare, one compare of codes, one masked move; no branch, nothing is stored. Below
// the top of a large tree the rows are few at every split, and each goes on alone.
#pragma once

#include "job.h"

namespace treeinner {
struct LeavesArgs {
  int32_t* out;  // (rows, trees)  leaves, counted over all trees
};

struct MarginsArgs {
  double* out;  // (outputs, padded rows)  leaf values are added in the order of the trees
};

struct LeafSumsArgs {
  const int64_t* weight;  // (outputs, padded rows)  integers: exact sums
  int64_t* sums;          // (leaves, width) += the weights of the rows that reach the leaf
};

namespace TREEINNER_NS {
// Which rows of a block would go right at a split, whether or not they reach it. codes: of its plane.
template <class Split, class Code>
inline Word right_word(const Forest& f, const Split& s, const Code* codes) {
  return s.set < 0 ? at_least(codes, static_cast<uint16_t>(s.cut)) : in_set(codes, f.sets + s.set);
}

// Frontier nodes of N neighbouring blocks, a byte per row.
template <int N, class Code>
inline void route(const Forest& f, const Top& top, const Code* codes, uint8_t* frontier) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kBlock;
  Bytes place[N];
  TREEINNER_UNROLL for (int b = 0; b < N; ++b) place[b] = no_bytes();
  for (int i = 0; i < top.n_splits; ++i) {
    const Split& s = top.splits[i];
    const Code* at = codes + static_cast<int64_t>(s.plane) * kBlock;
    const uint8_t from = static_cast<uint8_t>(s.first_leaf), to = static_cast<uint8_t>(s.right_leaf);
    if (s.set < 0) {
      const uint16_t cut = static_cast<uint16_t>(s.cut);
      TREEINNER_UNROLL for (int b = 0; b < N; ++b) move(place[b], from, marks_at_least(at + b * block_codes, cut), to);
    } else {
      for (int b = 0; b < N; ++b) move(place[b], from, marks(in_set(at + b * block_codes, f.sets + s.set)), to);
    }
  }
  TREEINNER_UNROLL for (int b = 0; b < N; ++b) store(frontier + b * kBlock, place[b]);
}

constexpr int kFew = 4;  // rows that go down one by one: a block costs as much as about six of them

// The frontier node that row r of a block reaches. Not by a jump, which would be wrong half the time.
template <class Code>
inline int route_one(const Forest& f, const Top& top, const Code* block, int r) {
  int node = 0;
  while (node < top.n_splits) {
    const Split& s = top.splits[node];
    const Code code = block[static_cast<int64_t>(s.plane) * kBlock + r];
    const bool right = s.set < 0 ? code >= s.cut : f.sets[s.set + (code >> 6)] >> (code & 63) & 1;
    node = s.left + ((s.right - s.left) & -static_cast<int>(right));
  }
  return node - top.n_splits;
}

// The same for n rows, up to kTogether blocks of them. frontier: 64-byte aligned.
template <class Code>
inline void route(const Forest& f, const Top& top, const Code* codes, int n, uint8_t* frontier) {
  if (n <= kFew) {
    for (int r = 0; r < n; ++r) frontier[r] = static_cast<uint8_t>(route_one(f, top, codes, r));
    return;
  }
  if (n > (kTogether - 1) * kBlock) return route<kTogether>(f, top, codes, frontier);
  for (int r = 0; r < n; r += kBlock) route<1>(f, top, codes + static_cast<int64_t>(r) * f.n_planes, frontier + r);
}

// n rows from the frontier to their leaves, in a large tree; calls step(row, deep split, side) on the way. A level at a
// time for the rows of a block: their ways do not depend on each other, so the processor works on many at once, a row's
// next split is on its way while the others take their step, and the list of rows that go on is kept without a jump
// that could be guessed wrong. deep: the tree's deep splits, with what follows each, for `width` outputs.
template <class Code, class Step>
inline void descend(const Forest& f, const Top& top, const char* deep, int width, const Code* codes, int n,
                    const uint8_t* frontier, int32_t* leaf, Step step) {
  const int64_t stride = deep_stride(width);
  const auto fetch = [&](int split) { prefetch(deep + (split < 0 ? 0 : split) * stride); };
  int16_t rows[kBlock];
  for (int first = 0; first < n; first += kBlock, frontier += kBlock, leaf += kBlock, codes += f.n_planes * kBlock) {
    const int in_block = n - first < kBlock ? n - first : kBlock;
    int going = 0;
    for (int r = 0; r < in_block; ++r) {
      leaf[r] = top.below[frontier[r]];
      fetch(leaf[r]);
      rows[going] = static_cast<int16_t>(r);
      going += leaf[r] >= 0;
    }
    while (going) {
      const int count = going;
      going = 0;
      for (int i = 0; i < count; ++i) {
        const int r = rows[i];
        const DeepSplit& split = *reinterpret_cast<const DeepSplit*>(deep + leaf[r] * stride);
        const int code = codes[static_cast<int64_t>(split.plane) * kBlock + r];
        const int side = split.cut >= 0 ? code >= split.cut : f.sets[~split.cut + (code >> 6)] >> (code & 63) & 1;
        step(first + r, split, side);
        const int child = split.child[side];
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
inline void descend(const Forest& f, const Top& top, const Code* codes, int n, const uint8_t* frontier, int32_t* leaf) {
  const char* deep = reinterpret_cast<const char*>(top.deep);
  descend(f, top, deep, 0, codes, n, frontier, leaf, [](int, const DeepSplit&, int) {});
}

// Calls visit(tree, row, n) for runs of n rows from `row` on; for one row the trees come in order. Small trees stay in
// the cache while the runs pass; large ones do not, so more rows pass them before the next tree's turn.
template <class Visit>
inline void for_each_run(const Job& job, Visit visit) {
  const int64_t strip = job.forest->strip;
  for (int64_t begin = 0; begin < job.n_rows; begin += strip) {
    const int64_t end = job.n_rows - begin < strip ? job.n_rows : begin + strip;
    for (int tree = job.first_tree; tree < job.first_tree + job.n_trees; ++tree)
      for (int64_t row = begin; row < end; row += kRun)
        visit(tree, row, static_cast<int>(end - row < kRun ? end - row : kRun));
  }
}

// Calls visit(tree, row, n, leaf) for such runs. leaf[r]: that of row + r, counted from the tree's first.
template <class Code, class Visit>
inline void for_each_leaf(const Job& job, Visit visit) {
  const Forest& f = *job.forest;
  alignas(64) uint8_t frontier[kRun];
  int32_t leaf[kRun];
  for_each_run(job, [&](int tree, int64_t row, int n) {
    const Top& top = f.tops[tree];
    const Code* codes = codes_of<Code>(job) + row * f.n_planes;
    route(f, top, codes, n, frontier);
    if (!top.below) return visit(tree, row, n, frontier);
    descend(f, top, codes, n, frontier, leaf);
    visit(tree, row, n, leaf);
  });
}

template <class Code>
inline void leaves(const Job& job, const LeavesArgs& args) {
  const Forest& f = *job.forest;
  for_each_leaf<Code>(job, [&](int tree, int64_t row, int n, const auto* leaf) {
    const int32_t first = static_cast<int32_t>(f.first_leaf[tree]);
    for (int r = 0; r < n; ++r) args.out[(row + r) * job.n_trees + tree - job.first_tree] = first + leaf[r];
  });
}

template <class Code>
inline void margins(const Job& job, const MarginsArgs& args) {
  const Forest& f = *job.forest;
  const int64_t stride = padded(job.n_rows);
  for_each_leaf<Code>(job, [&](int tree, int64_t row, int n, const auto* leaf) {
    const double* value = f.leaf_value + f.first_leaf[tree] * f.width;
    double* margin = args.out + f.tree_output[tree] * stride + row;
    if (f.width == 1) {
      for (int r = 0; r < n; ++r) margin[r] += value[leaf[r]];
      return;
    }
    for (int k = 0; k < f.width; ++k)
      for (int r = 0; r < n; ++r) margin[k * stride + r] += value[static_cast<int64_t>(leaf[r]) * f.width + k];
  });
}

template <class Code>
inline void leaf_sums(const Job& job, const LeafSumsArgs& args) {
  const Forest& f = *job.forest;
  const int64_t stride = padded(job.n_rows);
  for_each_leaf<Code>(job, [&](int tree, int64_t row, int n, const auto* leaf) {
    const int64_t* w = args.weight + f.tree_output[tree] * stride + row;
    int64_t* sum = args.sums + f.first_leaf[tree] * f.width;
    for (int k = 0; k < f.width; ++k)
      for (int r = 0; r < n; ++r) sum[static_cast<int64_t>(leaf[r]) * f.width + k] += w[k * stride + r];
  });
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
