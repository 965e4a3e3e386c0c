// Path-dependent TreeSHAP, exact, for 64 rows at a time.
//
// For a leaf with value v and path features j let z_j be the product of the cover shares of its splits on j, and o_j =
// 1 if the row satisfies all of them, else 0. The leaf gives feature j
//     v * integral over u in [0, 1] of (o_j - z_j) * product over i != j of (z_i (1 - u) + o_i u),
// a polynomial of degree d - 1, so ceil(d / 2) Gauss-Legendre points integrate it exactly. With F_j = z_j (1 - u) + o_j
// u: going down, keep P = product of F at every point (a feature met again multiplies by new F / old F); a leaf returns
// v * P; a node returns the sum of its children; the edge into a node adds to phi_j the sum over the points of
// (coefficient new - old) * returned, with coefficient = weight of the point * (o_j - z_j) / F_j.
//
// At each point, factor and coefficient of an edge take one of three values, by what the row did before and does now:
//     stays (o = 1 before and now), leaves (1 before, 0 now), was away (0 before; the coefficients cancel to 0).
// The points are independent of each other: a tree that needs more than kPoints of them is swept several times, and the
// constants of a sweep are made when it starts, so that their memory does not grow with the forest.
#pragma once

#include "route.h"

namespace treeinner::TREEINNER_NS {

constexpr int kPoints = 4;  // quadrature points of one sweep

template <int Points>
struct EdgeConstants {
  double factor_stays[Points], factor_leaves[Points], factor_away[Points];
  double credit_stays[Points], credit_leaves[Points];
};

template <int Points>
inline void make_constants(const ShapEdge* edges, int64_t n, const double* u, const double* w,
                           EdgeConstants<Points>* constants) {
  for (int64_t i = 0; i < n; ++i) {
    const double z = edges[i].share, before = edges[i].share_before;
    EdgeConstants<Points>& c = constants[i];
    for (int q = 0; q < Points; ++q) {
      const double in = z * (1 - u[q]) + u[q], out = z * (1 - u[q]);
      const double in_before = before * (1 - u[q]) + u[q];  // 1 if the feature is new on the path: then before = 1
      c.factor_stays[q] = in / in_before;
      c.factor_leaves[q] = out / in_before;
      c.factor_away[q] = before > 0 ? z / before : 0.0;
      c.credit_stays[q] = w[q] * ((1 - z) / in - (1 - before) / in_before);
      c.credit_leaves[q] = w[q] * (-1 / (1 - u[q]) - (1 - before) / in_before);
    }
  }
}

// One sweep over a tree for one block of rows.
template <int Points>
struct Sweep {
  static constexpr int64_t kFrame = 2 * Points * kRows;

  const Word* right;     // (splits,)  who would go right
  double* stack;         // [depth][2][Points][64]: P, then what is returned
  Word* satisfied;       // [depth]
  int64_t* open;         // [depth]  edge that leads there
  const double* weight;  // (64,) or null

  double* product(int depth) const { return stack + depth * kFrame; }
  double* returned(int depth) const { return stack + depth * kFrame + kFrame / 2; }
  Word before(const ShapEdge& e) const { return e.previous ? satisfied[e.previous] : ~Word{0}; }

  // What the rows of a group multiply by and are credited with at one point of an edge.
  static Lanes factor(const EdgeConstants<Points>& c, int q, Mask now, Mask was) {
    return choose(now, c.factor_stays[q], choose(was, c.factor_leaves[q], c.factor_away[q]));
  }
  static Lanes credit(const EdgeConstants<Points>& c, int q, Mask now, Mask was) {
    return choose(now, c.credit_stays[q], choose(was, c.credit_leaves[q], 0.0));
  }

  // Go down an edge to a split.
  void enter(const ShapEdge& e, const EdgeConstants<Points>& c) const {
    const Word was = before(e), now = was & (e.goes_right ? right[e.split] : ~right[e.split]);
    satisfied[e.depth] = now;
    const double* above = product(e.depth - 1);
    double *p = product(e.depth), *s = returned(e.depth);
    for (int q = 0; q < Points; ++q) TREEINNER_UNROLL for (int g = 0; g < kGroups; ++g) {
        const int64_t at = q * kRows + g * kLanes;
        store(p + at, load(above + at) * factor(c, q, mask_of(now, g), mask_of(was, g)));
        store(s + at, all(0.0));
      }
  }

  // Come back up it.
  void leave(const ShapEdge& e, const EdgeConstants<Points>& c, double* sum) const {
    const Word now = satisfied[e.depth], was = before(e);
    double* above = returned(e.depth - 1);
    const double* s = returned(e.depth);
    TREEINNER_UNROLL for (int g = 0; g < kGroups; ++g) {
      Lanes total = load(sum + g * kLanes);
      for (int q = 0; q < Points; ++q) {
        const int64_t at = q * kRows + g * kLanes;
        const Lanes here = load(s + at);
        store(above + at, load(above + at) + here);
        total = total + here * credit(c, q, mask_of(now, g), mask_of(was, g));
      }
      store(sum + g * kLanes, total);
    }
  }

  // Down an edge to a leaf and back up at once: half of all edges, and nothing of them is kept.
  void visit_leaf(const ShapEdge& e, const EdgeConstants<Points>& c, double value, double* sum) const {
    const Word was = before(e), now = was & (e.goes_right ? right[e.split] : ~right[e.split]);
    const double* p = product(e.depth - 1);
    double* above = returned(e.depth - 1);
    const Lanes v = all(value);
    TREEINNER_UNROLL for (int g = 0; g < kGroups; ++g) {
      const Mask now_g = mask_of(now, g), was_g = mask_of(was, g);
      Lanes total = load(sum + g * kLanes);
      for (int q = 0; q < Points; ++q) {
        const int64_t at = q * kRows + g * kLanes;
        const Lanes here = load(p + at) * factor(c, q, now_g, was_g) * v;
        store(above + at, load(above + at) + here);
        total = total + here * credit(c, q, now_g, was_g);
      }
      store(sum + g * kLanes, total);
    }
  }

  // Edges come in pre-order: before an edge is entered, every open edge as deep or deeper is left.
  void run(const ShapEdge* edges, int64_t n, const EdgeConstants<Points>* constants, const double* leaf_value,
           int width, double scale, double* sums) const {
    for (int q = 0; q < Points; ++q)
      for (int r = 0; r < kRows; ++r) product(0)[q * kRows + r] = weight ? scale * weight[r] : scale;
    int depth = 0;
    auto sum_of = [&](const ShapEdge& e) { return sums + static_cast<int64_t>(e.player) * kRows; };
    auto close_to = [&](int until) {
      for (; depth >= until; --depth) leave(edges[open[depth]], constants[open[depth]], sum_of(edges[open[depth]]));
    };
    for (int64_t i = 0; i < n; ++i) {
      const ShapEdge& e = edges[i];
      close_to(e.depth);
      if (e.leaf >= 0) {
        visit_leaf(e, constants[i], leaf_value[static_cast<int64_t>(e.leaf) * width], sum_of(e));
      } else {
        enter(e, constants[i]);
        open[depth = e.depth] = i;
      }
    }
    close_to(1);
  }
};

// All rows through one tree at points [q, q + Points) of its rule.
template <int Points, class Code>
inline void sweep_tree(const Forest& f, int tree, const ShapForest& shap, int q, const Code* codes, int64_t n_rows,
                       double scale, const double* weight, const ShapScratch& scratch, double* sums) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t block_sums = static_cast<int64_t>(f.n_outputs) * f.n_players * kRows;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows, stride = padded(n_rows);
  const Split* splits = f.splits + f.first_split[tree];
  const int64_t n_splits = f.first_split[tree + 1] - f.first_split[tree];
  const ShapEdge* edges = shap.edges + shap.first_edge[tree];
  const int64_t n_edges = shap.first_edge[tree + 1] - shap.first_edge[tree];
  auto* constants = reinterpret_cast<EdgeConstants<Points>*>(scratch.constants);
  make_constants(edges, n_edges, shap.u + shap.first_point[tree] + q, shap.w + shap.first_point[tree] + q, constants);
  for (int64_t block = 0; block < n_blocks; ++block) {
    for (int64_t i = 0; i < n_splits; ++i) scratch.right[i] = right_word(f, splits[i], codes + block * block_codes);
    for (int k = 0; k < f.width; ++k) {
      const int output = f.tree_output[tree] + k;
      const double* w = weight ? weight + output * stride + block * kRows : nullptr;
      const Sweep<Points> sweep{scratch.right, scratch.stack, scratch.satisfied, scratch.open, w};
      sweep.run(edges, n_edges, constants, f.leaf_value + f.first_leaf[tree] * f.width + k, f.width, scale,
                sums + block * block_sums + static_cast<int64_t>(output) * f.n_players * kRows);
    }
  }
}

// sums: [block][output][player][64], added to; weight: (outputs, padded rows) or null, as in path.h; tree_scale: a
// factor per tree, or null.
template <class Code>
inline void add_shap(const Forest& f, int first, int n_trees, const ShapForest& shap, const Code* codes, int64_t n_rows,
                     const double* tree_scale, const double* weight, const ShapScratch& scratch, double* sums) {
  for (int tree = first; tree < first + n_trees; ++tree) {
    int q = 0;
    const int n = shap.n_points[tree];
    const double scale = tree_scale ? tree_scale[tree] : 1.0;
    for (; q + kPoints <= n; q += kPoints) sweep_tree<4>(f, tree, shap, q, codes, n_rows, scale, weight, scratch, sums);
    if (n - q == 3) sweep_tree<3>(f, tree, shap, q, codes, n_rows, scale, weight, scratch, sums);
    if (n - q == 2) sweep_tree<2>(f, tree, shap, q, codes, n_rows, scale, weight, scratch, sums);
    if (n - q == 1) sweep_tree<1>(f, tree, shap, q, codes, n_rows, scale, weight, scratch, sums);
  }
}

}  // namespace treeinner::TREEINNER_NS
