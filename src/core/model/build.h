// The arrays of an Ensemble -> a Forest: nodes in the order in which the kernels walk, and the tops of large trees.
// Runs once per model; plain C++, no vector code.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "aligned.h"

namespace treeinner {
// Borrowed: those of treeinner/ensemble, and those of the plan of planes in treeinner/compiled/binning.py. Nodes of all
// trees one after the other, in any order within their tree, the root first.
struct EnsembleArrays : ForestShape {
  const int64_t* tree_start;         // (n_trees + 1,)
  const int32_t* tree_output;        // (n_trees,)
  const int32_t *left, *right;       // (n_nodes,)  counted over all trees; -1 at leaves
  const double* value;               // (n_nodes, width)
  const int32_t* leaf_id;            // (n_nodes,)
  const int32_t *plane, *cut, *set;  // (n_nodes,)  as in Split
  const int32_t* player;             // (n_nodes,)
  const uint64_t* sets;
  size_t n_set_words;
};

// Cuts a large tree into its top and its deep splits, and appends both.
class TopCutter {
 public:
  TopCutter(const Tree& tree, std::vector<Split>& splits, std::vector<int32_t>& below, std::vector<DeepSplit>& deep,
            std::vector<int32_t>& deep_number)
      : splits_(tree.splits), n_splits_(tree.n_splits), in_top_(index(n_splits_)), number_(index(n_splits_)) {
    choose();
    number(below, deep_number);
    for (int32_t i = 0; i < n_splits_; ++i) {
      const Split& s = splits_[i];
      if (in_top_[index(i)]) {
        Split copy = s;
        copy.first_leaf = frontier_at(s.first_leaf);
        copy.right_leaf = frontier_at(s.right_leaf);
        copy.left = is_top(s.left) ? number_[index(s.left)] : kFrontier - 1 + copy.first_leaf;
        copy.right = is_top(s.right) ? number_[index(s.right)] : kFrontier - 1 + copy.right_leaf;
        splits.push_back(copy);
      } else {  // in the order of their numbers
        deep.push_back({s.plane, s.set < 0 ? s.cut : ~s.set, {deep_or_leaf(s.left), deep_or_leaf(s.right)}});
      }
    }
  }

 private:
  bool is_top(int32_t node) const { return node < n_splits_ && in_top_[index(node)]; }
  int32_t deep_or_leaf(int32_t node) const { return node < n_splits_ ? number_[index(node)] : n_splits_ + ~node; }
  int32_t first_leaf(int32_t node) const { return node < n_splits_ ? splits_[node].first_leaf : node - n_splits_; }
  int32_t frontier_at(int32_t leaf) const {
    const auto at = std::lower_bound(frontier_leaf_.begin(), frontier_leaf_.end(), leaf);
    return static_cast<int32_t>(at - frontier_leaf_.begin());
  }

  // The splits nearest to the root, as many as have kFrontier nodes below them.
  void choose() {
    std::vector<int32_t> chosen{0};
    for (size_t next = 0; next < chosen.size(); ++next)
      for (const int32_t child : {splits_[chosen[next]].left, splits_[chosen[next]].right})
        if (child < n_splits_ && chosen.size() < kFrontier - 1) chosen.push_back(child);
    for (const int32_t split : chosen) in_top_[index(split)] = true;
  }

  // Both parts keep the order of the tree, so that the deep splits below a frontier node are neighbours.
  void number(std::vector<int32_t>& below, std::vector<int32_t>& deep_number) {
    int32_t n_top = 0, n_deep = 0;
    std::vector<int32_t> frontier;
    for (int32_t i = 0; i < n_splits_; ++i) {
      number_[index(i)] = in_top_[index(i)] ? n_top++ : n_deep++;
      if (!in_top_[index(i)]) deep_number.push_back(i);
      for (const int32_t child : {splits_[i].left, splits_[i].right})
        if (in_top_[index(i)] && !is_top(child)) frontier.push_back(child);
    }
    std::sort(frontier.begin(), frontier.end(), [&](int32_t a, int32_t b) { return first_leaf(a) < first_leaf(b); });
    for (const int32_t node : frontier) {
      frontier_leaf_.push_back(first_leaf(node));
      below.push_back(deep_or_leaf(node));
    }
  }

  const Split* splits_;
  const int32_t n_splits_;
  std::vector<bool> in_top_;
  std::vector<int32_t> number_;         // by split: in its part
  std::vector<int32_t> frontier_leaf_;  // first leaf below each node of the frontier
};

// Owns what a Forest borrows. Never changed after it was built, so any number of threads may use it.
class BuiltForest {
 public:
  explicit BuiltForest(const EnsembleArrays& e) : sets_(e.sets, e.sets + e.n_set_words) {
    tree_output_.assign(e.tree_output, e.tree_output + e.n_trees);
    int32_t max_splits = 0, max_depth = 0;
    for (int32_t tree = 0; tree < e.n_trees; ++tree) {
      const int32_t output = tree_output_[index(tree)];
      if (output < 0 || output > e.n_outputs - e.width) throw std::invalid_argument("a tree's output is out of range");
      max_depth = std::max(max_depth, number_tree(e, tree));
      max_splits = std::max(max_splits, static_cast<int32_t>(first_split_.back() - first_split_[index(tree)]));
    }
    plane_player_.resize(index(e.n_planes));
    for (const Split& s : splits_) plane_player_[s.plane] = s.player;
    forest_ = {e,
               max_splits,
               max_depth,
               splits_.data(),
               first_split_.data(),
               first_leaf_.data(),
               tree_output_.data(),
               leaf_value_.data(),
               leaf_id_.data(),
               sets_.data(),
               nullptr,
               plane_player_.data(),
               kRun};
    cut_tops();
    forest_.tops = tops_.data();
    if (!deep_.empty()) forest_.strip = kStrip;
  }
  BuiltForest(const BuiltForest&) = delete;
  BuiltForest& operator=(const BuiltForest&) = delete;

  const Forest& view() const { return forest_; }
  // (nodes,)  node of the Ensemble by number: each tree's splits in pre-order, then its leaves.
  const std::vector<int32_t>& numbered() const { return numbered_; }
  const std::vector<DeepSplit>& deep() const { return deep_; }
  const std::vector<int32_t>& deep_number() const { return deep_number_; }  // of each deep split, in its tree
  const std::vector<int32_t>& below() const { return below_; }

 private:
  // Appends a tree, its nodes in pre-order, left child first; returns its depth.
  int32_t number_tree(const EnsembleArrays& e, int32_t tree) {
    const int64_t start = e.tree_start[tree], stop = e.tree_start[tree + 1];
    std::vector<std::pair<int32_t, int32_t>> todo{{static_cast<int32_t>(start), 0}};  // node, depth
    std::vector<int32_t> number(index(stop - start)), leaves_before(index(stop - start)), splits, leaves;
    int32_t depth = 0;
    while (!todo.empty()) {
      const auto [node, level] = todo.back();
      todo.pop_back();
      if (node < start || node >= stop || static_cast<int64_t>(splits.size() + leaves.size()) >= stop - start)
        throw std::invalid_argument("a child is outside its tree, or has two parents");
      const bool leaf = e.left[node] < 0;
      number[index(node - start)] = static_cast<int32_t>(leaf ? leaves.size() : splits.size());
      leaves_before[index(node - start)] = static_cast<int32_t>(leaves.size());
      (leaf ? leaves : splits).push_back(node);
      depth = std::max(depth, level);
      if (leaf) continue;
      todo.push_back({e.right[node], level + 1});
      todo.push_back({e.left[node], level + 1});
    }
    if (static_cast<int64_t>(splits.size() + leaves.size()) != stop - start)
      throw std::invalid_argument("a node is not reached from the root of its tree");
    const int32_t n_splits = static_cast<int32_t>(splits.size());
    for (const int32_t node : splits) {
      const auto child = [&](int32_t of) { return number[index(of - start)] + (e.left[of] < 0 ? n_splits : 0); };
      if (e.plane[node] < 0 || e.plane[node] >= e.n_planes || e.player[node] < 0 || e.player[node] >= e.n_players)
        throw std::invalid_argument("a split's plane or player is out of range");
      splits_.push_back({static_cast<uint32_t>(e.plane[node]), e.cut[node], e.set[node], child(e.left[node]),
                         child(e.right[node]), e.player[node], leaves_before[index(node - start)],
                         leaves_before[index(e.right[node] - start)]});
    }
    for (const int32_t node : leaves) {
      const double* value = e.value + static_cast<int64_t>(node) * e.width;
      leaf_value_.insert(leaf_value_.end(), value, value + e.width);
      leaf_id_.push_back(e.leaf_id[node]);
    }
    numbered_.insert(numbered_.end(), splits.begin(), splits.end());
    numbered_.insert(numbered_.end(), leaves.begin(), leaves.end());
    first_split_.push_back(static_cast<int64_t>(splits_.size()));
    first_leaf_.push_back(static_cast<int64_t>(leaf_id_.size()));
    return depth;
  }

  void cut_tops() {
    size_t n_large = 0, n_deep = 0;
    for (int32_t tree = 0; tree < forest_.n_trees; ++tree)
      if (const int32_t n = tree_of(forest_, tree).n_splits; n >= kFrontier)
        ++n_large, n_deep += index(n - kFrontier + 1);
    // So that the arrays stay where they are.
    top_splits_.reserve(n_large * (kFrontier - 1)), below_.reserve(n_large * kFrontier), deep_.reserve(n_deep);
    int64_t first_frontier = 0;
    for (int32_t tree = 0; tree < forest_.n_trees; ++tree) {
      const Tree t = tree_of(forest_, tree);
      const int64_t first_deep = static_cast<int64_t>(deep_.size());
      if (t.n_splits < kFrontier) {
        tops_.push_back({t.splits, nullptr, nullptr, t.n_splits, t.n_splits + 1, first_frontier, first_deep});
      } else {
        tops_.push_back({top_splits_.data() + top_splits_.size(), below_.data() + below_.size(),
                         deep_.data() + first_deep, kFrontier - 1, kFrontier, first_frontier, first_deep});
        TopCutter(t, top_splits_, below_, deep_, deep_number_);
      }
      first_frontier += tops_.back().n_frontier;
    }
  }

  std::vector<int64_t> first_split_{0}, first_leaf_{0};
  std::vector<int32_t> tree_output_, leaf_id_, plane_player_, numbered_;
  std::vector<Split> splits_;
  std::vector<double> leaf_value_;
  std::vector<uint64_t> sets_;
  std::vector<Top> tops_;
  std::vector<Split> top_splits_;  // of large trees, as below_
  std::vector<int32_t> below_;
  std::vector<DeepSplit> deep_;
  std::vector<int32_t> deep_number_;
  Forest forest_{};
};

// By place in the top, its splits and then its frontier: the number of that node in the tree.
inline std::vector<int32_t> nodes_of_top(const Forest& f, int32_t tree) {
  const Top& top = f.tops[tree];
  const Tree t = tree_of(f, tree);
  std::vector<int32_t> node(index(top.n_splits + top.n_frontier), 0);
  for (int32_t i = 0; i < top.n_splits; ++i) {
    const Split& s = t.splits[node[index(i)]];
    node[index(top.splits[i].left)] = s.left;
    node[index(top.splits[i].right)] = s.right;
  }
  return node;
}
}  // namespace treeinner
