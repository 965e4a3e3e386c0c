// What shuffling a feature does to the margin: for every row, tree and feature on the row's path, the leaf that the row
// would reach with the feature's shuffled code.
//
// A row's path through a tree tests few features; shuffling any other one changes nothing. So the rows go down with
// their own codes, 64 together, level by level, and at each split those that the shuffled code would send the other
// way leave the block as strays. A stray goes on alone, a step per level, with the shuffled codes of its own feature
// and the row's own codes of every other one. Levels in step and lists without branches: how many rows stray at a
// split, and where they end, no processor can foresee. (So a child is looked up, not chosen: compilers make a jump of a
// choice.)
#pragma once

#include "route.h"

namespace treeinner {
// A node as this kernel wants it; each tree's in the order of their numbers. Groups are the sets of columns that are
// shuffled together.
struct PermuteNode {
  uint32_t place;    // of its plane in the pairs
  int32_t cut, set;  // as in Split
  int32_t step[2];   // from its number to that of its left and right child; 0 at a leaf
  int32_t group;     // -1 at a leaf
  int32_t above;     // nearest split above on the same group; -1: none
  int32_t pad;
};

struct PermuteArgs {
  const PermuteNode* nodes;
  int32_t n_groups;
  bool has_sets;         // whether some split is categorical
  const void* shuffled;  // codes of the same rows, as those of the Job
  double* change;  // [block][group][output][64], added to in the order of the trees; the last group, one more than
                   // there are, holds the margins of the rows as they are
};

struct PermuteScratch {
  void* pairs;       // (planes, 2, 64) codes
  uint64_t* gone;    // (max_splits + 1,)
  uint64_t* strays;  // (64 * (max_depth + 1),)
};

namespace TREEINNER_NS {
constexpr int kPair = 2 * kBlock;  // own codes of a plane, then the shuffled ones
constexpr int kSettle = 6;         // level from which on strays at leaves are set aside

// A row that left the block: node, row and group in one number.
using Stray = uint64_t;
inline int32_t node_of(Stray s) { return static_cast<int32_t>(static_cast<uint32_t>(s)); }
inline int row_of(Stray s) { return static_cast<int>(s >> 32 & 63); }
inline int32_t group_of(Stray s) { return static_cast<int32_t>(s >> 38); }

// The first n_at_leaf are at a leaf for good; the others move, or wait at a leaf.
struct Strays {
  Stray* list;
  int64_t n_at_leaf, n;
};

// Put rows at node `at` on the list, each at the child that `right` says. An entry or two behind the end are written in
// vain.
inline void put_strays(Strays& strays, Word rows, Word right, int32_t at, const PermuteNode& s) {
  const Stray group = static_cast<Stray>(s.group) << 38;
  Stray* to = strays.list + strays.n;
  const Stray* end = to + count_bits(rows);
  strays.n = end - strays.list;
  do {
    for (int b = 0; b < 2; ++b, rows &= rows - 1) {
      const int r = lowest_bit(rows | Word{1} << 63);
      *to++ = group | static_cast<Stray>(r) << 32 | static_cast<uint32_t>(at + s.step[right >> r & 1]);
    }
  } while (to < end);
}

// One step for every stray; a leaf's two children are itself.
template <bool Sets, class Code>
TREEINNER_NOINLINE void step_strays(const uint64_t* sets, const PermuteNode* nodes, const Code* pairs, Stray* s,
                                    const Stray* end) {
  for (; s != end; ++s) {
    const Stray here = *s;
    const PermuteNode& node = nodes[static_cast<uint32_t>(here)];
    const Code code = pairs[node.place + (node.group == group_of(here)) * kBlock + row_of(here)];
    bool right = code >= node.cut;
    if (Sets && node.set >= 0) right = sets[node.set + (code >> 6)] >> (code & 63) & 1;
    *s = here + static_cast<Stray>(static_cast<int64_t>(node.step[right]));
  }
}

// Deep trees: those at a leaf go to the front of the list, so that they cost nothing more.
inline void settle(Strays& strays, int32_t n_splits) {
  for (int64_t i = strays.n_at_leaf; i < strays.n; ++i) {
    const Stray here = strays.list[i];
    strays.list[i] = strays.list[strays.n_at_leaf];
    strays.list[strays.n_at_leaf] = here;
    strays.n_at_leaf += node_of(here) >= n_splits;
  }
}

// The nodes of one level that some row reaches: at most 64, and room for an entry that is written in vain.
struct Front {
  int32_t node[kBlock + 1];
  Word rows[kBlock + 1];
};

// The leaves that the rows reach with their own codes: each row's place in a list of at most 64.
struct Home {
  alignas(64) uint8_t slot[kBlock];
  int32_t leaf[kBlock + 1];
};

// All rows of a block down one tree. gone: a word per split, and gone[-1].
template <bool Sets, class Code>
inline void permute_block(const Forest& f, const Tree& t, const PermuteNode* nodes, const Code* pairs, Word rows,
                          Word* gone, Strays& strays, Home& home) {
  Front fronts[2];
  Bytes slot = no_bytes();
  int n_home = 0, n_front = 1;
  fronts[0].node[0] = 0;
  fronts[0].rows[0] = rows;
  gone[-1] = 0;
  strays.n = strays.n_at_leaf = 0;
  for (int level = 0; n_front || strays.n_at_leaf < strays.n; ++level) {
    const Front& front = fronts[level & 1];
    Front& next = fronts[~level & 1];
    step_strays<Sets>(f.sets, nodes, pairs, strays.list + strays.n_at_leaf, strays.list + strays.n);
    int n_next = 0;
    for (int i = 0; i < n_front; ++i) {
      const int32_t node = front.node[i];
      const PermuteNode& s = nodes[node];
      const Code* codes = pairs + s.place;
      const Word here = front.rows[i], right = right_word(f, s, codes), other = right_word(f, s, codes + kBlock);
      // A row strays once: below a split that sent it astray, those on the same group see it no more.
      const Word astray = here & (right ^ other) & ~gone[s.above];
      gone[node] = astray | gone[s.above];
      put_strays(strays, astray, other, node, s);
      const Word stay[2] = {here & ~right, here & right};
      for (int side = 0; side < 2; ++side) {
        const int32_t child = node + s.step[side];
        const bool leaf = child >= t.n_splits, some = stay[side] != 0;
        next.node[n_next] = child;
        next.rows[n_next] = stay[side];
        n_next += some & !leaf;
        home.leaf[n_home] = child - t.n_splits;
        put(slot, stay[side] & -static_cast<Word>(leaf), static_cast<uint8_t>(n_home));
        n_home += some & leaf;
      }
    }
    n_front = n_next;
    if (level >= kSettle || !n_front) settle(strays, t.n_splits);
  }
  store(home.slot, slot);
}

// What the leaves add: to the margins of the rows as they are, and to the changes that the shuffled groups make.
inline void take_changes(const Forest& f, const Tree& t, int output, const Strays& strays, const Home& home,
                         double* change, double* margin) {
  for (int k = 0; k < f.width; ++k) {
    const double* value = f.leaf_value + t.first_leaf * f.width + k;
    double before[kBlock];
    for (int r = 0; r < kBlock; ++r) before[r] = value[static_cast<int64_t>(home.leaf[home.slot[r]]) * f.width];
    for (int r = 0; r < kBlock; ++r) margin[(output + k) * kBlock + r] += before[r];
    for (int64_t i = 0; i < strays.n; ++i) {
      const Stray s = strays.list[i];
      const int64_t leaf = node_of(s) - t.n_splits;
      const int64_t place = static_cast<int64_t>(group_of(s)) * f.n_outputs + output + k;
      change[place * kBlock + row_of(s)] += value[leaf * f.width] - before[row_of(s)];
    }
  }
}

inline PermuteScratch scratch_of(const Job& job, const PermuteArgs&, Arena& arena) {
  const Forest& f = *job.forest;
  return {arena.take<char>(int64_t{f.n_planes} * kPair * f.code_bytes), arena.take<uint64_t>(f.max_splits + 1),
          arena.take<uint64_t>(kBlock * (int64_t{f.max_depth} + 1))};
}

template <bool Sets, class Code>
inline void permute_rows(const Job& job, const PermuteArgs& args) {
  const Forest& f = *job.forest;
  Arena arena(job.scratch);
  const PermuteScratch scratch = scratch_of(job, args, arena);
  const int64_t plane_bytes = kBlock * sizeof(Code), block_change = (args.n_groups + int64_t{1}) * f.n_outputs * kBlock;
  const Code *own = codes_of<Code>(job), *shuffled = static_cast<const Code*>(args.shuffled);
  Code* pairs = static_cast<Code*>(scratch.pairs);
  Strays strays{scratch.strays, 0, 0};
  Home home;
  double* change = args.change;
  for (int64_t left = job.n_rows; left > 0; left -= kBlock, change += block_change) {
    const Word rows = left < kBlock ? (Word{1} << left) - 1 : ~Word{0};
    double* margin = change + static_cast<int64_t>(args.n_groups) * f.n_outputs * kBlock;
    for (int64_t plane = 0; plane < f.n_planes; ++plane, own += kBlock, shuffled += kBlock) {
      std::memcpy(pairs + plane * kPair, own, plane_bytes);
      std::memcpy(pairs + plane * kPair + kBlock, shuffled, plane_bytes);
    }
    for (int tree = 0; tree < f.n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      strays.n = 0;
      std::memset(home.slot, 0, sizeof home.slot);
      home.leaf[0] = 0;
      if (t.n_splits) permute_block<Sets>(f, t, args.nodes + t.first_node, pairs, rows, scratch.gone + 1, strays, home);
      take_changes(f, t, f.tree_output[tree], strays, home, change, margin);
    }
  }
}

template <class Code>
inline void permute(const Job& job, const PermuteArgs& args) {
  with_count<0, 1>(args.has_sets, [&](auto sets) { permute_rows<decltype(sets)::n, Code>(job, args); });
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
