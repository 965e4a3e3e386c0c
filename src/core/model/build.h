// The arrays of Trees -> a Forest: nodes in the order in which the kernels walk, and the tops of large trees.
// Runs once per model; plain C++, no vector code.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "aligned.h"

namespace treeinner {
struct EnsembleNode {
  int32_t left, right;      // counted over all trees; -1 at leaves
  int32_t plane, cut, set;  // as in Split
  int32_t player;
};

// Borrowed: those of Trees (treeinner/read/trees.py), and those of the plan of planes in treeinner/kernels/binning.py.
// Nodes of all trees one after the other, in any order within their tree, the root first.
struct EnsembleArrays : ForestShape {
  const int64_t* tree_start;   // (n_trees + 1,)
  const int32_t* tree_output;  // (n_trees,)
  const EnsembleNode* nodes;
  const double* value;  // (n_nodes, width)
  const uint64_t* sets;
  size_t n_set_words;
};

// What the top of a large tree consists of.
struct TopArrays {
  std::vector<Split> splits;
  std::vector<int32_t> below, number;
  std::vector<DeepSplit> deep;
  std::vector<int32_t> deep_number;  // of each deep split, in its tree
};

// Cuts a large tree into its top, the splits nearest to the root, and its deep splits. Both keep the order of the tree,
// so that the deep splits below a frontier node are neighbours.
inline TopArrays cut_top(const Tree& t) {
  TopArrays to;
  std::vector<bool> in_top(index(t.n_splits));
  std::vector<int32_t> chosen{0}, number(index(t.n_splits)), frontier, frontier_leaf;
  const auto is_top = [&](int32_t node) { return node < t.n_splits && in_top[index(node)]; };
  const auto deep_or_leaf = [&](int32_t node) { return node < t.n_splits ? number[index(node)] : t.n_splits + ~node; };
  const auto first_leaf = [&](int32_t i) { return i < t.n_splits ? t.splits[i].first_leaf : i - t.n_splits; };
  for (size_t next = 0; next < chosen.size(); ++next) {
    in_top[index(chosen[next])] = true;
    for (const int32_t child : {t.splits[chosen[next]].left, t.splits[chosen[next]].right})
      if (child < t.n_splits && chosen.size() < kFrontier - 1) chosen.push_back(child);
  }
  int32_t n_top = 0, n_deep = 0;
  for (int32_t i = 0; i < t.n_splits; ++i) {
    number[index(i)] = is_top(i) ? n_top++ : n_deep++;
    (is_top(i) ? to.number : to.deep_number).push_back(i);
    for (const int32_t child : {t.splits[i].left, t.splits[i].right})
      if (is_top(i) && !is_top(child)) frontier.push_back(child);
  }
  std::sort(frontier.begin(), frontier.end(), [&](int32_t a, int32_t b) { return first_leaf(a) < first_leaf(b); });
  for (const int32_t node : frontier) {
    frontier_leaf.push_back(first_leaf(node));
    to.below.push_back(deep_or_leaf(node));
    to.number.push_back(node);
  }
  const auto frontier_at = [&](int32_t leaf) {
    const auto at = std::lower_bound(frontier_leaf.begin(), frontier_leaf.end(), leaf);
    return static_cast<int32_t>(at - frontier_leaf.begin());
  };
  for (int32_t i = 0; i < t.n_splits; ++i) {
    Split s = t.splits[i];
    if (!is_top(i)) {
      to.deep.push_back({s.plane, s.set < 0 ? s.cut : ~s.set, {deep_or_leaf(s.left), deep_or_leaf(s.right)}});
      continue;
    }
    s.first_leaf = frontier_at(s.first_leaf), s.right_leaf = frontier_at(s.right_leaf);
    s.left = is_top(s.left) ? number[index(s.left)] : kFrontier - 1 + s.first_leaf;
    s.right = is_top(s.right) ? number[index(s.right)] : kFrontier - 1 + s.right_leaf;
    to.splits.push_back(s);
  }
  return to;
}

// Owns what a Forest borrows. Never changed after it was built, so any number of threads may use it.
class BuiltForest {
 public:
  explicit BuiltForest(const EnsembleArrays& e) : sets_(e.sets, e.sets + e.n_set_words) {
    tree_output_.assign(e.tree_output, e.tree_output + e.n_trees);
    for (int32_t tree = 0; tree < e.n_trees; ++tree) {
      const int32_t output = tree_output_[index(tree)];
      if (output < 0 || output > e.n_outputs - e.width) throw std::invalid_argument("a tree's output is out of range");
      number_tree(e, tree);
    }
    plane_player_.resize(index(e.n_planes));
    for (const Split& s : splits_) plane_player_[s.plane] = s.player;
    forest_ = {e,
               max_splits_,
               max_depth_,
               splits_.data(),
               first_split_.data(),
               first_leaf_.data(),
               tree_output_.data(),
               leaf_value_.data(),
               sets_.data(),
               tops_.data(),
               plane_player_.data(),
               kRun};
    cut_tops();
  }
  BuiltForest(const BuiltForest&) = delete;

  const Forest& view() const { return forest_; }
  // (nodes,)  of the Trees, by number: each tree's splits in pre-order, then its leaves.
  std::vector<int32_t> numbered;
  std::vector<TopArrays> tops;  // (trees,)  empty for a small tree

 private:
  // Appends a tree, its nodes in pre-order, left child first.
  void number_tree(const EnsembleArrays& e, int32_t tree) {
    const int64_t start = e.tree_start[tree], stop = e.tree_start[tree + 1];
    std::vector<std::pair<int32_t, int32_t>> todo{{static_cast<int32_t>(start), 0}};  // node, depth
    std::vector<int32_t> number(index(stop - start)), leaves_before(index(stop - start)), splits, leaves;
    while (!todo.empty()) {
      const auto [node, level] = todo.back();
      todo.pop_back();
      if (node < start || node >= stop || static_cast<int64_t>(splits.size() + leaves.size()) >= stop - start)
        throw std::invalid_argument("a child is outside its tree, or has two parents");
      const EnsembleNode& here = e.nodes[node];
      const bool leaf = here.left < 0;
      number[index(node - start)] = static_cast<int32_t>(leaf ? leaves.size() : splits.size());
      leaves_before[index(node - start)] = static_cast<int32_t>(leaves.size());
      (leaf ? leaves : splits).push_back(node);
      max_depth_ = std::max(max_depth_, level);
      if (leaf) continue;
      todo.push_back({here.right, level + 1});
      todo.push_back({here.left, level + 1});
    }
    if (static_cast<int64_t>(splits.size() + leaves.size()) != stop - start)
      throw std::invalid_argument("a node is not reached from the root of its tree");
    const int32_t n_splits = static_cast<int32_t>(splits.size());
    max_splits_ = std::max(max_splits_, n_splits);
    for (const int32_t node : splits) {
      const EnsembleNode& s = e.nodes[node];
      const auto child = [&](int32_t i) { return number[index(i - start)] + (e.nodes[i].left < 0 ? n_splits : 0); };
      if (s.plane < 0 || s.plane >= e.n_planes || s.player < 0 || s.player >= e.n_players)
        throw std::invalid_argument("a split's plane or player is out of range");
      splits_.push_back({static_cast<uint32_t>(s.plane), s.cut, s.set, child(s.left), child(s.right), s.player,
                         leaves_before[index(node - start)], leaves_before[index(s.right - start)]});
    }
    for (const int32_t node : leaves) {
      const double* value = e.value + static_cast<int64_t>(node) * e.width;
      leaf_value_.insert(leaf_value_.end(), value, value + e.width);
    }
    numbered.insert(numbered.end(), splits.begin(), splits.end());
    numbered.insert(numbered.end(), leaves.begin(), leaves.end());
    first_split_.push_back(static_cast<int64_t>(splits_.size()));
    first_leaf_.push_back(static_cast<int64_t>(leaf_value_.size()) / e.width);
  }

  void cut_tops() {
    int64_t first_frontier = 0, first_deep = 0;
    for (int32_t tree = 0; tree < forest_.n_trees; ++tree) {
      const Tree t = tree_of(forest_, tree);
      const bool large = t.n_splits >= kFrontier;
      const TopArrays& a = tops.emplace_back(large ? cut_top(t) : TopArrays{});  // its arrays stay where they are
      Top top{t.splits, nullptr, nullptr, nullptr, t.n_splits, t.n_splits + 1, first_frontier, first_deep};
      if (large)
        top = {a.splits.data(), a.number.data(), a.below.data(), a.deep.data(),
               kFrontier - 1,   kFrontier,       first_frontier, first_deep};
      tops_.push_back(top);
      first_frontier += top.n_frontier;
      first_deep += static_cast<int64_t>(a.deep.size());
    }
    forest_.tops = tops_.data();
    if (first_deep) forest_.strip = kStrip;
  }

  std::vector<int64_t> first_split_{0}, first_leaf_{0};
  std::vector<int32_t> tree_output_, plane_player_;
  std::vector<Split> splits_;
  std::vector<double> leaf_value_;
  std::vector<uint64_t> sets_;
  std::vector<Top> tops_;
  int32_t max_splits_ = 0, max_depth_ = 0;
  Forest forest_{};
};

}  // namespace treeinner
