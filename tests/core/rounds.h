// Boosting and the shares of rows in centred scores, one row at a time, as the definitions say.
#pragma once

#include "model/share_table.h"
#include "oracle.h"

namespace treeinner {

// How rows go through boosting: rounds of trees; residuals at the start of a round, or averaged over its step.
struct Rounds {
  Loss::Kind loss{};
  bool averaged = false;
  std::vector<int32_t> first_tree{0}, first_point{0};
  std::vector<double> point{}, point_weight{};
  int n() const { return static_cast<int>(first_tree.size()) - 1; }
};

// The first round is empty. Of several sizes, then: rounds of 1 to 3 trees, with 1 to 4 points.
inline Rounds rounds_of(Loss::Kind loss, bool averaged, int n_trees) {
  Rounds out{loss, averaged};
  for (int tree = 0, i = 0; tree < n_trees || i == 0; ++i) {
    tree = std::min(n_trees, i == 0 ? 0 : averaged ? tree + 1 + i % 3 : tree + 1);
    out.first_tree.push_back(tree);
    const size_t n = index(1 + i % 4), at = out.point.size();
    out.point.resize(at + n), out.point_weight.resize(at + n);
    gauss_legendre(static_cast<int>(n), out.point.data() + at, out.point_weight.data() + at);
    out.first_point.push_back(static_cast<int32_t>(at + n));
  }
  return out;
}

namespace oracle {

inline std::vector<double> residuals(Loss::Kind loss, const std::vector<double>& y, const std::vector<double>& margin) {
  std::vector<double> out;
  double total = 0;
  for (const double m : margin) total += std::exp(m);
  for (size_t k = 0; k < margin.size(); ++k) {
    const double e = std::exp(margin[k]);
    out.push_back(loss == Loss::kSquared    ? y[k] - margin[k]
                  : loss == Loss::kLogistic ? y[k] - e / (1 + e)
                  : loss == Loss::kPoisson  ? y[k] - e
                                            : (y[0] == static_cast<double>(k)) - e / total);
  }
  return out;
}

// (rounds, outputs, rows), weighted; (outputs, padded rows), from 0 on; (rows,).
struct Boosted {
  std::vector<double> residual, margin, first_order;
};

// y: (outputs, padded rows).
inline Boosted boost(const Forest& f, const Rounds& rounds, const void* codes, int n_rows, const double* y,
                     const double* weight) {
  const size_t n = index(n_rows), n_outputs = index(f.n_outputs), stride = index(padded(n_rows));
  Boosted out{std::vector<double>(index(rounds.n()) * n_outputs * n), std::vector<double>(n_outputs * stride),
              std::vector<double>(n)};
  for (size_t row = 0; row < n; ++row) {
    std::vector<double> target, margin(n_outputs);
    for (size_t k = 0; k < n_outputs; ++k) target.push_back(y[k * stride + row]);
    for (size_t round = 0; round < index(rounds.n()); ++round) {
      std::vector<double> step(n_outputs), after = margin, at = margin;
      for (int tree = rounds.first_tree[round]; tree < rounds.first_tree[round + 1]; ++tree) {
        const int64_t leaf = descend(f, tree, codes, static_cast<int>(row), [](const Split&, int, int) {});
        for (int k = 0; k < f.width; ++k) {
          step[index(f.tree_output[tree] + k)] += f.leaf_value[leaf * f.width + k];
          after[index(f.tree_output[tree] + k)] += f.leaf_value[leaf * f.width + k];
        }
      }
      const auto add = [&](double point, double point_weight) {
        for (size_t k = 0; k < n_outputs; ++k) at[k] = margin[k] + point * step[k];
        const std::vector<double> g = residuals(rounds.loss, target, at);
        for (size_t k = 0; k < n_outputs; ++k)
          out.residual[(round * n_outputs + k) * n + row] += point_weight * g[k] * (weight ? weight[row] : 1.0);
      };
      const std::vector<double> start = residuals(rounds.loss, target, margin);
      for (size_t k = 0; k < n_outputs; ++k) out.first_order[row] += step[k] * start[k] * (weight ? weight[row] : 1.0);
      if (!rounds.averaged) add(0, 1);
      for (int i = rounds.first_point[round]; rounds.averaged && i < rounds.first_point[round + 1]; ++i)
        add(rounds.point[index(i)], rounds.point_weight[index(i)]);
      margin = after;
    }
    for (size_t k = 0; k < n_outputs; ++k) out.margin[k * stride + row] = margin[k];
  }
  return out;
}

struct Centred {
  std::vector<double> weight, value, residual;  // (nodes, width)  means over the rows in a node, and their weight
  std::vector<double> split_scores;             // (splits, width)
  std::vector<double> shares;                   // (rows, places)
  std::vector<double> sizes, centred_sizes;     // likewise, of their terms; counted from the root's means
};

// residual(tree, k, row): weighted. weight: (rows,) or null.
template <class Residual>
Centred centred(const Forest& f, const void* codes, int n_rows, const double* weight, Residual residual) {
  const size_t width = index(f.width), n = index(n_nodes(f)) * width, sums = index(n_rows * n_places(f));
  Centred out{std::vector<double>(n),    std::vector<double>(n),    std::vector<double>(n),   {},
              std::vector<double>(sums), std::vector<double>(sums), std::vector<double>(sums)};
  struct Step {
    int player, node, child;
  };
  // visit(row, its weight, leaf, its way, where the tree's nodes begin)
  const auto for_each_way = [&](int tree, auto visit) {
    for (int row = 0; row < n_rows; ++row) {
      std::vector<Step> way;
      const int64_t leaf = descend(
          f, tree, codes, row, [&](const Split& s, int node, int child) { way.push_back({s.player, node, child}); });
      visit(row, weight ? weight[row] : 1.0, leaf, way);
    }
  };
  for (int tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    const auto at = [&](int64_t node, size_t k) { return index(t.first_node + node) * width + k; };
    for_each_way(tree, [&](int row, double w, int64_t leaf, std::vector<Step> way) {
      way.push_back({0, 0, 0});  // the root
      for (const Step& s : way)
        for (size_t k = 0; k < width; ++k) {
          out.weight[at(s.child, k)] += w;
          out.value[at(s.child, k)] += w * f.leaf_value[index(leaf) * width + k];
          out.residual[at(s.child, k)] += residual(tree, k, row);
        }
    });
    for (int64_t node = 0; node <= 2 * t.n_splits; ++node)
      for (size_t k = 0; k < width; ++k) {
        const size_t i = at(node, k);
        if (out.weight[i] > 0) out.value[i] /= out.weight[i], out.residual[i] /= out.weight[i];
        if (node >= t.n_splits) out.value[i] = f.leaf_value[index(t.first_leaf + node - t.n_splits) * width + k];
      }
    for (int64_t split = 0; split < t.n_splits; ++split)
      for (size_t k = 0; k < width; ++k) {
        const size_t l = at(t.splits[split].left, k), r = at(t.splits[split].right, k), v = at(split, k);
        const double share = out.weight[v] > 0 ? out.weight[l] * out.weight[r] / out.weight[v] : 0.0;
        out.split_scores.push_back((out.value[l] - out.value[r]) * (out.residual[l] - out.residual[r]) * share);
      }
    for_each_way(tree, [&](int row, double w, int64_t leaf, const std::vector<Step>& way) {
      for (const Step& s : way)
        for (size_t k = 0; k < width; ++k) {
          const size_t to =
              index((row * f.n_outputs + f.tree_output[tree] + static_cast<int>(k)) * f.n_players + s.player);
          const size_t node = at(s.node, k), child = at(s.child, k), root = at(0, k);
          const double c = out.value[node], to_c = out.value[child];
          const double m = out.residual[node], m0 = out.residual[root], to_m = out.residual[child];
          const double g = residual(tree, k, row), l = f.leaf_value[index(leaf) * width + k];
          const auto size = [](auto... x) { return (std::fabs(x) + ...); };
          out.shares[to] += (to_c - c) * (g - w * m) + w * (to_m - m) * (l - to_c);
          out.sizes[to] += size(c, to_c, l) * size(g, w * m, w * to_m, w * m0);
          out.centred_sizes[to] +=
              size((to_c - c) * (g - w * m0), w * (to_c - c) * (m - m0), w * (to_m - m) * (l - to_c));
        }
    });
  }
  return out;
}

}  // namespace oracle
}  // namespace treeinner
