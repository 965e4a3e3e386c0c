// Values -> codes. Every library's comparison rule is settled here; behind it there are only small integers.
//
// A value's rank is how many thresholds of its column send it right. A plane holds rank + 1 for a range of at most
// (largest code - 2) thresholds; a missing value gets the plane's missing code: 0 goes left at every split of the
// plane, the largest code goes right. A column whose splits send missing values both ways has two planes, so the
// kernels never ask whether a value is missing. In a categorical plane every category has a code and the split's bit
// set decides, for the missing code too.
#pragma once

#include "job.h"

namespace treeinner {
// The values of one column of a table, anywhere in memory.
struct Values {
  const char* data;
  int64_t stride;  // bytes
  int64_t dtype;   // see gather
};

struct BinArgs {
  const Binning* binning;
  const Values* values;  // (columns,)
  void* codes;           // [block][plane][64]
};

namespace TREEINNER_NS {
template <class Real, class T>
inline void gather_as(const char* data, int64_t stride, int n, Real* out) {
  for (int r = 0; r < n; ++r) {
    T x;
    std::memcpy(&x, data + r * stride, sizeof x);  // any stride, so any alignment
    out[r] = static_cast<Real>(x);
  }
}

// Types: by dtype.
template <class... Types, class Real>
inline void gather(const Values& v, int64_t row, int n, Real* out) {
  int64_t dtype = 0;
  ((dtype++ == v.dtype ? gather_as<Real, Types>(v.data + row * v.stride, v.stride, n, out) : void()), ...);
}

constexpr int kAsked = 15;

// rank[r] = how many of the n = 2^k - 1 sorted thresholds send x[r] right. Branch-free: a few thresholds are all asked,
// of more of them every row takes k steps.
template <bool GreaterEqual, class Real>
inline void rank_values(const Real* thresholds, int64_t n, const Real* x, int32_t* rank) {
  for (int r = 0; r < kBlock; ++r) rank[r] = 0;
  if (n <= kAsked) {
    for (int64_t i = 0; i < n; ++i)
      for (int r = 0; r < kBlock; ++r) rank[r] += GreaterEqual ? x[r] >= thresholds[i] : x[r] > thresholds[i];
    return;
  }
  for (int32_t step = static_cast<int32_t>((n + 1) / 2); step; step /= 2)
    for (int r = 0; r < kBlock; ++r) {
      const Real t = thresholds[rank[r] + step - 1];
      rank[r] += (GreaterEqual ? x[r] >= t : x[r] > t) ? step : 0;
    }
}

// 16 to 255 thresholds in two steps: every 16th of them says in which stretch of 15 the value lies. Half the time of
// the eight steps by halves, each of which waits for a load at another address in every row.
template <bool GreaterEqual>
inline void rank_values(const float* thresholds, int64_t n, const float* x, int32_t* rank) {
  constexpr int kParts = 16;
  if (!kCountsThresholds || n < kParts || n >= kParts * kParts)
    return rank_values<GreaterEqual, float>(thresholds, n, x, rank);
  float between[kParts - 1];
  for (int i = 0; i < kParts - 1; ++i)
    between[i] = kParts * (i + 1) - 1 < n ? thresholds[kParts * (i + 1) - 1] : float(kNaN);  // nothing exceeds NaN
  for (int r = 0; r < kBlock; ++r) {
    const int first = kParts * count_right<GreaterEqual>(between, x[r]);
    rank[r] = first + count_right<GreaterEqual>(thresholds + first, x[r]);
  }
}

template <class Code, class Real>
inline void bin_numeric(const Binning& b, const Column& c, const Real* thresholds, Real* x, Code* block) {
  int32_t rank[kBlock];
  if (c.zero_is_missing)
    for (int r = 0; r < kBlock; ++r)
      if (x[r] >= Real(-1e-35) && x[r] <= Real(1e-35)) x[r] = Real(kNaN);
  with_count<0, 1>(b.greater_equal, [&](auto ge) { rank_values<decltype(ge)::n>(thresholds + c.first, c.n, x, rank); });
  for (int64_t p = c.first_plane; p < c.first_plane + c.n_planes; ++p) {
    const Plane plane = b.planes[p];
    Code* codes = block + p * kBlock;
    for (int r = 0; r < kBlock; ++r) {
      int32_t code = rank[r] - plane.first;
      code = code < 0 ? 0 : code > plane.n ? plane.n : code;
      codes[r] = static_cast<Code>(x[r] == x[r] ? code + 1 : plane.missing_code);
    }
  }
}

template <class Code, class Real>
inline void bin_categorical(const Binning& b, int column, const Real* x, Code* block) {
  const Column c = b.columns[column];
  const Plane plane = b.planes[c.first_plane];
  Code* codes = block + c.first_plane * kBlock;
  for (int r = 0; r < kBlock; ++r) {
    const Real category = b.truncate ? rounded_to_zero(x[r]) : rounded_down(x[r]);
    int32_t code = b.other_code[column];
    if (!(x[r] == x[r]))
      code = plane.missing_code;
    else if (category >= 0 && category < static_cast<Real>(c.n))
      code = b.codes_of_category[c.first + static_cast<int64_t>(category)];
    codes[r] = static_cast<Code>(code);
  }
}

template <class Code, class Real>
inline void bin_column(const Binning& b, int column, const Values& v, const Real* thresholds, int64_t row, int n,
                       Code* block) {
  Real x[kBlock];
  for (int r = n; r < kBlock; ++r) x[r] = 0;  // rows behind the last: any value, their bits are never set
  // The order is that of _DTYPE_CODE in treeinner/kernels/forest.py.
  gather<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(v, row, n, x);
  if (b.columns[column].categorical)
    bin_categorical(b, column, x, block);
  else
    bin_numeric(b, b.columns[column], thresholds, x, block);
}

template <class Code>
inline void bin(const Job& job, const BinArgs& args) {
  const Binning& b = *args.binning;
  Code* codes = static_cast<Code*>(args.codes);
  for (int64_t row = 0; row < job.n_rows; row += kBlock, codes += static_cast<int64_t>(job.forest->n_planes) * kBlock) {
    const int n = job.n_rows - row < kBlock ? static_cast<int>(job.n_rows - row) : kBlock;
    for (int column = 0; column < b.n_columns; ++column) {
      if (!b.columns[column].n_planes) continue;
      // A float32 value compares with the rounded thresholds as it would with the exact ones: half the memory traffic.
      if (b.float32_input || args.values[column].dtype == 0)
        bin_column<Code, float>(b, column, args.values[column], b.thresholds32, row, n, codes);
      else
        bin_column<Code, double>(b, column, args.values[column], b.thresholds, row, n, codes);
    }
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
