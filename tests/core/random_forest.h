// Random trees over random columns: the arrays of an Ensemble in miniature, and everything that is built from them.
#pragma once

#include <memory>

#include "model/score_table.h"
#include "model/shap_table.h"
#include "random_table.h"

namespace treeinner {

struct Model {
  // Of an Ensemble: by node, in any order within a tree.
  std::vector<int64_t> tree_start{0};
  std::vector<EnsembleNode> nodes;
  std::vector<int32_t> tree_output;
  std::vector<double> value;
  std::vector<uint64_t> sets;
  // By number: each tree's splits in pre-order, then its leaves.
  std::vector<double> cover, node_value;

  std::unique_ptr<BuiltForest> built;
  std::unique_ptr<Paths> paths;
  std::unique_ptr<ShapArrays> shap;
  Forest forest{};
};

inline void add_random_split(Random& random, const Shape& shape, const Columns& c, size_t node, Model& m) {
  const int plane = random.below(static_cast<int>(c.planes.size()));
  const Plane& p = c.planes[index(plane)];
  m.nodes[node].plane = plane;
  m.nodes[node].player = p.column;
  m.nodes[node].cut = 2 + random.below(p.n);
  if (!c.columns[index(p.column)].categorical) return;
  m.nodes[node].cut = 0;
  m.nodes[node].set = static_cast<int32_t>(m.sets.size());
  const int words = shape.code_bytes == 1 ? 4 : (p.n + 2 + 63) / 64;
  for (int i = 0; i < words; ++i) m.sets.push_back(random.bits());
}

enum class Kind { kChain, kBush, kFull };

// A chain has a leaf at every split, a full tree only at the bottom. Either child comes first. Returns the node.
inline int32_t grow(Random& random, const Shape& shape, const Columns& c, int depth, Kind kind, bool leaf, Model& m) {
  const int32_t node = static_cast<int32_t>(m.nodes.size());
  m.nodes.push_back({-1, -1, 0, 0, -1, 0});
  for (int k = 0; k < shape.width; ++k) m.value.push_back(random.number());
  if (leaf || depth == 0) return node;
  add_random_split(random, shape, c, index(node), m);
  bool is_leaf[2] = {kind == Kind::kBush && random.chance(0.2), kind == Kind::kBush && random.chance(0.2)};
  if (kind == Kind::kChain) is_leaf[0] = !(is_leaf[1] = random.chance(0.5));
  const int first = random.below(2);
  for (const int side : {first, 1 - first}) {
    const int32_t child = grow(random, shape, c, depth - 1, kind, is_leaf[side], m);
    (side ? m.nodes[index(node)].right : m.nodes[index(node)].left) = child;
  }
  return node;
}

// Points and weights of the Gauss-Legendre rule on [0, 1], by Newton's method.
inline void gauss_legendre(int n, double* u, double* w) {
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
    u[i] = (x + 1) / 2;
    w[i] = 1 / ((1 - x * x) * slope * slope);
  }
}

// A single leaf, a chain of the largest depth, full trees of 256 and of 512 leaves, a bush of some hundred leaves, then
// bushes of growing depth.
inline std::unique_ptr<Model> random_model(Random& random, const Shape& shape, const Columns& c) {
  auto model = std::make_unique<Model>();
  Model& m = *model;
  for (int tree = 0; tree < shape.n_trees; ++tree) {
    const int depth = tree == 0   ? 0
                      : tree == 1 ? shape.max_depth
                      : tree < 4  ? 6 + tree
                      : tree == 4 ? 14
                                  : 1 + (tree - 5) % 7;
    grow(random, shape, c, depth, tree == 1 ? Kind::kChain : tree < 4 ? Kind::kFull : Kind::kBush, false, m);
    m.tree_start.push_back(static_cast<int64_t>(m.nodes.size()));
    m.tree_output.push_back(shape.width == 1 ? tree % shape.n_outputs : 0);
  }
  const ForestShape forest_shape{shape.n_trees,   shape.n_outputs, shape.width, static_cast<int32_t>(c.planes.size()),
                                 shape.n_columns, shape.code_bytes};
  m.built = std::make_unique<BuiltForest>(EnsembleArrays{forest_shape, m.tree_start.data(), m.tree_output.data(),
                                                         m.nodes.data(), m.value.data(), m.sets.data(), m.sets.size()});
  m.forest = m.built->view();
  m.forest.strip = 2 * kRun;  // less than the rows of the largest table
  for (size_t i = 0; i < m.nodes.size(); ++i) m.cover.push_back(random.chance(0.05) ? 0.0 : random.uniform() * 100);
  for (size_t i = 0; i < m.nodes.size() * index(shape.width); ++i) m.node_value.push_back(random.number());
  m.paths = std::make_unique<Paths>(*m.built, m.node_value.data(), true);
  m.shap = std::make_unique<ShapArrays>(m.forest, m.cover.data(), gauss_legendre);
  return model;
}

}  // namespace treeinner
