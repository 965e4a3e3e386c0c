// Shuffled columns as Python holds them: which columns are shuffled together, and what that does to the margins
// (kernels/permute.h).
#pragma once

#include "forest.h"

namespace treeinner {
class CoreShuffle {
 public:
  // group_of_column: 0..n_groups - 1; columns that no tree uses are not looked at.
  CoreShuffle(const CoreForest& forest, In<int32_t> group_of_column, int n_groups)
      : forest_(forest), n_groups_(n_groups) {
    const Forest& f = forest.view();
    require(group_of_column.size() == forest.n_columns(), "one group per column");
    nodes_.resize(index(n_nodes(f)), PermuteNode{0, 0, -1, {0, 0}, -1, -1, 0});
    for (int32_t tree = 0; tree < f.n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      PermuteNode* nodes = nodes_.data() + t.first_node;
      std::vector<int32_t> parent(index(2 * t.n_splits + 1), -1);
      for (int32_t i = 0; i < t.n_splits; ++i) {
        const Split& s = t.splits[i];
        const int32_t group = group_of_column.data()[forest.planes()[s.plane].column];
        require(group >= 0 && group < n_groups, "a column in use has no group");
        parent[index(s.left)] = parent[index(s.right)] = i;  // before its children
        int32_t above = parent[index(i)];
        while (above >= 0 && nodes[above].group != group) above = parent[index(above)];
        const uint32_t place = s.plane * 2 * kBlock;
        nodes[i] = {place, s.cut, s.set, {s.left - i, s.right - i}, group, above, 0};
        has_sets_ = has_sets_ || s.set >= 0;
      }
    }
  }

  // change: [block][group][output][64], added to; one group more than there are, for the margins as they are.
  void changes(const Codes& own, const Codes& shuffled, Out<double, 4> change) const {
    require(own.n_rows == shuffled.n_rows, "codes of the same rows of this forest");
    require(has_shape(change, n_blocks(own.n_rows), n_groups_ + 1, forest_.view().n_outputs, kBlock),
            "changes are [block][groups + 1][output][64]");
    run(&Kernels::permute, forest_.job(own),
        PermuteArgs{nodes_.data(), n_groups_, has_sets_, forest_.job(shuffled).codes, change.data()});
  }

 private:
  const CoreForest& forest_;
  int32_t n_groups_;
  bool has_sets_ = false;
  std::vector<PermuteNode> nodes_;
};
}  // namespace treeinner
