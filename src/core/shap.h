// Path-dependent TreeSHAP, exact, for 64 rows at a time.
//
// For a leaf with value v and path features j let z_j be the product of the cover shares of its splits on j, and o_j =
// 1 if the row satisfies all of them, else 0. The leaf gives feature j
//     v * integral over u in [0, 1] of (o_j - z_j) * product over i != j of (z_i (1 - u) + o_i u),
// a polynomial of degree d - 1, so ceil(d / 2) Gauss-Legendre points integrate it exactly. With F_j = z_j (1 - u) + o_j
// u: going down, keep P = product of F at every point (a feature met again multiplies by new F / old F; the weights of
// the points are in P from the root on); a leaf returns v * P; a node returns the sum of its children; the edge into a
// node adds to phi_j the sum over the points of (coefficient new - old) * returned, with coefficient = (o_j - z_j) /
// F_j.
//
// At each point, factor and coefficient of an edge take one of three values, by what the row did before and does now:
//     stays (o = 1 before and now), leaves (1 before, 0 now), was away (0 before; the coefficients cancel to 0).
// Two leaves under one split, a pair, are like one edge: what they return together and what their feature gets for it
// depend on whether the row goes left, goes right or was away. With the edge into the pair that takes one visit.
//
// Edges are sorted by kind, not by place (forest.h), so each loop does one thing and no branch depends on the tree. The
// points are independent of each other: a tree that needs more than kPoints of them is swept several times, and the
// constants of a sweep are made when it starts, so that their memory does not grow with the forest.
#pragma once

#include "route.h"

namespace treeinner::TREEINNER_NS {

constexpr int kSweepGroups = kSweepRows / kLanes;

template <int Points>
struct EdgeConstants {
  double factor_first[Points], factor_second[Points], factor_away[Points];  // first: stays, or the pair's left
  double credit_first[Points], credit_second[Points];                       // second: leaves, or the pair's right
};

// value: of the leaf, which is then what the factor returns; 1 for an edge to a split.
template <int Points>
inline void edge_constants(const ShapEdge& e, const double* u, double value, EdgeConstants<Points>& c) {
  const double z = e.share, before = e.share_before, away = before > 0 ? z / before : 0.0;
  for (int q = 0; q < Points; ++q) {
    const double in = z * (1 - u[q]) + u[q], out = z * (1 - u[q]);
    const double per_before = 1 / (before * (1 - u[q]) + u[q]);  // 1 if the feature is new on the path: before = 1
    c.factor_first[q] = in * per_before * value;
    c.factor_second[q] = out * per_before * value;
    c.factor_away[q] = away * value;
    c.credit_first[q] = (1 - z) / in - (1 - before) * per_before;
    c.credit_second[q] = -1 / (1 - u[q]) - (1 - before) * per_before;
  }
}

// Two leaves under one split: what they return together, and what their feature gets for it; in place of the left one.
template <int Points>
inline void join_pair(EdgeConstants<Points>& l, const EdgeConstants<Points>& r) {
  for (int q = 0; q < Points; ++q) {
    const double goes_left = l.factor_first[q] * l.credit_first[q] + r.factor_second[q] * r.credit_second[q];
    const double goes_right = l.factor_second[q] * l.credit_second[q] + r.factor_first[q] * r.credit_first[q];
    l.factor_first[q] += r.factor_second[q];
    l.factor_second[q] += r.factor_first[q];
    l.factor_away[q] += r.factor_away[q];
    l.credit_first[q] = goes_left;
    l.credit_second[q] = goes_right;
  }
}

// leaf_value: `width` apart.
template <int Points>
inline void make_constants(const ShapTree& t, const double* u, const double* leaf_value, int width,
                           EdgeConstants<Points>* constants) {
  const int64_t n = t.leaves_end();
  for (int64_t i = 0; i < n; ++i) {
    const ShapEdge& e = t.edges[i];
    edge_constants<Points>(e, u, e.leaf < 0 ? 1.0 : leaf_value[static_cast<int64_t>(e.leaf) * width], constants[i]);
  }
  for (int64_t i = t.n_inner; i < t.pairs_end(); i += 3) join_pair(constants[i + 1], constants[i + 2]);
}

// For every edge: which rows of a block satisfied the feature's earlier splits, and which satisfy this one too.
inline void follow(const ShapTree& t, const Word* right, ShapWords* words) {
  const int64_t n = t.leaves_end();
  for (int64_t i = 0; i < n; ++i) {
    const ShapEdge& e = t.edges[i];
    words[i].was = e.previous < 0 ? ~Word{0} : words[e.previous].now;
    words[i].now = words[i].was & (e.goes_right ? right[e.split] : ~right[e.split]);
  }
}

// One sweep over a tree for kSweepRows rows.
template <int Points>
struct Sweep {
  static constexpr int64_t kFrame = Points * kSweepRows;

  const ShapEdge* edges;
  const EdgeConstants<Points>* constants;
  const ShapWords* words;
  int first_group;   // of the block
  double* products;  // [split][Points][rows]
  double* returned;  // [slot][Points][rows]
  double* sums;      // [player][rows]

  // One of an edge's three numbers at one point, by row; one of two, if the feature is new on the path.
  template <bool Again>
  struct Chosen {
    Lanes first, second, away;
    Chosen(double f, double s, double a) : first(all(f)), second(all(s)), away(all(a)) {}
    Lanes operator()(Mask now, Mask was) const {
      return Again ? choose(now, first, choose(was, second, away)) : choose(now, first, second);
    }
  };
  template <bool Again>
  static Chosen<Again> factor(const EdgeConstants<Points>& c, int q) {
    return {c.factor_first[q], c.factor_second[q], c.factor_away[q]};
  }
  template <bool Again>
  static Chosen<Again> credit(const EdgeConstants<Points>& c, int q) {
    return {c.credit_first[q], c.credit_second[q], 0.0};
  }

  double* sum_of(const ShapEdge& e) const { return sums + static_cast<int64_t>(e.player) * kSweepRows; }

  // The rows of a sweep at one edge, by group. Read once: a store of vectors may change any memory, says the language.
  struct Rows {
    Mask now[kSweepGroups], was[kSweepGroups];
    Rows(const ShapWords& w, int first_group) {
      TREEINNER_UNROLL for (int g = 0; g < kSweepGroups; ++g) {
        now[g] = mask_of(w.now, first_group + g);
        was[g] = mask_of(w.was, first_group + g);
      }
    }
  };

  // visit(q, g, at) for every point and group: at is their place in a frame.
  template <class Visit>
  static TREEINNER_INLINE void each(Visit visit) {
    TREEINNER_UNROLL for (int q = 0; q < Points; ++q) TREEINNER_UNROLL for (int g = 0; g < kSweepGroups; ++g)
        visit(q, g, q * kSweepRows + g * kLanes);
  }

  void start(const double* w, double scale, const double* weight) const {
    for (int q = 0; q < Points; ++q)
      for (int r = 0; r < kSweepRows; ++r) products[q * kSweepRows + r] = w[q] * (weight ? scale * weight[r] : scale);
  }

  // Down the edges to splits, upper ones first.
  TREEINNER_INLINE void go_down(int64_t n_inner) const {
    for (int64_t i = 0; i < n_inner; ++i) {
      const Rows rows(words[i], first_group);
      const EdgeConstants<Points>& c = constants[i];
      const double* above = products + edges[i].parent * kFrame;
      double* p = products + (i + 1) * kFrame;
      each([&](int q, int g, int at) {
        store(p + at, load(above + at) * factor<true>(c, q)(rows.now[g], rows.was[g]));
      });
    }
  }

  // Down to pairs of leaves and back. If both players are new, the pair's credit is the same at every point (factor *
  // coefficient = o - z): it waits for the sum of the products.
  template <bool Again>
  TREEINNER_INLINE void visit_pairs(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; i += 3) {
      const Rows rows(words[i], first_group), pair(words[i + 1], first_group);
      const EdgeConstants<Points>&c = constants[i], &d = constants[i + 1];
      const double* p = products + edges[i].parent * kFrame;
      double *r = returned + edges[i].returns * kFrame, *sum = sum_of(edges[i]), *pair_sum = sum_of(edges[i + 1]);
      Lanes total[kSweepGroups], pair_total[kSweepGroups];
      each([&](int q, int g, int at) {
        const Lanes product = load(p + at) * factor<Again>(c, q)(rows.now[g], rows.was[g]);
        const Lanes here = product * factor<Again>(d, q)(pair.now[g], pair.was[g]);
        store(r + at, here);
        const Lanes credited = here * credit<Again>(c, q)(rows.now[g], rows.was[g]);
        const Lanes pair_credited = Again ? product * credit<true>(d, q)(pair.now[g], pair.was[g]) : product;
        total[g] = q ? total[g] + credited : credited;
        pair_total[g] = q ? pair_total[g] + pair_credited : pair_credited;
      });
      // The two players may be one: a sum is read after the other is written.
      const auto pair_credit = credit<false>(d, 0);
      TREEINNER_UNROLL for (int g = 0; g < kSweepGroups; ++g) {
        const Lanes all_points = Again ? pair_total[g] : pair_total[g] * pair_credit(pair.now[g], pair.was[g]);
        store(pair_sum + g * kLanes, load(pair_sum + g * kLanes) + all_points);
        store(sum + g * kLanes, load(sum + g * kLanes) + total[g]);
      }
    }
  }

  // Adds what the edge's player gets; here(q, g, at): what is returned up the edge.
  template <class Here>
  TREEINNER_INLINE void credit_edge(int64_t i, const Rows& rows, Here here) const {
    Lanes total[kSweepGroups];
    const EdgeConstants<Points>& c = constants[i];
    double* sum = sum_of(edges[i]);
    each([&](int q, int g, int at) {
      const Lanes credited = here(q, g, at) * credit<true>(c, q)(rows.now[g], rows.was[g]);
      total[g] = q ? total[g] + credited : credited;
    });
    TREEINNER_UNROLL for (int g = 0; g < kSweepGroups; ++g) store(sum + g * kLanes, load(sum + g * kLanes) + total[g]);
  }

  // Down to other leaves and back.
  TREEINNER_INLINE void visit_leaves(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const Rows rows(words[i], first_group);
      const EdgeConstants<Points>& c = constants[i];
      const double* p = products + edges[i].parent * kFrame;
      double* r = returned + edges[i].returns * kFrame;
      credit_edge(i, rows, [&](int q, int g, int at) {
        const Lanes here = load(p + at) * factor<true>(c, q)(rows.now[g], rows.was[g]);
        store(r + at, here);
        return here;
      });
    }
  }

  // Back up from the splits, lower ones first.
  TREEINNER_INLINE void come_up(int64_t n_inner) const {
    for (int64_t i = n_inner; i-- > 0;) {
      double* r = returned + edges[i].returns * kFrame;
      const double* other = returned + edges[i].other * kFrame;
      credit_edge(i, Rows(words[i], first_group), [&](int, int, int at) {
        const Lanes here = load(r + at) + load(other + at);
        store(r + at, here);
        return here;
      });
    }
  }

  void run(const ShapTree& tree) const {
    const Sweep self = *this;  // a copy of its own, which no store can change
    const ShapTree t = tree;
    self.go_down(t.n_inner);
    self.template visit_pairs<false>(t.n_inner, t.plain_end());
    self.template visit_pairs<true>(t.plain_end(), t.pairs_end());
    self.visit_leaves(t.pairs_end(), t.leaves_end());
    self.come_up(t.n_inner);
  }
};

// Rows of blocks [begin, end) through one tree at points [q, q + Points) of its rule.
template <int Points, class Code>
inline void sweep_tree(const Forest& f, int tree, const ShapForest& shap, int q, const Code* codes, int64_t begin,
                       int64_t end, int64_t stride, double scale, const double* weight, const ShapScratch& scratch,
                       double* sums) {
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kRows;
  const int64_t slice_sums = static_cast<int64_t>(f.n_outputs) * f.n_players * kSweepRows;
  const Split* splits = f.splits + f.first_split[tree];
  const int64_t n_splits = f.first_split[tree + 1] - f.first_split[tree];
  const ShapTree t = shap.tree(tree);
  const double *u = shap.u + shap.first_point[tree] + q, *w = shap.w + shap.first_point[tree] + q;
  auto* constants = reinterpret_cast<EdgeConstants<Points>*>(scratch.constants);
  for (int k = 0; k < f.width; ++k) {
    const int output = f.tree_output[tree] + k;
    make_constants(t, u, f.leaf_value + f.first_leaf[tree] * f.width + k, f.width, constants);
    for (int64_t block = begin; block < end; ++block) {
      for (int64_t i = 0; i < n_splits; ++i) scratch.right[i] = right_word(f, splits[i], codes + block * block_codes);
      follow(t, scratch.right, scratch.words);
      for (int g = 0; g < kGroups; g += kSweepGroups) {
        const int64_t row = block * kRows + g * kLanes;
        double* slice = sums + row / kSweepRows * slice_sums + static_cast<int64_t>(output) * f.n_players * kSweepRows;
        const Sweep<Points> sweep{t.edges, constants, scratch.words, g, scratch.products, scratch.returned, slice};
        sweep.start(w, scale, weight ? weight + output * stride + row : nullptr);
        sweep.run(t);
      }
    }
  }
}

// sums: [slice of 16 rows][output][player][16], added to; weight: (outputs, padded rows) or null, as in path.h;
// tree_scale: a factor per tree, or null. All trees see a few blocks, then the next few: their sums stay in L2.
template <class Code>
inline void add_shap(const Forest& f, int first, int n_trees, const ShapForest& shap, const Code* codes, int64_t n_rows,
                     const double* tree_scale, const double* weight, const ShapScratch& scratch, double* sums) {
  constexpr int64_t kSumBytes = 400 << 10, kMost = 16, kLeast = 4;  // fewer blocks: constants would cost too much
  const int64_t block_bytes = static_cast<int64_t>(f.n_outputs) * f.n_players * kRows * 8;
  const int64_t fit = block_bytes ? kSumBytes / block_bytes : kMost;
  const int64_t together = fit > kMost ? kMost : fit < kLeast ? kLeast : fit;
  const int64_t n_blocks = (n_rows + kRows - 1) / kRows, stride = padded(n_rows);
  for (int64_t begin = 0; begin < n_blocks; begin += together) {
    const int64_t end = begin + together < n_blocks ? begin + together : n_blocks;
    for (int tree = first; tree < first + n_trees; ++tree) {
      const double scale = tree_scale ? tree_scale[tree] : 1.0;
      auto sweep = [&](auto points, int q) {
        sweep_tree<decltype(points)::n>(f, tree, shap, q, codes, begin, end, stride, scale, weight, scratch, sums);
      };
      int q = 0;
      const int n = shap.n_points[tree];
      for (; q + kPoints <= n; q += kPoints) sweep(Count<kPoints>{}, q);
      if (n - q == 3) sweep(Count<3>{}, q);
      if (n - q == 2) sweep(Count<2>{}, q);
      if (n - q == 1) sweep(Count<1>{}, q);
    }
  }
}

}  // namespace treeinner::TREEINNER_NS
