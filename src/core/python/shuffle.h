// Shuffled columns as Python holds them: which columns are shuffled together, their codes in another order of the rows,
// and what that does to the margins (kernels/permute.h).
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
      for (int32_t i = 0; i < t.n_splits; ++i) {
        const Split& s = t.splits[i];
        const int32_t group = group_of_column.data()[forest.planes()[s.plane].column];
        require(group >= 0 && group < n_groups, "a column in use has no group");
        nodes[i] = {static_cast<uint32_t>(s.plane * 2 * kBlock), s.cut, s.set, {s.left - i, s.right - i}, group, -1, 0};
        has_sets_ = has_sets_ || s.set >= 0;
      }
      link(nodes, t.n_splits);
    }
  }

  // Codes of rows order[0], order[1], ... of a table whose codes come in parts of `step` rows.
  std::unique_ptr<Codes> gather(const std::vector<const Codes*>& parts, int64_t step, In<int64_t> order) const {
    require(step > 0 && !parts.empty(), "there are no codes");
    std::vector<const void*> codes_of_parts;
    for (size_t p = 0; p < parts.size(); ++p) {
      require(p + 1 == parts.size() ? parts[p]->n_rows <= step : parts[p]->n_rows == step, "parts of `step` rows");
      codes_of_parts.push_back(forest_.job(*parts[p]).codes);
    }
    const int64_t n_rows = step * (static_cast<int64_t>(parts.size()) - 1) + parts.back()->n_rows;
    for (size_t r = 0; r < order.size(); ++r) require(order.data()[r] >= 0 && order.data()[r] < n_rows, "no such row");
    auto codes = forest_.new_codes(static_cast<int64_t>(order.size()));
    std::memset(codes->data.get(), 0, codes->data.size());
    run(&Kernels::gather, forest_.job(*codes),
        GatherArgs{codes_of_parts.data(), step, order.data(), codes->data.get()});
    return codes;
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
  // The nearest split above on the same group, for every split of a tree: parents come before their children.
  static void link(PermuteNode* nodes, int32_t n) {
    std::vector<int32_t> parent(index(n), -1);
    for (int32_t i = 0; i < n; ++i) {
      for (const int32_t step : nodes[i].step)
        if (i + step < n) parent[index(i + step)] = i;
      int32_t above = parent[index(i)];
      while (above >= 0 && nodes[above].group != nodes[i].group) above = parent[index(above)];
      nodes[i].above = above;
    }
  }

  const CoreForest& forest_;
  int32_t n_groups_;
  bool has_sets_ = false;
  std::vector<PermuteNode> nodes_;
};
}  // namespace treeinner
