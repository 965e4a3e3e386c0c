// Node values -> a PathTable: what the way through a tree gives each player. Runs once per array of values; plain C++.
#pragma once

#include <cstring>

#include "build.h"
#include "tables.h"

namespace treeinner {
// What a step from a node to its child adds: the difference of their values, or a part of a share (share_table.h): of
// kOwnLevel less half of the square of all steps of a player, in trees without a top.
enum class Step { kValue, kLevel, kOwnLevel, kLeaf };

// Owns what a PathTable borrows (tables.h). value: (nodes, width), each tree's in the order of their numbers; residual:
// likewise, for parts of shares.
class PathArrays {
 public:
  PathArrays(const BuiltForest& built, const double* value, Step kind = Step::kValue, const double* residual = nullptr)
      : f_(built.view()), kind_(kind), value_(value), residual_(residual) {
    for (int32_t tree = 0; tree < f_.n_trees; ++tree) add_deep(tree, built.tops[index(tree)]), add_tree(tree);
  }

  PathTable view() const {
    return {deep.data(),
            entries.data(),
            first_record.data(),
            records.data(),
            first_entry.data(),
            player.data(),
            step.data(),
            nullptr,
            nullptr,
            nullptr,
            nullptr};
  }

  const Forest& forest() const { return f_; }

  AlignedVector<char> deep;
  std::vector<int64_t> first_entry{0}, first_record;
  std::vector<int32_t> entries, player;
  std::vector<double> step;
  AlignedVector<double> records;

 private:
  double value_of(int32_t tree, int64_t node, size_t k) const {
    return value_[(tree_of(f_, tree).first_node + node) * f_.width + static_cast<int64_t>(k)];
  }

  // Of output k; leaf: the leaf that the path ends in, where that is known, else -1.
  double step_of(int32_t tree, int64_t from, int64_t to, int64_t leaf, size_t k) const {
    const int64_t first = tree_of(f_, tree).first_node, width = f_.width, at = static_cast<int64_t>(k);
    const auto of = [&](const double* values, int64_t node) { return values[(first + node) * width + at]; };
    const double* v = kind_ == Step::kLeaf ? residual_ : value_;
    if (kind_ == Step::kValue || kind_ == Step::kLeaf) return of(v, to) - of(v, from);
    if (leaf < 0) return of(v, from) * of(residual_, from) - of(v, to) * of(residual_, to);
    return (of(residual_, to) - of(residual_, from)) * (of(v, leaf) - of(v, to)) -
           (of(v, to) - of(v, from)) * of(residual_, from);
  }

  void add_deep(int32_t tree, const TopArrays& top) {
    const size_t width = index(f_.width), stride = index(deep_stride(f_.width)), begin = deep.size();
    deep.resize(begin + top.deep.size() * stride);
    std::vector<double> steps(2 * width);
    for (size_t i = 0; i < top.deep.size(); ++i) {
      const int32_t node = top.deep_number[i];
      const Split& s = tree_of(f_, tree).splits[node];
      for (size_t k = 0; k < width; ++k) {
        steps[k] = step_of(tree, node, s.left, -1, k);
        steps[width + k] = step_of(tree, node, s.right, -1, k);
      }
      char* to = deep.data() + begin + i * stride;
      std::memcpy(to, &top.deep[i], sizeof(DeepSplit));
      std::memcpy(to + sizeof(DeepSplit), steps.data(), steps.size() * sizeof(double));
    }
  }

  void add_tree(int32_t tree) {
    const Top& top = f_.tops[tree];
    const auto node_at = [&](int32_t place) { return top.number ? top.number[place] : place; };
    const bool to_leaves = !top.below, left_out = kind_ == Step::kLeaf && to_leaves;  // the level has it all
    std::vector<int32_t> parent(index(top.n_splits + top.n_frontier), -1), way, players;
    std::vector<double> steps, moved;
    const size_t width = index(f_.width);
    for (int32_t i = 0; i < top.n_splits; ++i)
      parent[index(top.splits[i].left)] = parent[index(top.splits[i].right)] = i;
    const size_t tree_begin = player.size(), first_frontier = first_entry.size();
    size_t longest = 0;
    for (int32_t node = 0; node < top.n_frontier; ++node) {
      players.clear(), steps.clear(), moved.clear(), way.clear();
      const int32_t end = top.n_splits + node;
      for (int32_t place = end; place >= 0 && !left_out; place = parent[index(place)]) way.push_back(place);
      // From the root down, as a row goes: below a top the next steps are added one by one.
      for (size_t i = way.size(); i-- > 1;) {
        const int32_t above = way[i], place = way[i - 1];
        const size_t at = index(std::find(players.begin(), players.end(), top.splits[above].player) - players.begin());
        if (at == players.size()) {
          players.push_back(top.splits[above].player);
          steps.resize(steps.size() + width), moved.resize(steps.size());
        }
        for (size_t k = 0; k < width; ++k) {
          steps[at * width + k] += step_of(tree, node_at(above), node_at(place), to_leaves ? node_at(end) : -1, k);
          if (kind_ == Step::kOwnLevel)
            moved[at * width + k] += value_of(tree, node_at(place), k) - value_of(tree, node_at(above), k);
        }
      }
      for (size_t i = 0; kind_ == Step::kOwnLevel && i < steps.size(); ++i) steps[i] -= 0.5 * moved[i] * moved[i];
      player.insert(player.end(), players.begin(), players.end());
      step.insert(step.end(), steps.begin(), steps.end());
      first_entry.push_back(static_cast<int64_t>(player.size()));
      longest = std::max(longest, players.size());
    }
    const bool has_records =
        kind_ != Step::kLeaf && width == 1 && longest > 0 && longest <= kRecord && f_.n_players <= 1 << 16;
    records.resize((records.size() + 7) / 8 * 8);
    first_record.push_back(static_cast<int64_t>(records.size()));
    entries.push_back(has_records ? static_cast<int32_t>(longest) : 0);
    if (has_records) make_records(top, first_frontier, tree_begin, longest);
  }

  // Records in place of a tree's entries, from `begin` on: steps of 0 cost less than a loop whose length no processor
  // can foresee.
  void make_records(const Top& top, size_t first_frontier, size_t begin, size_t longest) {
    const size_t stride = index(record_stride(static_cast<int>(longest)));
    std::vector<int32_t> players;  // of the tree
    for (int32_t i = 0; i < top.n_splits; ++i) players.push_back(top.splits[i].player);
    std::sort(players.begin(), players.end());
    players.erase(std::unique(players.begin(), players.end()), players.end());
    size_t from = begin;
    for (size_t node = first_frontier; node < first_entry.size(); ++node) {
      const size_t count = index(first_entry[node]) - from, at = records.size();
      records.resize(at + stride);
      // Steps of 0 go to players that are not on the path: the players of a record differ.
      const auto own = player.begin() + static_cast<int64_t>(from), own_end = own + static_cast<int64_t>(count);
      auto idle = players.begin();
      for (size_t i = 0; i < longest; ++i) {
        while (i >= count && std::find(own, own_end, *idle) != own_end) ++idle;
        const uint16_t who = static_cast<uint16_t>(i < count ? player[from + i] : *idle++);
        records[at + i] = i < count ? step[from + i] : 0.0;
        std::memcpy(reinterpret_cast<char*>(records.data() + at + longest) + i * sizeof who, &who, sizeof who);
      }
      from += count;
      first_entry[node] = static_cast<int64_t>(begin);
    }
    player.resize(begin);
    step.resize(begin);
  }

  const Forest& f_;
  const Step kind_;
  const double *value_, *residual_;
};
}  // namespace treeinner
