// Path-dependent TreeSHAP, exact, for 64 rows at a time.
//
// For a leaf with value v and path features j let z_j be the product of the cover shares of its splits on j, and o_j =
// 1 if the row satisfies all of them, else 0. The leaf gives feature j
//     v * integral over u in [0, 1] of (o_j - z_j) * product over i != j of F_i,  F_i = z_i (1 - u) + o_i u,
// a polynomial of degree d - 1, so ceil(d / 2) Gauss-Legendre points integrate it exactly.
//
// Summed over the leaves, that is a number per split and point. Take a split on j with the share a of its cover going
// left, z the share of the earlier splits on j, and a row that satisfied them. One step to the left multiplies F_j by
//     a + (o - a) t,  o = 1 if the row goes left, else 0,  t = u / (z (1 - u) + u),
// one to the right by 1 minus that. With P the product of these factors from the root to the split (the weights of the
// points are in it from the start), and the worth of a node: its value for a leaf, else the sum of its children's,
// each times the factor on the way to it, the split gives j
//     (o - a) * sum over the points of s P (worth of left child - worth of right child),  s = z / (z (1 - u) + u)^2.
// For a row that was away, o - a is replaced by 0. If j is new on the path, z = 1, t = u and s = 1.
//
// So: products down, worths up, credit where they meet. A split has one frame of numbers, for its product first and
// then for its worth. The lowest two levels have none: a split with two leaves (a pair) under one with two pairs (a
// quad) is visited with it, on numbers in registers. If the three players of a quad are new on the path, its worth is a
// square polynomial in u, and its credits need no more of the products than the sum of P and of u P.
//
// Left here is the child with the smaller share of the cover, and only its factor F is made: the right child's product
// is P - F P, the split's worth that of the right child plus F times the difference. That way round a rare leaf of huge
// value takes no digits from the others. Splits are sorted by kind (model/tables.h): each loop does one thing and no
// branch depends on the tree. A tree that needs more than kPoints points is swept several times, with constants that
// are made when a sweep starts, so that their memory does not grow with the forest.
#pragma once

#include "../model/tables.h"
#include "route.h"

namespace treeinner {
struct ShapArgs {
  const ShapTree* trees;  // (trees of the forest,)
  const double* weight;   // (outputs, padded rows) or null, as in path.h
  double* sums;           // [slice of 16 rows][output][player][16], added to
};

// Rows that satisfied all earlier splits on the player of a split; those of them that go left.
struct ShapWords {
  uint64_t was, left;
};

constexpr int kShapConstants = 2 * kPoints + 4;  // doubles of a split's constants at most

struct ShapScratch {
  ShapWords* words;   // (max_splits,)
  double* frames;     // (2 max_splits + 2, 4, 16)
  double* constants;  // (max_splits, kShapConstants)
};

namespace TREEINNER_NS {
using Rows = Pack<Doubles, kSlice>;  // a number for each row of a slice

// share + step * t, with the step of a row that goes left or right at a split; 0 if it was away before.
struct Line {
  double share, left, right;
};

template <int Points>
struct SplitConstants {
  Line way;       // factor on the way to the left child, as share + step * t; of a pair: what it is worth
  double in_all;  // of a plain quad's left pair: the quad's mean worth; of its right pair: the difference of the pairs'
  double t[Points], s[Points];
};
static_assert(sizeof(SplitConstants<kPoints>) == kShapConstants * sizeof(double), "as much as there is in ShapScratch");

template <int Points>
inline void split_constants(const ShapSplit& split, const double* u, SplitConstants<Points>& c) {
  c.way = {split.child_share[0], split.child_share[1], -split.child_share[0]};
  for (int q = 0; q < Points; ++q) {
    const double per_before = 1 / (split.share * (1 - u[q]) + u[q]);
    c.t[q] = u[q] * per_before;
    c.s[q] = split.share * per_before * per_before;
  }
}

// What two leaves under one split are worth together, in place of the factor to the left one.
template <int Points>
inline void join_pair(const ShapSplit& split, SplitConstants<Points>& c, double left, double right) {
  c.way = {split.child_share[0] * left + split.child_share[1] * right, c.way.left * (left - right),
           c.way.right * (left - right)};
}

// leaf_value: `width` apart. A leaf outside the pairs is worth the same to all rows: its frame is filled here.
template <int Points>
inline void make_constants(const ShapTree& t, const double* u, const double* leaf_value, int width,
                           SplitConstants<Points>* constants, double* frames) {
  constexpr int64_t kFrame = Points * kSlice;
  const auto value = [&](int32_t leaf) { return leaf_value[static_cast<int64_t>(leaf) * width]; };
  for (int64_t i = 0; i < t.end; ++i) split_constants<Points>(t.splits[i], u, constants[i]);
  for (int64_t i = 0; i < t.n_inner; ++i)
    for (int side = 0; side < 2; ++side)
      if (const int32_t leaf = t.splits[i].leaf[side]; leaf >= 0)
        for (int64_t r = 0; r < kFrame; ++r) frames[t.splits[i].worth[side] * kFrame + r] = value(leaf);
  for (int64_t i = t.n_inner; i < t.end; ++i)
    if (const int32_t* leaf = t.splits[i].leaf; leaf[0] >= 0)
      join_pair(t.splits[i], constants[i], value(leaf[0]), value(leaf[1]));
  for (int64_t i = t.n_inner; i < t.plain_end; i += 3) {
    const double left = constants[i + 1].way.share, right = constants[i + 2].way.share;
    constants[i + 1].in_all = t.splits[i].child_share[0] * left + t.splits[i].child_share[1] * right;
    constants[i + 2].in_all = left - right;
  }
}

// For every split: which rows of a block satisfied the player's earlier splits, and which of them go left.
template <class Code>
inline void follow(const Forest& f, const Split* splits, const ShapTree& t, const Code* block, ShapWords* words) {
  const int64_t n = t.end;
  for (int64_t i = 0; i < n; ++i) {
    const ShapSplit& s = t.splits[i];
    Word was = ~Word{0};
    if (s.previous >= 0) {
      const ShapWords before = words[s.previous >> 1];
      was = s.previous & 1 ? before.was & ~before.left : before.left;
    }
    const int32_t flip = s.split >> 31;
    const Split& split = splits[s.split ^ flip];
    const Word right = right_word(f, split, block + static_cast<int64_t>(split.plane) * kBlock);
    words[i] = {was, was & ~(right ^ static_cast<Word>(static_cast<int64_t>(flip)))};
  }
}

// One sweep over a tree for the rows of a slice.
template <int Points>
struct Sweep {
  static constexpr int64_t kFrame = Points * kSlice;
  using Constants = SplitConstants<Points>;

  const ShapSplit* splits;
  const Constants* constants;
  const ShapWords* words;
  const double* u;
  int first_row;   // of the block
  double* frames;  // [frame][Points][rows]: products on the way down, worths on the way up
  double* sums;    // [player][rows]

  void start(const double* w, const double* weight) const {
    for (int q = 0; q < Points; ++q)
      for (int r = 0; r < kSlice; ++r) frames[q * kSlice + r] = weight ? w[q] * weight[r] : w[q];
  }

  // The step of each row on a split's way. Again: some rows may have been away.
  template <bool Again>
  TREEINNER_INLINE Rows step(int64_t i) const {
    const Line& way = constants[i].way;
    const ShapWords w = words[i];
    const Rows if_right = all<Rows>(way.right);
    return choose(w.left >> first_row, all<Rows>(way.left),
                  Again ? choose(w.was >> first_row, if_right, all<Rows>(0.0)) : if_right);
  }

  // Adds up over the points.
  static TREEINNER_INLINE Rows plus(int q, const Rows& sum, const Rows& x) { return q ? sum + x : x; }

  // Players of a quad may be the same: a sum is read after the one before is written.
  TREEINNER_INLINE void give(int64_t i, const Rows& credit) const {
    double* to = sums + static_cast<int64_t>(splits[i].player) * kSlice;
    store(to, load<Rows>(to) + credit);
  }

  // Upper splits first.
  TREEINNER_INLINE void go_down(int64_t n_inner) const {
    for (int64_t i = 0; i < n_inner; ++i) {
      const ShapSplit& s = splits[i];
      const Constants& c = constants[i];
      const Rows turn = step<true>(i), to_left = all<Rows>(c.way.share);
      const double* p = frames + s.frame * kFrame;
      double *l = frames + s.down[0] * kFrame, *r = frames + s.down[1] * kFrame;
      TREEINNER_UNROLL for (int q = 0; q < Points; ++q) {
        const Rows product = load<Rows>(p + q * kSlice), left = product * (to_left + turn * all<Rows>(c.t[q]));
        store(l + q * kSlice, left);
        store(r + q * kSlice, product - left);
      }
    }
  }

  TREEINNER_INLINE void visit_plain_quads(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; i += 3) {
      const Rows turn = step<false>(i), left = step<false>(i + 1), right = step<false>(i + 2), gap = left - right;
      const Rows to_left = all<Rows>(constants[i].way.share);
      const Rows mean = all<Rows>(constants[i + 1].in_all), mean_gap = all<Rows>(constants[i + 2].in_all);
      const Rows linear = right + to_left * gap + turn * mean_gap, square = turn * gap;
      double* frame = frames + splits[i].frame * kFrame;
      Rows p, up;
      TREEINNER_UNROLL for (int q = 0; q < Points; ++q) {
        const Rows product = load<Rows>(frame + q * kSlice), point = all<Rows>(u[q]);
        store(frame + q * kSlice, mean + (linear + square * point) * point);
        p = plus(q, p, product);
        up = plus(q, up, product * point);
      }
      const Rows left_p = to_left * p + turn * up;
      give(i, (mean_gap * p + gap * up) * turn);
      give(i + 1, left_p * left);
      give(i + 2, (p - left_p) * right);
    }
  }

  TREEINNER_INLINE void visit_quads(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; i += 3) {
      const Constants &c = constants[i], &l = constants[i + 1], &r = constants[i + 2];
      const Rows turn = step<true>(i), left = step<true>(i + 1), right = step<true>(i + 2);
      double* frame = frames + splits[i].frame * kFrame;
      Rows total, left_total, right_total;
      TREEINNER_UNROLL for (int q = 0; q < Points; ++q) {
        const Rows product = load<Rows>(frame + q * kSlice);
        const Rows to_left = all<Rows>(c.way.share) + turn * all<Rows>(c.t[q]), left_product = product * to_left;
        const Rows right_worth = all<Rows>(r.way.share) + right * all<Rows>(r.t[q]);
        const Rows gap = all<Rows>(l.way.share) + left * all<Rows>(l.t[q]) - right_worth;
        store(frame + q * kSlice, right_worth + to_left * gap);
        total = plus(q, total, product * gap * all<Rows>(c.s[q]));
        left_total = plus(q, left_total, left_product * all<Rows>(l.s[q]));
        right_total = plus(q, right_total, (product - left_product) * all<Rows>(r.s[q]));
      }
      give(i, total * turn);
      give(i + 1, left_total * left);
      give(i + 2, right_total * right);
    }
  }

  TREEINNER_INLINE void visit_pairs(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const Constants& c = constants[i];
      const Rows mean = all<Rows>(c.way.share), steps = step<true>(i);
      double* frame = frames + splits[i].frame * kFrame;
      Rows total;
      TREEINNER_UNROLL for (int q = 0; q < Points; ++q) {
        total = plus(q, total, load<Rows>(frame + q * kSlice) * all<Rows>(c.s[q]));
        store(frame + q * kSlice, mean + steps * all<Rows>(c.t[q]));
      }
      give(i, total * steps);
    }
  }

  // Lower splits first.
  TREEINNER_INLINE void come_up(int64_t n_inner) const {
    for (int64_t i = n_inner; i-- > 0;) {
      const ShapSplit& s = splits[i];
      const Constants& c = constants[i];
      const Rows turn = step<true>(i), to_left = all<Rows>(c.way.share);
      const double *l = frames + s.worth[0] * kFrame, *r = frames + s.worth[1] * kFrame;
      double* frame = frames + s.frame * kFrame;
      Rows total;
      TREEINNER_UNROLL for (int q = 0; q < Points; ++q) {
        const Rows product = load<Rows>(frame + q * kSlice), right = load<Rows>(r + q * kSlice),
                   gap = load<Rows>(l + q * kSlice) - right;
        store(frame + q * kSlice, right + (to_left + turn * all<Rows>(c.t[q])) * gap);
        total = plus(q, total, product * gap * all<Rows>(c.s[q]));
      }
      give(i, total * turn);
    }
  }

  void run(const ShapTree& tree) const {
    const Sweep self = *this;  // a copy of its own, which no store can change
    const ShapTree t = tree;
    self.go_down(t.n_inner);
    self.visit_plain_quads(t.n_inner, t.plain_end);
    self.visit_quads(t.plain_end, t.quads_end);
    self.visit_pairs(t.quads_end, t.end);
    self.come_up(t.n_inner);
  }
};

// Rows of blocks [begin, end) through one tree at points [q, q + Points) of its rule.
template <int Points, class Code>
inline void sweep_tree(const Job& job, const ShapArgs& args, int tree, int q, int64_t begin, int64_t end,
                       const ShapScratch& scratch) {
  const Forest& f = *job.forest;
  const int64_t block_codes = static_cast<int64_t>(f.n_planes) * kBlock, slice_sums = n_places(f) * kSlice;
  const Split* splits = f.splits + f.first_split[tree];
  const ShapTree& t = args.trees[tree];
  const double *u = t.u + q, *w = t.w + q;
  auto* constants = reinterpret_cast<SplitConstants<Points>*>(scratch.constants);
  for (int k = 0; k < f.width; ++k) {
    const int output = f.tree_output[tree] + k;
    const double* weight = args.weight ? args.weight + output * padded(job.n_rows) : nullptr;
    make_constants(t, u, f.leaf_value + f.first_leaf[tree] * f.width + k, f.width, constants, scratch.frames);
    for (int64_t block = begin; block < end; ++block) {
      follow(f, splits, t, codes_of<Code>(job) + block * block_codes, scratch.words);
      for (int r = 0; r < kBlock; r += kSlice) {
        const int64_t row = block * kBlock + r;
        double* slice = args.sums + row / kSlice * slice_sums + static_cast<int64_t>(output) * f.n_players * kSlice;
        const Sweep<Points> sweep{t.splits, constants, scratch.words, u, r, scratch.frames, slice};
        sweep.start(w, weight ? weight + row : nullptr);
        sweep.run(t);
      }
    }
  }
}

inline ShapScratch scratch_of(const Job& job, const ShapArgs&, Arena& arena) {
  const int64_t splits = job.forest->max_splits;
  return {arena.take<ShapWords>(splits), arena.take<double>((2 * splits + 2) * kPoints * kSlice),
          arena.take<double>(splits * kShapConstants)};
}

// All trees see a few blocks, then the next few: their sums stay in L2.
template <class Code>
inline void shap(const Job& job, const ShapArgs& args) {
  constexpr int64_t kSumBytes = 400 << 10, kMost = 16, kLeast = 4;  // fewer blocks: constants would cost too much
  Arena arena(job.scratch);
  const ShapScratch scratch = scratch_of(job, args, arena);
  const int64_t block_bytes = n_places(*job.forest) * kBlock * 8, n = n_blocks(job.n_rows);
  const int64_t fit = block_bytes ? kSumBytes / block_bytes : kMost;
  const int64_t together = fit > kMost ? kMost : fit < kLeast ? kLeast : fit;
  for (int64_t begin = 0; begin < n; begin += together) {
    const int64_t end = begin + together < n ? begin + together : n;
    for (int tree = job.first_tree; tree < job.first_tree + job.n_trees; ++tree) {
      const auto sweep = [&](auto points, int q) {
        sweep_tree<decltype(points)::n, Code>(job, args, tree, q, begin, end, scratch);
      };
      int q = 0;
      const int n_points = args.trees[tree].n_points;
      for (; q + kPoints <= n_points; q += kPoints) sweep(Count<kPoints>{}, q);
      with_count<1, kPoints - 1>(n_points - q, [&](auto points) { sweep(points, q); });
    }
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
