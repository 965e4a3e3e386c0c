// Means of the nodes over the rows scored -> the shares of rows in a centred score. Plain C++.
//
// A step from a node to its child gives a row of weight 1, residual g and leaf value l the share
//   (c' - c)(g - m) + (m' - m)(l - c') = (c' - c) g + (m' - m) l - (c' m' - c m),
// where c and m are the means of leaf values and residuals in the node, c' and m' in the child. That is three
// attributions by path, with the weights g, l and 1. In a tree without a top the leaf is known from the path, and the
// last two become one: the level. Residuals and values are counted from those of the root, which changes nothing and
// keeps the digits of residuals that are far from 0. Node values that are fixed give a row (c' - c) g alone: that is m
// = m' = 0, or, counted from the mean r of the root, -r in every node.
#pragma once

#include "score_table.h"

namespace treeinner {
// value, residual: (nodes, width), each tree's in the order of their numbers; residuals counted from the root's.
class CentredMeans {
 protected:
  CentredMeans(const Forest& f, const double* value, const double* residual)
      : value_(value, value + n_nodes(f) * f.width), residual_(residual, residual + n_nodes(f) * f.width) {
    const int64_t width = f.width;
    for (int32_t tree = 0; tree < f.n_trees; ++tree) {
      const int64_t begin = tree_of(f, tree).first_node * width,
                    end = (f.first_split[tree + 1] + f.first_leaf[tree + 1]) * width;
      root_.insert(root_.end(), value + begin, value + begin + width);
      for (int64_t i = begin; i < end; ++i) value_[index(i)] -= value[begin + (i - begin) % width];
    }
  }
  std::vector<double> value_, residual_, root_;
};

// scale: that of the residuals in the rows' way through the rounds (kernels/boost.h).
struct Shares : private CentredMeans, Paths {
  PathArrays level, leaf;
  PathTable level_view, leaf_view;

  // own: whether half of the squares of the steps is taken off, as the signal score of squared errors does. fixed: the
  // table of the same paths that comes with it in `boost`, or null.
  Shares(const BuiltForest& built, const double* value, const double* residual, double scale, bool own,
         const Shares* fixed = nullptr)
      : CentredMeans(built.view(), value, residual),
        Paths(built, value_.data(), false),
        level(built, value_.data(), own ? Step::kOwnLevel : Step::kLevel, residual_.data()),
        leaf(built, value_.data(), Step::kLeaf, residual_.data()),
        level_view(level.view()),
        leaf_view(leaf.view()) {
    add_scores(built.view(), &level, scale, fixed ? &fixed->level : nullptr);
    view.level = &level_view, view.leaf = &leaf_view, view.root = root_.data();
  }
};
}  // namespace treeinner
