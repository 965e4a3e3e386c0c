// Random columns and rows from a seed: what treeinner/compiled/binning.py hands to the core, in miniature.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/list.h"

namespace treeinner {

// splitmix64: the same numbers with every compiler and C++ library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  int below(int n) { return static_cast<int>(bits() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return uniform() < p; }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double number() { return 4 * uniform() - 2; }

 private:
  uint64_t state_;
};

// Exactly as long as asked for, so that the address sanitizer sees one entry too far.
template <class T>
using Array = AlignedVector<T>;

template <class A, class B>
bool same_bits(const A& a, const B& b) {
  return a.size() == b.size() && (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(*a.data())));
}

struct Shape {
  int code_bytes, n_trees, n_outputs, width, n_columns, n_thresholds, max_depth;
  bool greater_equal, float32_input, truncate;
};

// -- columns
// -------------------------------------------------------------------------------------------------------------

struct Columns {
  std::vector<Column> columns;
  std::vector<Plane> planes;
  std::vector<double> thresholds;
  std::vector<float> thresholds32;
  std::vector<uint16_t> codes_of_category;
  std::vector<int32_t> other_code;
  Binning binning{};
};

inline float rounded(double t, bool up) {
  const float f = static_cast<float>(t), inf = std::numeric_limits<float>::infinity();
  if (up) return f < t ? std::nextafterf(f, inf) : f;
  return f > t ? std::nextafterf(f, -inf) : f;
}

inline void add_numeric(Random& random, const Shape& shape, int column, int n, Columns& c) {
  const int largest = shape.code_bytes == 1 ? 255 : 65535, capacity = largest - 2;
  std::vector<double> t;
  for (int i = 0; i < n; ++i) t.push_back(random.chance(0.5) ? random.number() : random.below(200) - 100);
  std::sort(t.begin(), t.end());
  t.erase(std::unique(t.begin(), t.end()), t.end());
  const int kept = static_cast<int>(t.size());
  size_t padded = 1;
  while (padded - 1 < t.size()) padded *= 2;
  t.resize(padded - 1, std::numeric_limits<double>::quiet_NaN());
  Column made{static_cast<int32_t>(c.planes.size()), 0, 0, column == 1, static_cast<int64_t>(c.thresholds.size()),
              static_cast<int64_t>(t.size())};
  for (int first = 0; first < kept; first += capacity)
    for (const int missing : {0, largest}) {
      c.planes.push_back({column, first, std::min(capacity, kept - first), missing});
      ++made.n_planes;
    }
  for (const double x : t) c.thresholds32.push_back(rounded(x, shape.greater_equal));
  c.thresholds.insert(c.thresholds.end(), t.begin(), t.end());
  c.columns.push_back(made);
}

inline void add_categorical(Random& random, const Shape& shape, int column, Columns& c) {
  const int n = shape.code_bytes == 1 ? 253 : 700;
  c.columns.push_back(
      {static_cast<int32_t>(c.planes.size()), 1, 1, 0, static_cast<int64_t>(c.codes_of_category.size()), n});
  c.planes.push_back({column, 0, n, 0});
  for (int i = 0; i < n; ++i) c.codes_of_category.push_back(static_cast<uint16_t>(random.chance(0.2) ? 1 : i + 2));
}

// Two columns in five are categorical, column 1 takes zero for missing, the last column is not used by the model.
inline Columns random_columns(Random& random, const Shape& shape) {
  Columns c;
  for (int column = 0; column < shape.n_columns; ++column) {
    if (column == shape.n_columns - 1)
      c.columns.push_back({static_cast<int32_t>(c.planes.size()), 0, 0, 0, 0, 0});
    else if (column % 5 == 2 || column % 5 == 4)
      add_categorical(random, shape, column, c);
    else
      add_numeric(random, shape, column, column == 0 ? shape.n_thresholds : 1 + random.below(20), c);
    c.other_code.push_back(random.below(2));
  }
  c.binning = {shape.n_columns,     shape.greater_equal,   shape.float32_input,
               shape.truncate,      c.columns.data(),      c.planes.data(),
               c.thresholds.data(), c.thresholds32.data(), c.codes_of_category.data(),
               c.other_code.data()};
  return c;
}

// -- rows
// ----------------------------------------------------------------------------------------------------------------

constexpr int kTypeBytes[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8};  // of the types of gather in bin.h

struct Table {
  std::vector<std::vector<char>> data;
  std::vector<Values> values;
};

inline double random_value(Random& random, const Columns& c, const Column& column) {
  if (random.chance(0.1)) return std::numeric_limits<double>::quiet_NaN();
  if (random.chance(0.02)) return (random.chance(0.5) ? 1 : -1) * std::numeric_limits<double>::infinity();
  if (column.categorical) return random.uniform() * 1.2 * static_cast<double>(column.n) - 4;
  if (random.chance(0.1) || column.n == 0) return random.chance(0.5) ? 0.0 : random.number() * 1e-35;
  if (random.chance(0.3)) return random.number() * 60;
  const double t = c.thresholds[static_cast<size_t>(column.first + random.below(static_cast<int>(column.n)))];
  return random.chance(0.5) ? t : std::nextafter(t, random.chance(0.5) ? 1e9 : -1e9);  // NaN if t is padding
}

template <class T>
void write_value(char* to, double x) {
  T y;
  if constexpr (std::numeric_limits<T>::is_integer) {
    // Integers that every type of that sign holds.
    x = std::isfinite(x) ? std::fmod(x, 100) : 0;
    y = static_cast<T>(std::numeric_limits<T>::is_signed ? x : std::fabs(x));
  } else {
    y = static_cast<T>(x);
  }
  std::memcpy(to, &y, sizeof y);
}

inline void write_as(int dtype, char* to, double x) {
  switch (dtype) {
    case 0: return write_value<float>(to, x);
    case 1: return write_value<double>(to, x);
    case 2: return write_value<int8_t>(to, x);
    case 3: return write_value<int16_t>(to, x);
    case 4: return write_value<int32_t>(to, x);
    case 5: return write_value<int64_t>(to, x);
    case 6: return write_value<uint8_t>(to, x);
    case 7: return write_value<uint16_t>(to, x);
    case 8: return write_value<uint32_t>(to, x);
    default: return write_value<uint64_t>(to, x);
  }
}

// Half of the columns are floating point, so that most rows have fractions and missing values.
inline Table random_table(Random& random, const Columns& c, int n_rows) {
  Table table;
  for (const Column& column : c.columns) {
    const int dtype = random.chance(0.5) ? random.below(2) : random.below(10), bytes = kTypeBytes[dtype];
    const int stride = bytes + random.below(4);
    std::vector<char> data(static_cast<size_t>((n_rows - 1) * stride + bytes));
    for (int r = 0; r < n_rows; ++r) write_as(dtype, data.data() + r * stride, random_value(random, c, column));
    table.data.push_back(std::move(data));
    table.values.push_back({table.data.back().data(), stride, dtype});
  }
  return table;
}

}  // namespace treeinner
