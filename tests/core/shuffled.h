// Margins of rows with shuffled columns, by the kernel and one row at a time.
#pragma once

#include "oracle.h"

namespace treeinner {

// Every column is a group of its own. As src/core/python/shuffle.h makes them.
inline std::vector<PermuteNode> permute_nodes(const Forest& f) {
  std::vector<PermuteNode> out(index(n_nodes(f)), PermuteNode{0, 0, -1, {0, 0}, -1, -1, 0});
  for (int tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    PermuteNode* nodes = out.data() + t.first_node;
    std::vector<int32_t> parent(index(2 * t.n_splits + 1), -1);
    for (int32_t i = 0; i < t.n_splits; ++i) {
      const Split& s = t.splits[i];
      parent[index(s.left)] = parent[index(s.right)] = i;
      int32_t above = parent[index(i)];
      while (above >= 0 && nodes[above].group != s.player) above = parent[index(above)];
      nodes[i] = {s.plane * 2 * kBlock, s.cut, s.set, {s.left - i, s.right - i}, s.player, above, 0};
    }
  }
  return out;
}

// The codes of the rows in reverse order.
inline Array<char> reversed_codes(const Forest& f, const Array<char>& codes, int n_rows) {
  Array<char> out(codes.size());
  const auto at = [&](int plane, int row) {
    return index(((row / kBlock * f.n_planes + plane) * kBlock + row % kBlock) * f.code_bytes);
  };
  for (int plane = 0; plane < f.n_planes; ++plane)
    for (int row = 0; row < n_rows; ++row)
      std::memcpy(&out[at(plane, row)], &codes[at(plane, n_rows - 1 - row)], index(f.code_bytes));
  return out;
}

// [block][group][output][64]; the last group holds the margins of the rows as they are. Behind the last row: zeros.
inline Array<double> permuted(const Forest& f, const Kernels& k, const Array<char>& codes, int n_rows) {
  const std::vector<PermuteNode> nodes = permute_nodes(f);
  const Array<char> shuffled = reversed_codes(f, codes, n_rows);
  Array<double> change(index(padded(n_rows) * (f.n_players + int64_t{1}) * f.n_outputs));
  call(k.permute, Job{&f, codes.data(), n_rows, 0, f.n_trees},
       PermuteArgs{nodes.data(), f.n_players, f.sets != nullptr, shuffled.data(), change.data()});
  const size_t first = change.size() - change.size() / index(n_blocks(n_rows)),
               after = index((n_rows - 1) % kBlock + 1);
  for (size_t i = first; i < change.size(); ++i) change[i] = i % kBlock < after ? change[i] : 0.0;
  return change;
}

namespace oracle {
// The same: every row down every tree, once as it is and once with each group's codes taken from the shuffled rows.
inline std::vector<double> permuted(const Forest& f, const Array<char>& codes, int n_rows) {
  const Array<char> shuffled = reversed_codes(f, codes, n_rows);
  std::vector<double> out(index(padded(n_rows) * (f.n_players + int64_t{1}) * f.n_outputs));
  for (int row = 0; row < n_rows; ++row)
    for (int tree = 0; tree < f.n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      const auto leaf = [&](int group) {
        int32_t next = 0;
        while (next < t.n_splits) {
          const Split& s = t.splits[next];
          const char* from = s.player == group ? shuffled.data() : codes.data();
          next = goes_right(f, s, from, row) ? s.right : s.left;
        }
        return f.leaf_value + (t.first_leaf + next - t.n_splits) * f.width;
      };
      const double* own = leaf(-1);
      for (int group = 0; group <= f.n_players; ++group)
        for (int k = 0; k < f.width; ++k) {
          const int64_t place = (row / kBlock * (f.n_players + int64_t{1}) + group) * f.n_outputs + f.tree_output[tree];
          const double value = group < f.n_players ? leaf(group)[k] - own[k] : own[k];
          out[index((place + k) * kBlock + row % kBlock)] += value;
        }
    }
  return out;
}
}  // namespace oracle
}  // namespace treeinner
