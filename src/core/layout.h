// Node arrays of an Ensemble -> the order the kernels want. Runs once per model; plain C++, no vector code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "forest.h"

namespace treeinner {

// order[p]: node at pre-order position p (left child first); end[p]: position behind p's subtree; depth[p]: 0 at a
// root.
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

// The entries and records of a PathTable (forest.h), for small trees. node_value: as in PathTable.
struct PathEntries {
  std::vector<int64_t> first_entry, first_record;
  std::vector<int32_t> entries;
  std::vector<int32_t> player;
  std::vector<double> step, records;
};

// Records in place of a tree's entries, from `begin` on: steps of 0 cost less than a loop whose length no processor can
// foresee.
inline void make_records(PathEntries& out, size_t first_leaf, size_t begin, int longest) {
  const size_t n_leaves = out.first_entry.size() - first_leaf,
               stride = static_cast<size_t>(record_stride<double>(longest));
  out.records.resize((out.records.size() + 7) / 8 * 8);
  out.first_record.back() = static_cast<int64_t>(out.records.size());
  out.entries.back() = longest;
  std::vector<int32_t> players(out.player.begin() + static_cast<int64_t>(begin), out.player.end());  // of the tree
  std::sort(players.begin(), players.end());
  players.erase(std::unique(players.begin(), players.end()), players.end());
  size_t from = begin;
  for (size_t leaf = 0; leaf < n_leaves; ++leaf) {
    const size_t count = static_cast<size_t>(out.first_entry[first_leaf + leaf]) - from, at = out.records.size();
    out.records.resize(at + stride);
    // Steps of 0 go to players that are not on the path: the players of a record differ.
    const auto own = out.player.begin() + static_cast<int64_t>(from), own_end = own + static_cast<int64_t>(count);
    auto idle = players.begin();
    for (size_t i = 0; i < static_cast<size_t>(longest); ++i) {
      while (i >= count && std::find(own, own_end, *idle) != own_end) ++idle;
      const uint16_t player = static_cast<uint16_t>(i < count ? out.player[from + i] : *idle++);
      out.records[at + i] = i < count ? out.step[from + i] : 0.0;
      std::memcpy(reinterpret_cast<char*>(out.records.data() + at + longest) + i * sizeof player, &player,
                  sizeof player);
    }
    from += count;
  }
  out.player.resize(begin);
  out.step.resize(begin);
  for (size_t leaf = 0; leaf < n_leaves; ++leaf) out.first_entry[first_leaf + leaf] = static_cast<int64_t>(begin);
}

inline PathEntries path_entries(const Forest& f, const double* node_value) {
  PathEntries out;
  out.first_entry.push_back(0);
  std::vector<int32_t> parent, players;
  std::vector<double> steps;
  const size_t width = static_cast<size_t>(f.width);
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Split* splits = f.splits + f.first_split[tree];
    const int64_t n = f.first_split[tree + 1] - f.first_split[tree];
    const int64_t n_leaves = f.first_leaf[tree + 1] - f.first_leaf[tree];
    out.entries.push_back(0);
    out.first_record.push_back(0);
    if (n_leaves > kSmallTree) {
      out.first_entry.insert(out.first_entry.end(), static_cast<size_t>(n_leaves), out.first_entry.back());
      continue;
    }
    const double* value = node_value + (f.first_split[tree] + f.first_leaf[tree]) * f.width;
    parent.assign(static_cast<size_t>(n + n_leaves), -1);
    for (int64_t i = 0; i < n; ++i) {
      parent[static_cast<size_t>(splits[i].left)] = static_cast<int32_t>(i);
      parent[static_cast<size_t>(splits[i].right)] = static_cast<int32_t>(i);
    }
    const size_t tree_begin = out.player.size(), first_leaf = out.first_entry.size();
    size_t longest = 0;
    for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
      players.clear();
      steps.clear();
      for (int32_t node = static_cast<int32_t>(n + leaf); parent[static_cast<size_t>(node)] >= 0;) {
        const int32_t above = parent[static_cast<size_t>(node)];
        size_t at = 0;
        while (at < players.size() && players[at] != splits[above].player) ++at;
        if (at == players.size()) {
          players.push_back(splits[above].player);
          steps.insert(steps.end(), width, 0.0);
        }
        for (size_t k = 0; k < width; ++k)
          steps[at * width + k] +=
              value[static_cast<size_t>(node) * width + k] - value[static_cast<size_t>(above) * width + k];
        node = above;
      }
      out.player.insert(out.player.end(), players.begin(), players.end());
      out.step.insert(out.step.end(), steps.begin(), steps.end());
      out.first_entry.push_back(static_cast<int64_t>(out.player.size()));
      longest = players.size() > longest ? players.size() : longest;
    }
    if (width == 1 && longest > 0 && longest <= kRecord && f.n_players <= 1 << 16)
      make_records(out, first_leaf, tree_begin, static_cast<int>(longest));
  }
  return out;
}

// The edges of one tree for TreeSHAP while they are being sorted: all arrays by position in pre-order.
struct EdgeSorter {
  std::vector<ShapEdge> edge;         // into each node; previous: position, -1 none
  std::vector<int32_t> left, right;   // positions of the children; -1: a leaf
  std::vector<int32_t> depth, place;  // place: of the edge, once sorted
  std::vector<int32_t> inner, plain, pairs, leaves;

  bool is_pair(int32_t p) const {
    return p > 0 && left[size(p)] >= 0 && left[size(left[size(p)])] < 0 && left[size(right[size(p)])] < 0;
  }
  static size_t size(int32_t p) { return static_cast<size_t>(p); }

  void sort(ShapEdge* out, int32_t* kinds) {
    inner.clear(), plain.clear(), pairs.clear(), leaves.clear();
    const int32_t n = static_cast<int32_t>(edge.size());
    std::vector<char> in_pair(edge.size(), 0);
    for (int32_t p = 1; p < n; ++p) {
      const size_t i = size(p);
      if (is_pair(p)) {
        const bool is_plain = edge[i].previous < 0 && edge[size(left[i])].previous < 0;
        (is_plain ? plain : pairs).push_back(p);
        in_pair[size(left[i])] = in_pair[size(right[i])] = 1;
      } else if (left[i] >= 0) {
        inner.push_back(p);
      } else if (!in_pair[i]) {
        leaves.push_back(p);
      }
    }
    std::stable_sort(inner.begin(), inner.end(), [&](int32_t a, int32_t b) { return depth[size(a)] < depth[size(b)]; });
    kinds[0] = static_cast<int32_t>(inner.size());
    kinds[1] = static_cast<int32_t>(plain.size());
    kinds[2] = static_cast<int32_t>(plain.size() + pairs.size());
    kinds[3] = static_cast<int32_t>(leaves.size());
    number(out);
  }

  // Slots: pairs and other leaves have their own; an edge to a split takes over its left child's.
  void number(ShapEdge* out) {
    place.assign(edge.size(), -1);
    int32_t next = 0, slot = 0;
    for (int32_t p : inner) place[size(p)] = next++;
    plain.insert(plain.end(), pairs.begin(), pairs.end());
    for (int32_t p : plain) {
      edge[size(p)].returns = slot++;
      place[size(p)] = next++;
      place[size(left[size(p)])] = next++;
      place[size(right[size(p)])] = next++;
    }
    for (int32_t p : leaves) {
      edge[size(p)].returns = slot++;
      place[size(p)] = next++;
    }
    for (auto p = inner.rbegin(); p != inner.rend(); ++p) {
      edge[size(*p)].returns = edge[size(left[size(*p)])].returns;
      edge[size(*p)].other = edge[size(right[size(*p)])].returns;
    }
    for (size_t p = 0; p < edge.size(); ++p) {
      if (left[p] >= 0)
        for (int32_t child : {left[p], right[p]}) edge[size(child)].parent = p ? place[p] + 1 : 0;
      if (p && edge[p].previous >= 0) edge[p].previous = place[size(edge[p].previous)];
    }
    for (size_t p = 1; p < edge.size(); ++p) out[place[p]] = edge[p];
  }
};

// Edges of every tree for TreeSHAP; kinds: (trees, 4); distinct: largest number of distinct players on a path.
// order, depth: from preorder. number: split number of an inner node, leaf number of a leaf, both in their tree.
inline void shap_edges(const int64_t* tree_start, int64_t n_trees, const int32_t* left, const int32_t* right,
                       const double* cover, const int32_t* order, const int32_t* depth, const int32_t* number,
                       const int32_t* player_of_node, int32_t n_players, ShapEdge* edges, int32_t* kinds,
                       int32_t* distinct) {
  std::vector<int32_t> last(static_cast<size_t>(n_players), -1);  // position of the player's nearest edge on the path
  std::vector<int32_t> path, count;                               // positions from the root to here; distinct players
  EdgeSorter sorter;
  for (int64_t tree = 0; tree < n_trees; ++tree) {
    const int64_t start = tree_start[tree], stop = tree_start[tree + 1];
    const size_t n = static_cast<size_t>(stop - start);
    sorter.edge.assign(n, ShapEdge{});
    sorter.left.assign(n, -1);
    sorter.right.assign(n, -1);
    sorter.depth.assign(depth + start, depth + stop);
    std::vector<int32_t> previous(n, -1);  // as a position; the sorter renumbers its own
    path.assign(1, 0);
    count.assign(1, 0);
    distinct[tree] = 0;
    auto close_to = [&](int32_t until) {
      for (; static_cast<int32_t>(path.size()) > until; path.pop_back(), count.pop_back()) {
        const size_t p = static_cast<size_t>(path.back());
        last[static_cast<size_t>(sorter.edge[p].player)] = previous[p];
      }
    };
    for (size_t p = 1; p < n; ++p) {
      close_to(depth[start + static_cast<int64_t>(p)]);
      const size_t above = static_cast<size_t>(path.back());
      const int32_t node = order[start + static_cast<int64_t>(p)];
      const int32_t parent = order[start + static_cast<int64_t>(above)];
      const double total = cover[left[parent]] + cover[right[parent]];
      ShapEdge& e = sorter.edge[p];
      e.goes_right = node == right[parent];
      (e.goes_right ? sorter.right : sorter.left)[above] = static_cast<int32_t>(p);
      e.player = player_of_node[parent];
      e.previous = previous[p] = last[static_cast<size_t>(e.player)];
      e.share_before = e.previous >= 0 ? sorter.edge[static_cast<size_t>(e.previous)].share : 1.0;
      e.share = e.share_before * (total > 0 ? cover[node] / total : 0.5);
      e.split = number[parent];
      e.leaf = left[node] < 0 ? number[node] : -1;
      last[static_cast<size_t>(e.player)] = static_cast<int32_t>(p);
      count.push_back(count.back() + (e.previous < 0));
      distinct[tree] = std::max(distinct[tree], count.back());
      path.push_back(static_cast<int32_t>(p));
    }
    close_to(1);
    sorter.sort(edges, kinds + 4 * tree);
    edges += n - 1;
  }
}

}  // namespace treeinner
