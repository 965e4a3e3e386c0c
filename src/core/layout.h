// Node arrays of an Ensemble -> the order the kernels want. Runs once per model; plain C++, no vector code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "crown.h"

namespace treeinner {

// order[p]: node at pre-order position p (left child first); depth[p]: 0 at a root.
inline void preorder(const int64_t* tree_start, int64_t n_trees, const int32_t* left, const int32_t* right,
                     int32_t* order, int32_t* depth) {
  struct Item {
    int32_t node, depth;
  };
  std::vector<Item> todo;
  for (int64_t tree = 0; tree < n_trees; ++tree) {
    const int32_t start = static_cast<int32_t>(tree_start[tree]);
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
  }
}

// The entries and records of a PathTable (forest.h).
struct PathEntries {
  std::vector<int64_t> first_entry, first_record;
  std::vector<int32_t> entries;
  std::vector<int32_t> player;
  std::vector<double> step, records;
};

// Records in place of a tree's entries, from `begin` on: steps of 0 cost less than a loop whose length no processor can
// foresee.
inline void make_records(PathEntries& out, size_t first_exit, size_t begin, int longest) {
  const size_t n_exits = out.first_entry.size() - first_exit,
               stride = static_cast<size_t>(record_stride<double>(longest));
  out.records.resize((out.records.size() + 7) / 8 * 8);
  out.first_record.back() = static_cast<int64_t>(out.records.size());
  out.entries.back() = longest;
  std::vector<int32_t> players(out.player.begin() + static_cast<int64_t>(begin), out.player.end());  // of the tree
  std::sort(players.begin(), players.end());
  players.erase(std::unique(players.begin(), players.end()), players.end());
  size_t from = begin;
  for (size_t exit = 0; exit < n_exits; ++exit) {
    const size_t count = static_cast<size_t>(out.first_entry[first_exit + exit]) - from, at = out.records.size();
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
  for (size_t exit = 0; exit < n_exits; ++exit) out.first_entry[first_exit + exit] = static_cast<int64_t>(begin);
}

// node_value: as in PathTable.
inline PathEntries path_entries(const Forest& f, const double* node_value) {
  PathEntries out;
  out.first_entry.push_back(0);
  std::vector<int32_t> parent, way, players;
  std::vector<double> steps;
  const size_t width = static_cast<size_t>(f.width);
  for (int32_t tree = 0; tree < f.n_trees; ++tree) {
    const Crown& crown = f.crowns[tree];
    const std::vector<int32_t> node_of = nodes_of_crown(f, tree);
    out.entries.push_back(0);
    out.first_record.push_back(0);
    parent.assign(node_of.size(), -1);
    for (int32_t i = 0; i < crown.n_splits; ++i) {
      parent[static_cast<size_t>(crown.splits[i].left)] = i;
      parent[static_cast<size_t>(crown.splits[i].right)] = i;
    }
    auto value_of = [&](int32_t place) {
      const int64_t node = f.first_split[tree] + f.first_leaf[tree] + node_of[static_cast<size_t>(place)];
      return node_value + node * f.width;
    };
    const size_t tree_begin = out.player.size(), first_exit = out.first_entry.size();
    size_t longest = 0;
    for (int32_t exit = 0; exit < crown.n_exits; ++exit) {
      players.clear();
      steps.clear();
      way.clear();
      for (int32_t place = crown.n_splits + exit; place >= 0; place = parent[static_cast<size_t>(place)])
        way.push_back(place);
      // From the root down, as a row goes: below a crown the next steps are added one by one.
      for (size_t i = way.size() - 1; i > 0; --i) {
        const int32_t above = way[i], place = way[i - 1];
        size_t at = 0;
        while (at < players.size() && players[at] != crown.splits[above].player) ++at;
        if (at == players.size()) {
          players.push_back(crown.splits[above].player);
          steps.insert(steps.end(), width, 0.0);
        }
        for (size_t k = 0; k < width; ++k) steps[at * width + k] += value_of(place)[k] - value_of(above)[k];
      }
      out.player.insert(out.player.end(), players.begin(), players.end());
      out.step.insert(out.step.end(), steps.begin(), steps.end());
      out.first_entry.push_back(static_cast<int64_t>(out.player.size()));
      longest = players.size() > longest ? players.size() : longest;
    }
    if (width == 1 && longest > 0 && longest <= kRecord && f.n_players <= 1 << 16)
      make_records(out, first_exit, tree_begin, static_cast<int>(longest));
  }
  return out;
}

// The splits of one tree for TreeSHAP while they are being sorted: all arrays by position in pre-order.
struct SplitSorter {
  std::vector<ShapSplit> split;        // previous (the child there): a position, until they are sorted; split: 0 or ~0
  std::vector<int32_t> above, side;    // split whose child it is, as a position; 1: its right child
  std::vector<int32_t> child[2];       // positions; -1: a leaf
  std::vector<int32_t> depth, number;  // number: as shap_splits gets it
  std::vector<int32_t> place, inner, plain, quads, pairs;

  static size_t size(int32_t p) { return static_cast<size_t>(p); }
  ShapSplit& at(int32_t p) { return split[size(p)]; }
  int32_t child_of(int32_t p, int side) const { return child[side][size(p)]; }
  bool is_leaf(int32_t p) const { return child_of(p, 0) < 0; }
  bool is_pair(int32_t p) const { return p > 0 && !is_leaf(p) && is_leaf(child_of(p, 0)) && is_leaf(child_of(p, 1)); }
  bool is_quad(int32_t p) const { return p > 0 && !is_leaf(p) && is_pair(child_of(p, 0)) && is_pair(child_of(p, 1)); }
  bool is_plain(int32_t quad) {
    return at(quad).previous < 0 && at(child_of(quad, 0)).previous < 0 && at(child_of(quad, 1)).previous < 0;
  }

  void sort(ShapSplit* out, int32_t* kinds) {
    inner.clear(), plain.clear(), quads.clear(), pairs.clear();
    for (int32_t p = 0; p < static_cast<int32_t>(split.size()); ++p) {
      if (is_leaf(p)) continue;
      if (is_quad(p))
        (is_plain(p) ? plain : quads).push_back(p);
      else if (!is_pair(p))
        inner.push_back(p);
      else if (!is_quad(above[size(p)]))
        pairs.push_back(p);
    }
    std::stable_sort(inner.begin(), inner.end(), [&](int32_t a, int32_t b) { return depth[size(a)] < depth[size(b)]; });
    kinds[0] = static_cast<int32_t>(inner.size());
    kinds[1] = static_cast<int32_t>(plain.size());
    kinds[2] = static_cast<int32_t>(plain.size() + quads.size());
    kinds[3] = static_cast<int32_t>(pairs.size());
    give_places();
    give_frames();
    write(out);
  }

  void give_places() {
    place.assign(split.size(), -1);
    int32_t next = 0;
    for (int32_t p : inner) place[size(p)] = next++;
    plain.insert(plain.end(), quads.begin(), quads.end());
    for (int32_t p : plain)
      for (int32_t q : {p, child_of(p, 0), child_of(p, 1)}) place[size(q)] = next++;
    for (int32_t p : pairs) place[size(p)] = next++;
  }

  // Inner splits, quads and lone pairs have one for the product on the way down and the worth on the way up. A leaf's
  // worth is written once for all rows and must last, so what goes down to leaves goes to the last frame, and is not
  // used.
  void give_frames() {
    int32_t next = 0;
    for (const auto* kind : {&inner, &plain, &pairs})
      for (int32_t p : *kind) at(p).frame = next++;
    std::vector<int32_t*> to_leaves;
    for (int32_t p : inner)
      for (int i = 0; i < 2; ++i) {
        const int32_t c = child_of(p, i);
        ShapSplit& s = at(p);
        s.worth[i] = s.down[i] = is_leaf(c) ? next++ : at(c).frame;
        if (is_leaf(c)) to_leaves.push_back(&s.down[i]);
      }
    for (int32_t* down : to_leaves) *down = next;
  }

  void write(ShapSplit* out) {
    for (size_t p = 0; p < split.size(); ++p) {
      if (child[0][p] < 0) continue;
      ShapSplit s = split[p];
      for (int i = 0; i < 2; ++i) {
        const int32_t c = child[i][p];
        s.leaf[i] = is_leaf(c) ? number[size(c)] : -1;
      }
      if (s.previous >= 0) {
        const size_t below = size(s.previous);  // the path's next node behind the earlier split
        s.previous = 2 * place[size(above[below])] + side[below];
      }
      s.split ^= number[p];
      out[place[p]] = s;
    }
  }
};

// Splits of every tree for TreeSHAP; kinds: (trees, 4); distinct: largest number of distinct players on a path.
// order, depth: from preorder. number: split number of an inner node, leaf number of a leaf, both in their tree.
inline void shap_splits(const int64_t* tree_start, int64_t n_trees, const int32_t* left, const int32_t* right,
                        const double* cover, const int32_t* order, const int32_t* depth, const int32_t* number,
                        const int32_t* player_of_node, int32_t n_players, ShapSplit* splits, int32_t* kinds,
                        int32_t* distinct) {
  std::vector<int32_t> last(static_cast<size_t>(n_players), -1);  // position below the player's nearest split above
  std::vector<int32_t> path, count;                               // positions from the root to here; distinct players
  std::vector<int32_t> replaced;                                  // by position: what `last` was before it
  std::vector<double> share;  // by position: product of the shares of the player of the split above, this one's too
  SplitSorter sorter;
  for (int64_t tree = 0; tree < n_trees; ++tree) {
    const int64_t start = tree_start[tree], stop = tree_start[tree + 1];
    const size_t n = static_cast<size_t>(stop - start);
    sorter.split.assign(n, ShapSplit{});
    for (auto* places : {&sorter.above, &sorter.side, &sorter.child[0], &sorter.child[1]}) places->assign(n, -1);
    sorter.depth.assign(depth + start, depth + stop);
    sorter.number.resize(n);
    share.assign(n, 1.0);
    replaced.assign(n, -1);
    path.clear(), count.assign(1, 0);
    distinct[tree] = 0;
    auto leave_to = [&](int32_t until) {
      for (; static_cast<int32_t>(path.size()) > until; path.pop_back(), count.pop_back()) {
        const size_t p = static_cast<size_t>(path.back());
        if (p) last[static_cast<size_t>(sorter.at(sorter.above[p]).player)] = replaced[p];
      }
    };
    for (size_t p = 0; p < n; ++p) {
      leave_to(sorter.depth[p]);
      const int32_t node = order[start + static_cast<int64_t>(p)];
      ShapSplit& s = sorter.split[p];
      if (p) {
        const int32_t above = path.back();
        const ShapSplit& from = sorter.at(above);
        const int32_t side = (node == right[order[start + above]]) != (from.split < 0);
        sorter.above[p] = above;
        sorter.side[p] = side;
        sorter.child[side][static_cast<size_t>(above)] = static_cast<int32_t>(p);
        share[p] = from.share * from.child_share[side];
        int32_t& before = last[static_cast<size_t>(from.player)];
        count.push_back(count.back() + (before < 0));
        replaced[p] = before;
        before = static_cast<int32_t>(p);
        distinct[tree] = std::max(distinct[tree], count.back());
      }
      path.push_back(static_cast<int32_t>(p));
      sorter.number[p] = number[node];
      if (left[node] < 0) continue;
      const double in_left = cover[left[node]], in_right = cover[right[node]], total = in_left + in_right;
      s.split = in_left <= in_right ? 0 : -1;
      s.child_share[0] = total > 0 ? std::min(in_left, in_right) / total : 0.5;
      s.child_share[1] = total > 0 ? std::max(in_left, in_right) / total : 0.5;
      s.player = player_of_node[node];
      s.previous = last[static_cast<size_t>(s.player)];
      s.share = s.previous >= 0 ? share[static_cast<size_t>(s.previous)] : 1.0;
    }
    leave_to(0);
    sorter.sort(splits, kinds + 4 * tree);
    splits += n / 2;  // a binary tree: one leaf more than splits
  }
}

}  // namespace treeinner
