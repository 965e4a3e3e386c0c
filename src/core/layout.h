// Node arrays of an Ensemble -> the order the kernels want. Runs once per model; plain C++, no vector code.
#pragma once

#include <cstdint>
#include <vector>

#include "forest.h"

namespace treeinner {

// order[p]: node at pre-order position p (left child first); end[p]: position behind p's subtree; depth[p]: 0 at a root.
inline void preorder(const int64_t* tree_start, int64_t n_trees, const int32_t* left, const int32_t* right,
                     int32_t* order, int32_t* end, int32_t* depth) {
  struct Item {
    int32_t node, depth;
  };
  std::vector<Item> todo;
  for (int64_t tree = 0; tree < n_trees; ++tree) {
    const int32_t start = static_cast<int32_t>(tree_start[tree]), stop = static_cast<int32_t>(tree_start[tree + 1]);
    int32_t p = start;
    todo.push_back({start, 0});
    while (!todo.empty()) {
      const Item item = todo.back();
      todo.pop_back();
      order[p] = item.node;
      depth[p++] = item.depth;
      if (left[item.node] < 0) continue;
      todo.push_back({right[item.node], item.depth + 1});
      todo.push_back({left[item.node], item.depth + 1});
    }
    // A subtree ends where the next node that is not deeper begins: going back, the runs chain up.
    for (p = stop - 1; p >= start; --p) {
      end[p] = p + 1;
      while (end[p] < stop && depth[end[p]] > depth[p]) end[p] = end[end[p]];
    }
  }
}

// Edges of every tree for TreeSHAP; returns through `distinct` the largest number of distinct players on a path.
// order, depth: from preorder. position_split: split number of an inner node, leaf number of a leaf, both in their tree.
inline void shap_edges(const int64_t* tree_start, int64_t n_trees, const int32_t* left, const int32_t* right,
                       const double* cover, const int32_t* order, const int32_t* depth, const int32_t* number,
                       const int32_t* player_of_node, int32_t n_players, ShapEdge* edges, int32_t* distinct) {
  std::vector<int32_t> last(static_cast<size_t>(n_players), 0);  // depth of the player's nearest edge on the path
  std::vector<int32_t> node_at, count_at;
  std::vector<ShapEdge> path;
  for (int64_t tree = 0; tree < n_trees; ++tree) {
    const int64_t start = tree_start[tree], stop = tree_start[tree + 1];
    node_at.assign(1, order[start]);
    count_at.assign(1, 0);
    path.assign(1, ShapEdge{});
    distinct[tree] = 0;
    auto close_to = [&](int32_t until) {
      while (static_cast<int32_t>(path.size()) > until) {
        last[static_cast<size_t>(path.back().player)] = path.back().previous;
        path.pop_back();
        node_at.pop_back();
        count_at.pop_back();
      }
    };
    for (int64_t p = start + 1; p < stop; ++p) {
      close_to(depth[p]);
      const int32_t node = order[p], parent = node_at.back();
      const double total = cover[left[parent]] + cover[right[parent]];
      ShapEdge e{};
      e.depth = depth[p];
      e.player = player_of_node[parent];
      e.previous = last[static_cast<size_t>(e.player)];
      e.share_before = e.previous ? path[static_cast<size_t>(e.previous)].share : 1.0;
      e.share = e.share_before * (total > 0 ? cover[node] / total : 0.5);
      e.split = number[parent];
      e.leaf = left[node] < 0 ? number[node] : -1;
      e.goes_right = node == right[parent];
      *edges++ = e;
      last[static_cast<size_t>(e.player)] = e.depth;
      count_at.push_back(count_at.back() + (e.previous == 0));
      if (count_at.back() > distinct[tree]) distinct[tree] = count_at.back();
      node_at.push_back(node);
      path.push_back(e);
    }
    close_to(1);
  }
}

}  // namespace treeinner
