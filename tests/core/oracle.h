// One row at a time, as the definitions say: slow and obviously right.
#pragma once

#include "random_forest.h"

namespace treeinner::oracle {

// -- values -> codes
// -------------------------------------------------------------------------------------------------------

inline double value_at(const Values& v, int row) {
  const char* from = v.data + row * v.stride;
  auto as = [&](auto x) {
    std::memcpy(&x, from, sizeof x);
    return static_cast<double>(x);
  };
  switch (v.dtype) {
    case 0: return as(float{});
    case 1: return as(double{});
    case 2: return as(int8_t{});
    case 3: return as(int16_t{});
    case 4: return as(int32_t{});
    case 5: return as(int64_t{});
    case 6: return as(uint8_t{});
    case 7: return as(uint16_t{});
    case 8: return as(uint32_t{});
    default: return as(uint64_t{});
  }
}

// The code of one value in one plane, by the exact thresholds even where the core uses rounded ones.
inline int code(const Binning& b, int plane_number, const Values& v, int row) {
  const Plane& plane = b.planes[plane_number];
  const Column& c = b.columns[plane.column];
  const bool float32 = b.float32_input || v.dtype == 0;
  double x = value_at(v, row);
  if (float32) x = static_cast<float>(x);
  if (std::isnan(x)) return plane.missing_code;
  if (c.categorical) {
    const double category = b.truncate ? std::trunc(x) : std::floor(x);
    const bool known = category >= 0 && category < static_cast<double>(c.n);
    return known ? b.codes_of_category[c.first + static_cast<int64_t>(category)] : b.other_code[plane.column];
  }
  if (c.zero_is_missing && std::fabs(x) <= (float32 ? double{1e-35f} : 1e-35)) return plane.missing_code;
  int rank = 0;
  for (int64_t i = c.first; i < c.first + c.n; ++i)
    rank += b.greater_equal ? x >= b.thresholds[i] : x > b.thresholds[i];
  return std::min(std::max(rank - plane.first, 0), plane.n) + 1;
}

// -- codes -> leaves
// -------------------------------------------------------------------------------------------------------

inline int code_at(const Forest& f, const void* codes, int plane, int row) {
  const int64_t at = (static_cast<int64_t>(row / 64) * f.n_planes + plane) * 64 + row % 64;
  return f.code_bytes == 1 ? static_cast<const uint8_t*>(codes)[at] : static_cast<const uint16_t*>(codes)[at];
}

inline bool goes_right(const Forest& f, const Split& s, const void* codes, int row) {
  const int code = code_at(f, codes, static_cast<int>(s.plane), row);
  return s.set < 0 ? code >= s.cut : f.sets[s.set + code / 64] >> code % 64 & 1;
}

// Calls on_split(split, its number and that of the child taken) from the root down; returns the leaf's number in the
// forest.
template <class OnSplit>
int64_t descend(const Forest& f, int tree, const void* codes, int row, OnSplit on_split) {
  const int n_splits = static_cast<int>(f.first_split[tree + 1] - f.first_split[tree]);
  int next = 0;  // splits first, then leaves
  while (next < n_splits) {
    const Split& s = f.splits[f.first_split[tree] + next];
    const int child = goes_right(f, s, codes, row) ? s.right : s.left;
    on_split(s, next, child);
    next = child;
  }
  return f.first_leaf[tree] + next - n_splits;
}

// -- Shapley values by their definition
// --------------------------------------------------------------------------------------

// What the subtree is expected to give if only the players in `known` are known of the row.
inline double expected(const Model& m, int tree, int32_t node, int output, uint32_t known, const void* codes, int row) {
  const Forest& f = m.forest;
  const Tree t = tree_of(f, tree);
  if (node >= t.n_splits) return f.leaf_value[(t.first_leaf + node - t.n_splits) * f.width + output];
  const Split& s = t.splits[node];
  auto below = [&](int32_t child) { return expected(m, tree, child, output, known, codes, row); };
  if (known >> s.player & 1) return below(goes_right(f, s, codes, row) ? s.right : s.left);
  const double *cover = m.cover.data() + t.first_node, total = cover[s.left] + cover[s.right];
  const double share = total > 0 ? cover[s.left] / total : 0.5;
  const double share_right = total > 0 ? cover[s.right] / total : 0.5;
  return share * below(s.left) + share_right * below(s.right);
}

// The same for the whole forest and one output.
inline double expected(const Model& m, int output, uint32_t known, const void* codes, int row) {
  double sum = 0;
  for (int tree = 0; tree < m.forest.n_trees; ++tree) {
    const int k = output - m.forest.tree_output[tree];
    if (k >= 0 && k < m.forest.width) sum += expected(m, tree, 0, k, known, codes, row);
  }
  return sum;
}

inline std::vector<double> shapley(const Model& m, int output, const void* codes, int row) {
  const int n = m.forest.n_players;
  std::vector<double> value(size_t{1} << n), factorial(static_cast<size_t>(n) + 1, 1.0), phi(static_cast<size_t>(n));
  for (uint32_t known = 0; known < value.size(); ++known) value[known] = expected(m, output, known, codes, row);
  for (size_t i = 1; i < factorial.size(); ++i) factorial[i] = factorial[i - 1] * static_cast<double>(i);
  for (int j = 0; j < n; ++j)
    for (uint32_t known = 0; known < value.size(); ++known) {
      if (known >> j & 1) continue;
      const size_t size = static_cast<size_t>(count_bits(known));
      const double weight = factorial[size] * factorial[static_cast<size_t>(n) - size - 1] / factorial.back();
      phi[static_cast<size_t>(j)] += weight * (value[known | uint32_t{1} << j] - value[known]);
    }
  return phi;
}

}  // namespace treeinner::oracle
