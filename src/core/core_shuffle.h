// Shuffled columns as Python holds them: which columns are shuffled together, their codes in another order of the rows,
// and what that does to the margins (permute.h).
#pragma once

#include "core_forest.h"

namespace treeinner {

class CoreShuffle {
 public:
  // group_of_column: 0..n_groups - 1; columns that no tree uses are not looked at.
  CoreShuffle(const CoreForest& core, In<int32_t> group_of_column, int n_groups)
      : forest_(core.forest()), n_groups_(n_groups) {
    require(group_of_column.size() == core.n_columns(), "one group per column");
    nodes_.resize(static_cast<size_t>(forest_.first_split[forest_.n_trees] + forest_.first_leaf[forest_.n_trees]),
                  ShuffleNode{0, 0, -1, {0, 0}, -1, -1, 0});
    for (int32_t tree = 0; tree < forest_.n_trees; ++tree) {
      ShuffleNode* nodes = nodes_.data() + forest_.first_split[tree] + forest_.first_leaf[tree];
      const int32_t n = static_cast<int32_t>(forest_.first_split[tree + 1] - forest_.first_split[tree]);
      for (int32_t i = 0; i < n; ++i) {
        const Split& s = forest_.splits[forest_.first_split[tree] + i];
        const int32_t group = group_of_column.data()[core.planes()[s.plane].column];
        require(group >= 0 && group < n_groups, "a column in use has no group");
        nodes[i] = {static_cast<uint32_t>(s.plane * 2 * kBlock), s.cut, s.set, {s.left - i, s.right - i}, group, -1, 0};
        has_sets_ = has_sets_ || s.set >= 0;
      }
      link(nodes, n);
    }
  }

  // Codes of rows order[0], order[1], ... of a table whose codes come in parts of `step` rows.
  std::unique_ptr<Codes> gather(const std::vector<const Codes*>& parts, int64_t step, In<int64_t> order) const {
    const int64_t n = static_cast<int64_t>(order.size()), block_bytes = forest_.n_planes * kBlock * forest_.code_bytes;
    require(step > 0 && !parts.empty(), "there are no codes");
    for (size_t p = 0; p < parts.size(); ++p) {
      require(p + 1 == parts.size() ? parts[p]->n_rows <= step : parts[p]->n_rows == step, "parts of `step` rows");
      require(static_cast<int64_t>(parts[p]->data.size()) >= blocks_of(parts[p]->n_rows) * block_bytes,
              "codes of another forest");
    }
    const int64_t n_rows = step * (static_cast<int64_t>(parts.size()) - 1) + parts.back()->n_rows;
    const int64_t* rows = order.data();
    for (int64_t r = 0; r < n; ++r) require(rows[r] >= 0 && rows[r] < n_rows, "no such row");
    auto codes = std::unique_ptr<Codes>(new Codes{n, Buffer(static_cast<size_t>(blocks_of(n) * block_bytes))});
    nb::gil_scoped_release release;
    std::memset(codes->data.get(), 0, codes->data.size());
    if (forest_.code_bytes == 1)
      gather_codes(parts, step, rows, n, static_cast<uint8_t*>(codes->data.get()));
    else
      gather_codes(parts, step, rows, n, static_cast<uint16_t*>(codes->data.get()));
    return codes;
  }

  // change: [block][group][output][64], added to; one group more than there are, for the margins as they are.
  void changes(const Codes& own, const Codes& shuffled, Out<double, 4> change) const {
    const int64_t bytes = blocks_of(own.n_rows) * forest_.n_planes * kBlock * forest_.code_bytes;
    require(own.n_rows == shuffled.n_rows && static_cast<int64_t>(own.data.size()) >= bytes &&
                static_cast<int64_t>(shuffled.data.size()) >= bytes,
            "codes of the same rows of this forest");
    require(static_cast<int64_t>(change.shape(0)) == blocks_of(own.n_rows) &&
                static_cast<int64_t>(change.shape(1)) == n_groups_ + 1 &&
                static_cast<int32_t>(change.shape(2)) == forest_.n_outputs && change.shape(3) == kBlock,
            "changes are [block][groups + 1][output][64]");
    double* to = change.data();
    nb::gil_scoped_release release;
    const size_t room = static_cast<size_t>(kBlock) * (static_cast<size_t>(forest_.max_depth) + 1);
    Buffer pairs(static_cast<size_t>(2 * forest_.n_planes * kBlock * forest_.code_bytes));
    Buffer gone(8 * (static_cast<size_t>(forest_.max_splits) + 1)), strays(8 * room);
    const ShuffleScratch scratch{pairs.get(), static_cast<uint64_t*>(gone.get()), static_cast<uint64_t*>(strays.get())};
    active->shuffle(forest_, nodes_.data(), n_groups_, has_sets_, own.data.get(), shuffled.data.get(), own.n_rows,
                    scratch, to);
  }

 private:
  template <class Code>
  void gather_codes(const std::vector<const Codes*>& parts, int64_t step, const int64_t* rows, int64_t n,
                    Code* to) const {
    const int64_t block_codes = forest_.n_planes * kBlock;
    const Code* from[kBlock];
    for (int64_t row = 0; row < n; row += kBlock, to += block_codes) {
      const int64_t here = std::min(kBlock, n - row);
      for (int64_t r = 0; r < here; ++r) {
        const int64_t at = rows[row + r] % step;
        from[r] = static_cast<const Code*>(parts[static_cast<size_t>(rows[row + r] / step)]->data.get()) +
                  at / kBlock * block_codes + at % kBlock;
      }
      for (int64_t place = 0; place < block_codes; place += kBlock)
        for (int64_t r = 0; r < here; ++r) to[place + r] = from[r][place];
    }
  }

  // The nearest split above on the same group, for every split of a tree: parents come before their children.
  static void link(ShuffleNode* nodes, int32_t n) {
    std::vector<int32_t> parent(static_cast<size_t>(n), -1);
    for (int32_t i = 0; i < n; ++i) {
      for (const int32_t step : nodes[i].step)
        if (i + step < n) parent[static_cast<size_t>(i + step)] = i;
      int32_t above = parent[static_cast<size_t>(i)];
      while (above >= 0 && nodes[above].group != nodes[i].group) above = parent[static_cast<size_t>(above)];
      nodes[i].above = above;
    }
  }

  const Forest& forest_;
  int32_t n_groups_;
  bool has_sets_ = false;
  std::vector<ShuffleNode> nodes_;
};

}  // namespace treeinner
