// The crowns of the trees and the forks below them (forest.h). Made once per model; plain C++, no vector code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "forest.h"

namespace treeinner {

struct Crowns {
  std::vector<Crown> of_tree;
  std::vector<int32_t> plane_player;
  size_t n_exits = 0;  // of all trees
  // Of large trees:
  std::vector<Split> splits;
  std::vector<int32_t> below;
  std::vector<Fork> forks;
  std::vector<int32_t> fork_split;  // by fork: which split of its tree it is
};

// Cuts a large tree in two and appends the parts.
class CrownCutter {
 public:
  CrownCutter(const Split* splits, int32_t n_splits, Crowns& out)
      : splits_(splits), n_splits_(n_splits), out_(out), in_crown_(index(n_splits)), number_(index(n_splits)) {}

  void cut() {
    choose();
    number();
    for (int32_t i = 0; i < n_splits_; ++i) {
      const Split& s = splits_[i];
      if (in_crown_[index(i)]) {
        out_.splits.push_back(s);
        Split& copy = out_.splits.back();
        copy.first_leaf = exit_at(s.first_leaf);
        copy.right_leaf = exit_at(s.right_leaf);
        copy.left = is_crown(s.left) ? number_[index(s.left)] : kExits - 1 + copy.first_leaf;
        copy.right = is_crown(s.right) ? number_[index(s.right)] : kExits - 1 + copy.right_leaf;
      } else {
        out_.forks[first_fork_ + index(number_[index(i)])] = {
            s.plane, s.set < 0 ? s.cut : ~s.set, {fork_or_leaf(s.left), fork_or_leaf(s.right)}};
      }
    }
  }

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  bool is_crown(int32_t node) const { return node < n_splits_ && in_crown_[index(node)]; }
  int32_t fork_or_leaf(int32_t node) const { return node < n_splits_ ? number_[index(node)] : n_splits_ + ~node; }
  int32_t first_leaf(int32_t node) const { return node < n_splits_ ? splits_[node].first_leaf : node - n_splits_; }
  int32_t exit_at(int32_t leaf) const {
    return static_cast<int32_t>(std::lower_bound(exit_leaf_.begin(), exit_leaf_.end(), leaf) - exit_leaf_.begin());
  }

  // The splits nearest to the root, so many that there are kExits exits.
  void choose() {
    std::vector<int32_t> chosen{0};
    for (size_t next = 0; next < chosen.size(); ++next)
      for (const int32_t child : {splits_[chosen[next]].left, splits_[chosen[next]].right})
        if (child < n_splits_ && chosen.size() < kExits - 1) chosen.push_back(child);
    for (const int32_t split : chosen) in_crown_[index(split)] = true;
  }

  // Both parts keep the order of the tree, so that the forks below an exit are neighbours.
  void number() {
    int32_t n_crown = 0;
    first_fork_ = out_.forks.size();
    std::vector<int32_t> exits;
    for (int32_t i = 0; i < n_splits_; ++i) {
      if (in_crown_[index(i)]) {
        number_[index(i)] = n_crown++;
        for (const int32_t child : {splits_[i].left, splits_[i].right})
          if (!is_crown(child)) exits.push_back(child);
      } else {
        number_[index(i)] = static_cast<int32_t>(out_.fork_split.size() - first_fork_);
        out_.fork_split.push_back(i);
      }
    }
    out_.forks.resize(out_.fork_split.size());
    std::sort(exits.begin(), exits.end(), [&](int32_t a, int32_t b) { return first_leaf(a) < first_leaf(b); });
    for (const int32_t node : exits) {
      exit_leaf_.push_back(first_leaf(node));
      out_.below.push_back(fork_or_leaf(node));
    }
  }

  const Split* splits_;
  const int32_t n_splits_;
  Crowns& out_;
  size_t first_fork_ = 0;
  std::vector<bool> in_crown_;
  std::vector<int32_t> number_;     // by split: in its part
  std::vector<int32_t> exit_leaf_;  // first leaf below each exit
};

inline Crowns crowns_of(const Forest& f) {
  Crowns out;
  out.plane_player.resize(static_cast<size_t>(f.n_planes));
  for (int64_t i = 0; i < f.first_split[f.n_trees]; ++i)
    out.plane_player[static_cast<size_t>(f.splits[i].plane)] = f.splits[i].player;
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Split* splits = f.splits + f.first_split[tree];
    const int32_t n_splits = static_cast<int32_t>(f.first_split[tree + 1] - f.first_split[tree]);
    const bool small = n_splits < kExits;
    const int32_t n_exits = small ? n_splits + 1 : kExits;
    out.of_tree.push_back({small ? splits : nullptr, nullptr, nullptr, n_exits - 1, n_exits,
                           static_cast<int64_t>(out.n_exits), static_cast<int64_t>(out.forks.size())});
    out.n_exits += static_cast<size_t>(n_exits);
    if (!small) CrownCutter(splits, n_splits, out).cut();
  }
  // Now that the arrays stay where they are.
  const Split* splits = out.splits.data();
  const int32_t* below = out.below.data();
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    if (f.first_leaf[tree + 1] - f.first_leaf[tree] <= kExits) continue;
    Crown& crown = out.of_tree[static_cast<size_t>(tree)];
    crown.splits = splits;
    crown.below = below;
    crown.forks = out.forks.data() + crown.first_fork;
    splits += kExits - 1;
    below += kExits;
  }
  return out;
}

// By place in the crown, its splits and then its exits: the number of that node in the tree.
inline std::vector<int32_t> nodes_of_crown(const Forest& f, int32_t tree) {
  const Crown& crown = f.crowns[tree];
  const Split* splits = f.splits + f.first_split[tree];
  std::vector<int32_t> node(static_cast<size_t>(crown.n_splits + crown.n_exits), 0);
  for (int32_t i = 0; i < crown.n_splits; ++i) {
    const Split& s = splits[node[static_cast<size_t>(i)]];
    node[static_cast<size_t>(crown.splits[i].left)] = s.left;
    node[static_cast<size_t>(crown.splits[i].right)] = s.right;
  }
  return node;
}

// The forks with what their ways are worth behind each (PathTable in forest.h). node_value: (nodes, width), each tree's
// in the order of their numbers. out: as many bytes as that takes.
inline void forks_with_steps(const Forest& f, const Crowns& crowns, const double* node_value, char* out) {
  const size_t n_steps = 2 * static_cast<size_t>(f.width);
  std::vector<double> steps(n_steps);
  int32_t tree = -1;
  for (size_t i = 0; i < crowns.forks.size(); ++i, out += fork_stride(f.width)) {
    while (tree + 1 < f.n_trees && crowns.of_tree[static_cast<size_t>(tree) + 1].first_fork <= static_cast<int64_t>(i))
      ++tree;
    const double* value = node_value + (f.first_split[tree] + f.first_leaf[tree]) * f.width;
    const int64_t node = crowns.fork_split[i], width = f.width;
    const Split& s = f.splits[f.first_split[tree] + node];
    for (int64_t k = 0; k < width; ++k) {
      steps[static_cast<size_t>(k)] = value[s.left * width + k] - value[node * width + k];
      steps[static_cast<size_t>(width + k)] = value[s.right * width + k] - value[node * width + k];
    }
    std::memcpy(out, &crowns.forks[i], sizeof(Fork));
    std::memcpy(out + sizeof(Fork), steps.data(), n_steps * sizeof(double));
  }
}

}  // namespace treeinner
