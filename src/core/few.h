// A handful of rows: each goes down alone. 64 rows together cost as much as about six alone, whether they are there or
// not. Only the way to the leaf differs; what the leaves give is added up as for many rows, so the bits are the same.
#pragma once

#include "forest.h"
#include "word.h"

namespace treeinner::TREEINNER_NS {

constexpr int kFew = 4;  // rows at most

// Where a row with this code goes. Not by a jump, which would be wrong half the time.
template <class Code>
inline int child_of(const Forest& f, const Split& s, Code code) {
  const bool right = s.set < 0 ? code >= s.cut : f.sets[s.set + (code >> 6)] >> (code & 63) & 1;
  return s.left + ((s.right - s.left) & -static_cast<int>(right));
}

// The leaf, counted from the tree's first, that row r of a block reaches.
template <class Code>
inline int leaf_of(const Forest& f, const Split* splits, int n_splits, const Code* block, int r) {
  int node = 0;
  while (node < n_splits) {
    const Split& s = splits[node];
    node = child_of(f, s, block[static_cast<int64_t>(s.plane) * kRows + r]);
  }
  return node - n_splits;
}

}  // namespace treeinner::TREEINNER_NS
