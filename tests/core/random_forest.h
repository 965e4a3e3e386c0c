// Random trees over random columns: what treeinner/kernels.py hands to the core, in miniature.
#pragma once

#include "random_table.h"
#include "score_layout.h"

namespace treeinner {

struct Model {
  std::vector<int64_t> tree_start{0}, first_split{0}, first_leaf{0}, first_point;
  std::vector<int32_t> left, right, player, number, order, depth, tree_output, leaf_id, n_points;
  std::vector<Split> splits;
  std::vector<double> cover, leaf_value, node_value, u, w;
  std::vector<uint64_t> sets;
  Crowns crowns;
  Array<char> forks;
  PathEntries entries;
  ScoreLayout scores;
  Array<float> score_records;
  Array<Lookup> lookups;
  std::vector<ScoreTable> score_table;  // none, or one that stays where it is when the model moves
  std::vector<ShapSplit> shap_splits;
  std::vector<int32_t> kinds;
  Forest forest{};
  PathTable path{};
  ShapForest shap{};
};

inline Split random_split(Random& random, const Shape& shape, const Columns& c, Model& m) {
  const int plane = random.below(static_cast<int>(c.planes.size()));
  const Plane& p = c.planes[static_cast<size_t>(plane)];
  Split s{};
  s.plane = static_cast<uint32_t>(plane);
  s.player = p.column;
  s.set = -1;
  s.cut = 2 + random.below(p.n);
  if (c.columns[static_cast<size_t>(p.column)].categorical) {
    s.cut = 0;
    s.set = static_cast<int32_t>(m.sets.size());
    const int words = shape.code_bytes == 1 ? 4 : (p.n + 2 + 63) / 64;
    for (int i = 0; i < words; ++i) m.sets.push_back(random.bits());
  }
  return s;
}

enum class Kind { kChain, kBush, kFull };

// Nodes come in pre-order; a chain has a leaf at every split, a full tree only at the bottom. Returns the node's
// number.
inline int32_t grow(Random& random, const Shape& shape, const Columns& c, int depth, Kind kind, bool leaf, Model& m) {
  const int32_t node = static_cast<int32_t>(m.left.size());
  const int tree_splits = static_cast<int>(m.splits.size() - static_cast<size_t>(m.first_split.back()));
  m.left.push_back(-1);
  m.right.push_back(-1);
  m.player.push_back(0);
  m.cover.push_back(random.chance(0.05) ? 0.0 : random.uniform() * 100);
  if (leaf || depth == 0) {
    m.number.push_back(static_cast<int32_t>(m.leaf_id.size() - static_cast<size_t>(m.first_leaf.back())));
    m.leaf_id.push_back(static_cast<int32_t>(random.bits() >> 33));
    for (int k = 0; k < shape.width; ++k) m.leaf_value.push_back(random.number());
    return node;
  }
  const Split split = random_split(random, shape, c, m);
  m.number.push_back(tree_splits);
  m.player[static_cast<size_t>(node)] = split.player;
  m.splits.push_back(split);
  bool left_is_leaf = kind == Kind::kBush && random.chance(0.2),
       right_is_leaf = kind == Kind::kBush && random.chance(0.2);
  if (kind == Kind::kChain) left_is_leaf = !(right_is_leaf = random.chance(0.5));
  const int32_t left = grow(random, shape, c, depth - 1, kind, left_is_leaf, m);
  const int32_t right = grow(random, shape, c, depth - 1, kind, right_is_leaf, m);
  m.left[static_cast<size_t>(node)] = left;
  m.right[static_cast<size_t>(node)] = right;
  return node;
}

// Children and subtree ends of the splits, from the node arrays.
inline void link_splits(Model& m) {
  const size_t n = m.left.size();
  m.order.resize(n), m.depth.resize(n);
  const int64_t n_trees = static_cast<int64_t>(m.tree_start.size()) - 1;
  preorder(m.tree_start.data(), n_trees, m.left.data(), m.right.data(), m.order.data(), m.depth.data());
  size_t next = 0;
  for (size_t tree = 0; tree + 1 < m.tree_start.size(); ++tree) {
    const int32_t n_splits = static_cast<int32_t>(m.first_split[tree + 1] - m.first_split[tree]);
    auto number_of = [&](int32_t child) {
      const size_t i = static_cast<size_t>(child);
      return m.number[i] + (m.left[i] < 0 ? n_splits : 0);
    };
    for (int64_t p = m.tree_start[tree]; p < m.tree_start[tree + 1]; ++p) {
      const size_t node = static_cast<size_t>(m.order[static_cast<size_t>(p)]);
      if (m.left[node] < 0) continue;
      Split& s = m.splits[next++];
      s.left = number_of(m.left[node]);
      s.right = number_of(m.right[node]);
      // A node's first leaf comes behind the leaves that stand before it in pre-order.
      auto leaves_before = [&](int32_t of) {
        int32_t n = 0;
        for (int64_t q = m.tree_start[tree]; m.order[static_cast<size_t>(q)] != of; ++q)
          n += m.left[static_cast<size_t>(m.order[static_cast<size_t>(q)])] < 0;
        return n;
      };
      s.first_leaf = leaves_before(static_cast<int32_t>(node));
      s.right_leaf = leaves_before(m.right[node]);
    }
  }
}

// Points and weights of the Gauss-Legendre rule on [0, 1], by Newton's method.
inline void gauss_legendre(int n, std::vector<double>& u, std::vector<double>& w) {
  for (int i = 0; i < n; ++i) {
    double x = std::cos(std::acos(-1.0) * (i + 0.75) / (n + 0.5)), slope = 0;
    for (int step = 0; step < 30; ++step) {
      double p = 1, before = 0;
      for (int k = 1; k <= n; ++k) {
        const double next = ((2 * k - 1) * x * p - (k - 1) * before) / k;
        before = p;
        p = next;
      }
      slope = n * (x * p - before) / (x * x - 1);
      x -= p / slope;
    }
    u.push_back((x + 1) / 2);
    w.push_back(1 / ((1 - x * x) * slope * slope));
  }
}

inline void add_shap_tables(const Shape& shape, Model& m) {
  std::vector<int32_t> distinct(static_cast<size_t>(shape.n_trees));
  m.kinds.resize(4 * static_cast<size_t>(shape.n_trees));
  m.shap_splits.resize(m.splits.size());
  shap_splits(m.tree_start.data(), shape.n_trees, m.left.data(), m.right.data(), m.cover.data(), m.order.data(),
              m.depth.data(), m.number.data(), m.player.data(), shape.n_columns, m.shap_splits.data(), m.kinds.data(),
              distinct.data());
  for (int tree = 0; tree < shape.n_trees; ++tree) {
    const size_t t = static_cast<size_t>(tree);
    m.n_points.push_back((distinct[t] + 1) / 2);
    m.first_point.push_back(static_cast<int64_t>(m.u.size()));
    gauss_legendre(m.n_points[t], m.u, m.w);
  }
  m.shap = {m.shap_splits.data(), m.kinds.data(), m.n_points.data(), m.first_point.data(), m.u.data(), m.w.data()};
}

inline void add_score_tables(Model& m) {
  ScoreLayout& s = m.scores = ScoreLayouter(m.forest, m.entries).make();
  m.score_records.assign(s.records.begin(), s.records.end());
  m.lookups.assign(s.lookups.begin(), s.lookups.end());
  m.score_table.push_back({s.step_unit, s.first_record.data(), m.score_records.data(), s.first_use.data(),
                           s.uses.data(), s.first_lookup.data(), s.slot.data(), m.lookups.data()});
}

// A single leaf, a chain of the largest depth, full trees of 256 and of 512 leaves, a bush of some hundred leaves, then
// bushes of growing depth.
inline Model random_model(Random& random, const Shape& shape, const Columns& c) {
  Model m;
  int64_t max_splits = 0;
  for (int tree = 0; tree < shape.n_trees; ++tree) {
    const int depth = tree == 0   ? 0
                      : tree == 1 ? shape.max_depth
                      : tree < 4  ? 6 + tree
                      : tree == 4 ? 14
                                  : 1 + (tree - 5) % 7;
    grow(random, shape, c, depth, tree == 1 ? Kind::kChain : tree < 4 ? Kind::kFull : Kind::kBush, false, m);
    m.tree_start.push_back(static_cast<int64_t>(m.left.size()));
    m.first_split.push_back(static_cast<int64_t>(m.splits.size()));
    m.first_leaf.push_back(static_cast<int64_t>(m.leaf_id.size()));
    m.tree_output.push_back(shape.width == 1 ? tree % shape.n_outputs : 0);
    const size_t t = static_cast<size_t>(tree);
    max_splits = std::max(max_splits, m.first_split[t + 1] - m.first_split[t]);
  }
  link_splits(m);
  add_shap_tables(shape, m);
  Forest& f = m.forest;
  f.n_trees = shape.n_trees;
  f.n_outputs = shape.n_outputs;
  f.width = shape.width;
  f.n_planes = static_cast<int32_t>(c.planes.size());
  f.n_players = shape.n_columns;
  f.code_bytes = shape.code_bytes;
  f.max_splits = static_cast<int32_t>(max_splits);
  f.max_depth = *std::max_element(m.depth.begin(), m.depth.end());
  f.splits = m.splits.data();
  f.first_split = m.first_split.data();
  f.first_leaf = m.first_leaf.data();
  f.tree_output = m.tree_output.data();
  f.leaf_value = m.leaf_value.data();
  f.leaf_id = m.leaf_id.data();
  f.sets = m.sets.data();
  m.crowns = crowns_of(f);
  f.crowns = m.crowns.of_tree.data();
  f.plane_player = m.crowns.plane_player.data();
  f.strip = 2 * kRun;  // less than the rows of the largest table
  for (size_t i = 0; i < m.left.size() * static_cast<size_t>(shape.width); ++i) m.node_value.push_back(random.number());
  m.forks.resize(m.crowns.forks.size() * static_cast<size_t>(fork_stride(f.width)));
  forks_with_steps(f, m.crowns, m.node_value.data(), m.forks.data());
  m.entries = path_entries(f, m.node_value.data());
  if (ScoreLayouter::takes_part(f)) add_score_tables(m);
  m.path = {m.forks.data(),
            m.entries.entries.data(),
            m.entries.first_record.data(),
            m.entries.records.data(),
            m.entries.first_entry.data(),
            m.entries.player.data(),
            m.entries.step.data(),
            m.score_table.empty() ? nullptr : m.score_table.data()};
  return m;
}

}  // namespace treeinner
