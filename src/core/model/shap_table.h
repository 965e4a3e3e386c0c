// Covers of the nodes -> ShapTrees. Runs once per model, at the first call of TreeSHAP; plain C++.
#pragma once

#include <functional>
#include <map>

#include "build.h"
#include "tables.h"

namespace treeinner {
using Quadrature = std::function<void(int n, double* u, double* w)>;  // writes the n points and weights of a rule

// Owns the ShapTrees of a forest (tables.h).
class ShapArrays {
 public:
  // cover: (nodes,)  each tree's in the order of their numbers.
  ShapArrays(const Forest& f, const double* cover, const Quadrature& quadrature)
      : forest(&f), splits_(index(f.first_split[f.n_trees])) {
    for (int32_t tree = 0; tree < f.n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      ShapSplit* splits = splits_.data() + f.first_split[tree];
      const int32_t n_points = (follow_paths(t, cover + t.first_node) + 1) / 2;
      auto& [u, w] = rules_[n_points];
      if (u.empty() && n_points) {
        u.resize(index(n_points)), w.resize(index(n_points));
        quadrature(n_points, u.data(), w.data());
      }
      trees_.push_back({splits, 0, 0, 0, 0, n_points, u.data(), w.data()});
      sort(trees_.back());
      write(splits, t.n_splits);
    }
  }
  ShapArrays(const ShapArrays&) = delete;

  const std::vector<ShapTree>& trees() const { return trees_; }
  const Forest* const forest;

 private:
  // -- one tree, by the numbers of its nodes -----------------------------------------------------------------------
  bool is_leaf(int32_t node) const { return node >= n_; }
  int32_t child_of(int32_t split, int side) const { return child_[side][index(split)]; }
  bool is_pair(int32_t i) const { return i > 0 && !is_leaf(i) && is_leaf(child_of(i, 0)) && is_leaf(child_of(i, 1)); }
  bool is_quad(int32_t i) const { return i > 0 && !is_leaf(i) && is_pair(child_of(i, 0)) && is_pair(child_of(i, 1)); }
  ShapSplit& at(int32_t split) { return made_[index(split)]; }
  bool is_plain(int32_t quad) {
    return at(quad).previous < 0 && at(child_of(quad, 0)).previous < 0 && at(child_of(quad, 1)).previous < 0;
  }

  // Shares and players along the paths; returns the largest number of distinct players on one. Here `previous` is the
  // node behind the earlier split.
  int32_t follow_paths(const Tree& t, const double* cover) {
    n_ = t.n_splits;
    made_.assign(index(n_), ShapSplit{});
    parent_.assign(index(2 * n_ + 1), -1);
    side_.assign(index(2 * n_ + 1), 0);
    for (auto& child : child_) child.assign(index(n_), -1);
    depth_.assign(index(n_), 0);
    std::vector<int32_t> distinct(index(n_), 0);
    int32_t most = 0;
    for (int32_t i = 0; i < n_; ++i) {
      ShapSplit& s = at(i);
      const double left = cover[t.splits[i].left], right = cover[t.splits[i].right], total = left + right;
      const bool flip = !(left <= right);
      child_[flip][index(i)] = t.splits[i].left;
      child_[!flip][index(i)] = t.splits[i].right;
      for (int side = 0; side < 2; ++side) {
        parent_[index(child_of(i, side))] = i;
        side_[index(child_of(i, side))] = side;
      }
      s.split = flip ? ~i : i;
      s.child_share[0] = total > 0 ? std::min(left, right) / total : 0.5;
      s.child_share[1] = total > 0 ? std::max(left, right) / total : 0.5;
      s.player = t.splits[i].player;
      s.previous = i;
      while (parent_[index(s.previous)] >= 0 && at(parent_[index(s.previous)]).player != s.player)
        s.previous = parent_[index(s.previous)];
      const int32_t above = parent_[index(s.previous)], parent = parent_[index(i)];
      s.share = above < 0 ? 1.0 : at(above).share * at(above).child_share[side_[index(s.previous)]];
      if (above < 0) s.previous = -1;
      depth_[index(i)] = parent < 0 ? 0 : depth_[index(parent)] + 1;
      distinct[index(i)] = (parent < 0 ? 0 : distinct[index(parent)]) + (above < 0);
      most = std::max(most, distinct[index(i)]);
    }
    return most;
  }

  void sort(ShapTree& tree) {
    std::vector<int32_t> inner, plain, quads, pairs;
    for (int32_t i = 0; i < n_; ++i) {
      if (is_quad(i))
        (is_plain(i) ? plain : quads).push_back(i);
      else if (!is_pair(i))
        inner.push_back(i);
      else if (!is_quad(parent_[index(i)]))
        pairs.push_back(i);
    }
    std::stable_sort(inner.begin(), inner.end(),
                     [&](int32_t a, int32_t b) { return depth_[index(a)] < depth_[index(b)]; });
    place_.assign(index(n_), -1);
    int32_t next = 0;
    const auto with_pairs = [&](int32_t i) {
      for (const int32_t j : {i, child_of(i, 0), child_of(i, 1)}) place_[index(j)] = next++;
    };
    for (const int32_t i : inner) place_[index(i)] = next++;
    tree.n_inner = next;
    for (const int32_t i : plain) with_pairs(i);
    tree.plain_end = next;
    for (const int32_t i : quads) with_pairs(i);
    tree.quads_end = next;
    for (const int32_t i : pairs) place_[index(i)] = next++;
    tree.end = next;
    plain.insert(plain.end(), quads.begin(), quads.end());
    give_frames(inner, plain, pairs);
  }

  // Inner splits, quads and lone pairs have one for the product on the way down and the worth on the way up. A leaf's
  // worth is written once for all rows and must last, so what goes down to leaves goes to the last frame, and is not
  // used.
  void give_frames(const std::vector<int32_t>& inner, const std::vector<int32_t>& quads,
                   const std::vector<int32_t>& pairs) {
    int32_t next = 0;
    for (const auto* kind : {&inner, &quads, &pairs})
      for (const int32_t i : *kind) at(i).frame = next++;
    for (const int32_t i : inner)
      for (int side = 0; side < 2; ++side) {
        const int32_t c = child_of(i, side);
        at(i).worth[side] = at(i).down[side] = is_leaf(c) ? next++ : at(c).frame;
      }
    for (const int32_t i : inner)
      for (int side = 0; side < 2; ++side)
        if (is_leaf(child_of(i, side))) at(i).down[side] = next;
  }

  void write(ShapSplit* out, int32_t n) {
    for (int32_t i = 0; i < n; ++i) {
      ShapSplit s = at(i);
      for (int side = 0; side < 2; ++side) s.leaf[side] = is_leaf(child_of(i, side)) ? child_of(i, side) - n : -1;
      if (s.previous >= 0) s.previous = 2 * place_[index(parent_[index(s.previous)])] + side_[index(s.previous)];
      out[place_[index(i)]] = s;
    }
  }

  std::vector<ShapSplit> splits_;  // each tree's from its first split on
  std::vector<ShapTree> trees_;
  std::map<int32_t, std::pair<std::vector<double>, std::vector<double>>> rules_;  // by number of points

  // Of the tree at hand: parent, side of the parent, children, depth, place in the new order.
  int32_t n_ = 0;
  std::vector<ShapSplit> made_;
  std::vector<int32_t> parent_, side_, child_[2], depth_, place_;
};
}  // namespace treeinner
