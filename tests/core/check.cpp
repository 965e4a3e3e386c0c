// Every instruction set of this machine against the baseline, bit for bit, and the baseline against plain loops.
//
// No Python: on arm64 it runs under an emulator (`make test-neon`), on x86-64 under the sanitizers
// (`make test-core-sanitized`). Random models from fixed seeds; prints "N passed, 0 failed". With the argument "few",
// the same checks on few and small cases, each kernel among them: for valgrind, which takes 25 times as long.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>

#include "check_primitives.h"
#include "instruction_sets.h"
#include "random_case.h"

namespace treeinner {
namespace {

// -- kernels
// ---------------------------------------------------------------------------------------------------------------

void check_same(const Results& a, const Results& b, const char* who) {
  check(same_bits(a.codes, b.codes), who, "bin");
  check(same_bits(a.leaves, b.leaves), who, "leaves");
  check(same_bits(a.margins, b.margins), who, "margins");
  check(same_bits(a.leaf_sums, b.leaf_sums), who, "leaf_sums");
  check(same_bits(a.path, b.path), who, "path");
  check(same_bits(a.weighted_path, b.weighted_path), who, "path with weights");
  check(same_bits(a.permuted, b.permuted), who, "permute");
  for (size_t i = 0; i < a.residuals.size(); ++i) check(same_bits(a.residuals[i], b.residuals[i]), who, "residuals");
  check(same_bits(a.shap, b.shap), who, "shap");
  check(same_bits(a.weighted_shap, b.weighted_shap), who, "shap with weights");
  for (const auto part :
       {&Results::boosted, &Results::some_trees, &Results::first_pass, &Results::second_pass, &Results::effects})
    for (size_t i = 0; i < (a.*part).size(); ++i) {
      const Boosted &x = (a.*part)[i], &y = (b.*part)[i];
      check(same_bits(x.margin, y.margin) && same_bits(x.largest, y.largest), who, "boost: margins");
      check(same_bits(x.leaf_sums, y.leaf_sums) && same_bits(x.leaf_weights, y.leaf_weights), who, "boost: leaves");
      check(same_bits(x.sums, y.sums), who, "boost: row scores");
      check(same_bits(x.first_order, y.first_order), who, "boost: first order");
      check(same_bits(x.so_far, y.so_far) && same_bits(x.put_back, y.put_back), who, "boost: effects");
    }
  check(same_bits(a.contributions, b.contributions) && same_bits(a.squares, b.squares), who, "squares");
  for (const auto part : {&Results::shares, &Results::centred_values, &Results::centred_scores})
    for (size_t i = 0; i < (a.*part).size(); ++i)
      check(same_bits((a.*part)[i], (b.*part)[i]), who, "shares or centred scores");
  check(same_bits(a.split_scores, b.split_scores) && same_bits(a.centred, b.centred), who, "leaf scores");
}

// -- the baseline against the oracle
// -----------------------------------------------------------------------------------------

void check_codes(const Case& c, const Results& got, const char* who) {
  bool right = true;
  for (int plane = 0; plane < c.model->forest.n_planes; ++plane) {
    const Values& v = c.table.values[static_cast<size_t>(c.columns.planes[static_cast<size_t>(plane)].column)];
    for (int row = 0; row < c.n_rows; ++row)
      right &= oracle::code_at(c.model->forest, got.codes.data(), plane, row) ==
               oracle::code(c.columns.binning, plane, v, row);
  }
  check(right, who, "bin against the oracle");
}

// Position of a row's sum for a player in [slice][output][player][16].
size_t sum_at(const Forest& f, int output, int player, int row) {
  return static_cast<size_t>(((row / kSlice * f.n_outputs + output) * f.n_players + player) * kSlice + row % kSlice);
}

// Rounding only: numbers of size 1, a thousand of them at most, each off by some hundred units of 1e-16.
constexpr double kClose = 1e-10;

template <class Want>
bool all_close(const Array<double>& a, const Want& b) {
  bool close = a.size() == b.size();
  for (size_t i = 0; close && i < a.size(); ++i) close = std::fabs(a[i] - b[i]) < kClose;
  return close;
}

void check_routing(const Case& c, const Results& got, const char* who) {
  const Forest& f = c.model->forest;
  Results want;
  want.leaves.resize(got.leaves.size());
  want.margins.resize(got.margins.size());
  want.path.resize(got.path.size());
  want.weighted_path.resize(got.path.size());
  want.leaf_sums.resize(got.leaf_sums.size());
  for (int row = 0; row < c.n_rows; ++row)
    for (int tree = 0; tree < f.n_trees; ++tree) {
      auto at = [&](int k) { return static_cast<size_t>((f.tree_output[tree] + k) * c.padded + row); };
      const double* value = c.model->node_value.data() + tree_of(f, tree).first_node * f.width;
      const int64_t leaf = oracle::descend(f, tree, got.codes.data(), row, [&](const Split& s, int node, int child) {
        for (int k = 0; k < f.width; ++k) {
          const double step = value[child * f.width + k] - value[node * f.width + k];
          const size_t to = static_cast<size_t>((row * f.n_outputs + f.tree_output[tree] + k) * f.n_players + s.player);
          want.path[to] += step;
          want.weighted_path[to] += step * c.weight[at(k)];
        }
      });
      want.leaves[static_cast<size_t>(row * f.n_trees + tree)] = static_cast<int32_t>(leaf);
      for (int k = 0; k < f.width; ++k) {
        want.margins[at(k)] += f.leaf_value[leaf * f.width + k];
        want.leaf_sums[static_cast<size_t>(leaf * f.width + k)] += c.fixed_weight[at(k)];
      }
    }
  check(same_bits(got.leaves, want.leaves), who, "leaves against the oracle");
  check(same_bits(got.margins, want.margins), who, "margins against the oracle");
  check(same_bits(got.leaf_sums, want.leaf_sums), who, "leaf_sums against the oracle");
  check(all_close(got.path, want.path), who, "path against the oracle");
  check(all_close(got.weighted_path, want.weighted_path), who, "path with weights against the oracle");
}

// Row scores are added in float32, a few of whose roundings may add up in a row.
void check_boost(const Case& c, const Results& got, const char* who) {
  const Array<double> want = boosted_sums(c, baseline::kernels, got.codes.data());
  double size = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    size = std::max(size, std::fabs(want[i]));
    error = std::max(error, std::fabs(got.boosted[0].sums[i] - want[i]));
  }
  check(error <= 1e-6 * size, who, "boost: row scores against the oracle");
}

template <class Got>
bool within(const Got& got, const std::vector<double>& want, const std::vector<double>& allowed) {
  bool close = got.size() == want.size();
  for (size_t i = 0; close && i < got.size(); ++i) close = std::fabs(got[i] - want[i]) <= allowed[i];
  return close;
}

// Of shares, relative to the size of their terms: a thousand at most, each off by some units of 1e-16. In a tree batch
// these are counted from the root's means, with two products and two additions per tree.
constexpr double kFloat64 = 1e-13, kFloat32 = 4 * kTreeBatch * 0x1p-24;

// Shares against the oracle, and their sum against the centred score.
void check_shares(const Case& c, const oracle::Centred& want, const Array<double>& got, double float32,
                  const char* who) {
  const Forest& f = c.model->forest;
  const size_t places = index(n_places(f));
  std::vector<double> allowed(got.size()), sum(places), score(places), sum_allowed(places);
  for (size_t i = 0; i < got.size(); ++i) {
    allowed[i] = kFloat64 * want.sizes[i] + float32 * want.centred_sizes[i];
    sum[i % places] += got[i], sum_allowed[i % places] += allowed[i];
  }
  const double* of_split = want.split_scores.data();
  for (int tree = 0; tree < f.n_trees; ++tree)
    for (int i = 0; i < tree_of(f, tree).n_splits; ++i)
      for (int k = 0; k < f.width; ++k)
        score[index((f.tree_output[tree] + k) * f.n_players + tree_of(f, tree).splits[i].player)] += *of_split++;
  check(within(got, want.shares, allowed), who,
        float32 > 0 ? "boost: shares against the oracle" : "shares against the oracle");
  check(within(sum, score, sum_allowed), who, float32 > 0 ? "boost: sum of shares" : "sum of shares");
}

void check_shares(const Case& c, const Results& got, const char* who) {
  for (size_t i = 0; i < c.paths.size(); ++i) check_shares(c, c.paths[i].centred, got.shares[i], 0.0, who);
  for (size_t i = 0; i < c.boosts.size(); ++i) {
    check_shares(c, c.boosts[i].centred, got.second_pass[i].sums, kFloat32, who);
    check(same_bits(got.second_pass[i].fixed_sums, got.second_pass[i].sums), who, "boost: two tables of shares");
  }
}

// Rounds of several trees, residuals averaged over steps: the first pass.
void check_rounds(const Case& c, const Results& got, const char* who) {
  const Forest& f = c.model->forest;
  for (size_t i = 0; i < c.boosts.size(); ++i) {
    const ShareCase& s = c.boosts[i];
    const Boosted &first = got.first_pass[i], &second = got.second_pass[i];
    check(same_bits(first.margin, s.boosted.margin) && same_bits(second.margin, s.boosted.margin), who,
          "boost: margins against the oracle");
    double largest = 0;
    for (const double g : s.boosted.residual) largest = std::max(largest, std::fabs(g));
    const std::vector<double> allowed(index(c.n_rows), 100 * largest * kFloat64);  // leaves are below 2
    if (s.rounds.averaged)
      check(within(first.first_order, s.boosted.first_order, allowed), who, "boost: first order against the oracle");
    bool sums = true, weights = true, means = true;
    for (int tree = 0; tree < f.n_trees; ++tree) {
      const Tree t = tree_of(f, tree);
      for (int64_t node = 0; node <= 2 * t.n_splits; ++node)
        for (int64_t k = 0; k < f.width; ++k) {
          const size_t at = index((t.first_node + node) * f.width + k);
          const double weight = s.centred.weight[at], total = s.centred.residual[at] * weight;
          if (s.weighted && weight > 0) means &= std::fabs(got.centred_values[i][at] - s.centred.value[at]) < kClose;
          if (node < t.n_splits) continue;
          const size_t leaf = index((t.first_leaf + node - t.n_splits) * f.width + k);
          weights &= first.leaf_weights[leaf] == static_cast<int64_t>(s.weighted ? weight * kFixedScale : 0);
          // Each row is rounded to a unit.
          sums &= std::fabs(static_cast<double>(first.leaf_sums[leaf]) - total * kFixedScale) <=
                  c.n_rows * (1 + kFloat64 * largest * kFixedScale);
        }
    }
    check(sums && weights, who, "boost: leaf sums against the oracle");
    check(means, who, "centred values against the oracle");
    const std::vector<double> rounded(s.centred.split_scores.size(),
                                      8 * c.n_rows * (1 / kFixedScale + kFloat64 * largest));  // steps are below 4
    if (s.weighted)
      check(within(got.centred_scores[i], s.centred.split_scores, rounded), who, "centred scores against the oracle");
  }
}

// Own effects of squared error, one round after the other, are (Phi^2 - sum of phi^2) / 2, by row and in the leaves.
void check_effects(const Case& c, const Results& got, const char* who) {
  const Boosted& history = got.effects[0];
  const Array<double>& phi = got.contributions;
  for (const Boosted& each : got.effects) {  // of quads 2^-39 of the largest step is lost in each tree
    bool close = true;
    for (size_t i = 0; i < phi.size(); ++i) close &= std::fabs(each.so_far[i] - phi[i]) < 4e-10;
    check(close, who, "boost: contributions");
  }
  if (got.effects.size() == std::size(kLosses)) return;
  const Array<double>&own = got.effects.back().sums, &share = got.second_pass[kEffects].sums;
  const size_t places = index(n_places(c.model->forest));
  const oracle::Centred& sizes = c.boosts[kEffects].centred;
  std::vector<double> squares(places), size(places);
  bool rows = true;
  for (size_t i = 0; i < phi.size(); ++i) {
    const double whole = c.row_weight[i / places] * phi[i] * phi[i];
    squares[i % places] += whole - 2 * history.put_back[i], size[i % places] += whole + std::fabs(history.put_back[i]);
    const double most = sizes.centred_sizes[i] + whole + std::fabs(history.put_back[i]);
    rows &= std::fabs(own[i] + whole / 2 - share[i] - history.put_back[i]) <= 4 * kFloat32 * (most + 1);
    rows &= std::fabs(got.effects.back().fixed_sums[i] - share[i]) <= 4 * kFloat32 * (most + 1);
  }
  check(rows, who, "boost: shares without a history");
  for (size_t p = 0; p < places; ++p)  // weights are whole numbers in units of 1 / kFixedScale
    rows &= std::fabs(got.squares[p] / kFixedScale - squares[p]) <= 1e-12 * (size[p] + 1);
  check(rows, who, "squares against the history");
}

void check_shap(const Case& c, const Results& got, const char* who) {
  const Forest& f = c.model->forest;
  bool adds_up = true, defined = true;
  for (int output = 0; output < f.n_outputs; ++output) {
    const double mean = oracle::expected(*c.model, output, 0, got.codes.data(), 0);
    for (int row = 0; row < c.n_rows; ++row) {
      double sum = mean - got.margins[static_cast<size_t>(output * c.padded + row)];
      for (int player = 0; player < f.n_players; ++player) sum += got.shap[sum_at(f, output, player, row)];
      adds_up &= std::fabs(sum) < kClose;
    }
    if (f.n_players > 8) continue;
    for (int row = 0; row < c.n_rows; row += 17) {
      const std::vector<double> phi = oracle::shapley(*c.model, output, got.codes.data(), row);
      for (int player = 0; player < f.n_players; ++player)
        defined &= std::fabs(got.shap[sum_at(f, output, player, row)] - phi[static_cast<size_t>(player)]) < kClose;
    }
  }
  check(adds_up, who, "shap does not add up to the margin: it");
  check(defined, who, "shap against the definition");
}

// Residuals of weighted rows and margins of shuffled columns.
void check_residuals(const Case& c, const Results& got, const char* who) {
  const Forest& f = c.model->forest;
  const size_t outputs = index(f.n_outputs), stride = index(c.padded);
  bool right = true;
  for (size_t i = 0; i < got.residuals.size(); ++i)
    for (size_t row = 0; row < index(c.n_rows); ++row) {
      std::vector<double> y, margin;
      for (size_t k = 0; k < outputs; ++k)
        y.push_back(c.y[k * stride + row]), margin.push_back(got.margins[k * stride + row]);
      const std::vector<double> want = oracle::residuals(kLosses[i], y, margin);
      for (size_t k = 0; k < outputs; ++k) {
        const double g = got.residuals[i][k * stride + row];
        // Poisson: an exponential of a margin up to some 50, its argument good to 2^-53 of it.
        right &= std::fabs(g - want[k] * c.row_weight[row]) <= 1e-13 * c.row_weight[row] * (1 + std::fabs(want[k]));
      }
    }
  check(right, who, "residuals against the oracle");
  check(all_close(got.permuted, oracle::permuted(f, got.codes, c.n_rows)), who, "permute against the oracle");
}

// -- exact sums

// From 1 to the next long double: 64 bits on x86, 113 on arm64 under Linux, 53 on macOS, with MSVC's library and,
// whatever the compiler says, in valgrind. So it is measured.
long double long_double_unit() {
  volatile long double unit = 1, next = 2;
  for (; next > 1; next = 1 + unit / 2) unit = unit / 2;
  return unit;
}

constexpr int kSumLimbs = 5, kSquareLimbs = 7, kFourthLimbs = 10;

struct ExactSums {
  Array<int64_t> sums, squares, fourths;
  bool fits = false;
  bool same_as(const ExactSums& other) const {
    return fits && other.fits && same_bits(sums, other.sums) && same_bits(squares, other.squares) &&
           same_bits(fourths, other.fourths);
  }
};

// values: (rows, columns). cluster: of each row; none: all rows are one. order: of the rows; none: as they come.
ExactSums exact_sums(const Kernels& k, const std::vector<double>& values, size_t n_columns, double scale,
                     const std::vector<int64_t>& cluster = {}, size_t n_clusters = 1,
                     const std::vector<int64_t>& order = {}) {
  const size_t places = n_clusters * n_columns;
  ExactSums out{Array<int64_t>(places * kSumLimbs), Array<int64_t>(places * kSquareLimbs),
                Array<int64_t>(places * kFourthLimbs)};
  Job job;
  job.n_rows = static_cast<int64_t>(values.size() / n_columns);
  call(counted(k).exact, job,
       ExactArgs{values.data(),
                 static_cast<int64_t>(n_columns),
                 scale,
                 {out.sums.data(), kSumLimbs},
                 {out.squares.data(), kSquareLimbs},
                 {out.fourths.data(), kFourthLimbs},
                 cluster.empty() ? nullptr : cluster.data(),
                 order.empty() ? nullptr : order.data(),
                 &out.fits});
  return out;
}

// What the limbs of a number hold, the last in units of 2^last.
long double held(const Array<int64_t>& limbs, size_t place, int n, int last) {
  long double total = 0;
  for (int i = 0; i < n; ++i)
    total += std::ldexp(static_cast<long double>(limbs[place * index(n) + index(i)]), last + 32 * (n - 1 - i));
  return total;
}

// The limbs of one cluster, of rows that were added with others and alone.
bool same_cluster(const ExactSums& all, const ExactSums& alone, size_t cluster) {
  const auto same = [&](const Array<int64_t>& a, const Array<int64_t>& b) {
    return std::equal(b.begin(), b.end(), a.begin() + static_cast<std::ptrdiff_t>(cluster * b.size()));
  };
  return all.fits && alone.fits && same(all.sums, alone.sums) && same(all.squares, alone.squares) &&
         same(all.fourths, alone.fourths);
}

void check_exact(Random& random, int n_rows, int n_columns, const std::vector<InstructionSet>& all) {
  const double scale = 0x1p-3;
  const size_t columns = index(n_columns);
  std::vector<double> values(index(n_rows) * columns);
  // All sizes up to the largest whose fourth power fits, powers of two and their neighbours among them; some too small.
  for (double& x : values) {
    x = random.chance(0.2) ? 0.0 : std::ldexp(random.chance(0.2) ? 1.0 : random.number(), random.below(119) - 80);
    if (random.chance(0.1)) x = std::nextafter(x, 0.0);
  }
  const ExactSums plain = exact_sums(baseline::kernels, values, columns, scale);
  bool right = plain.fits;
  for (size_t c = 0; c < columns; ++c) {
    long double sum = 0, size = 0, squares = 0, fourths = 0;
    for (size_t i = c; i < values.size(); i += columns) {
      const long double x = values[i] * scale;
      sum += x, size += std::fabs(x), squares += x * x, fourths += x * x * x * x;
    }
    // The plain loop rounds at every row. Powers are rounded before they are cut.
    const long double loop = (n_rows + 2 * kFourthLimbs) * long_double_unit();
    const auto close = [&](long double got, long double want, long double allowed, int last) {
      return std::fabs(got - want) <= allowed + n_rows * std::ldexp(1.0L, last);
    };
    right &= close(held(plain.sums, c, kSumLimbs, -88), sum, loop * size, -88);
    right &= close(held(plain.squares, c, kSquareLimbs, -88), squares, (loop + 2e-16L) * squares, -88);
    right &= close(held(plain.fourths, c, kFourthLimbs, -184), fourths, (loop + 6e-16L) * fourths, -184);
  }
  check(right, "baseline", "exact sums against plain loops");

  // Clusters: one with more rows than a tile has, one after the other, then rows of any; the last one has none.
  const int n_clusters = 4;
  std::vector<int64_t> cluster(index(n_rows));
  for (size_t row = 0; row < cluster.size(); ++row) cluster[row] = row < 70 ? 1 : random.below(n_clusters - 1);
  std::vector<int64_t> backwards(index(n_rows));
  for (size_t row = 0; row < backwards.size(); ++row) backwards[row] = n_rows - 1 - static_cast<int64_t>(row);
  for (const InstructionSet& set : all) {
    check(exact_sums(*set.kernels, values, columns, scale).same_as(plain), set.kernels->name, "exact sums");
    check(exact_sums(*set.kernels, values, columns, scale, {}, 1, backwards).same_as(plain), set.kernels->name,
          "exact sums in another order");
    const ExactSums clustered = exact_sums(*set.kernels, values, columns, scale, cluster, n_clusters);
    bool same = true;
    for (int c = 0; c < n_clusters; ++c) {
      std::vector<double> alone;
      for (size_t i = 0; i < values.size(); ++i)
        if (cluster[i / columns] == c) alone.push_back(values[i]);
      same &= same_cluster(clustered, exact_sums(baseline::kernels, alone, columns, scale), index(c));
    }
    check(same, set.kernels->name, "exact sums of clusters");
  }
  for (const double bad : {std::nan(""), HUGE_VAL, 0x1p39}) {  // the last one's fourth power does not fit
    std::vector<double> with_bad = values;
    with_bad[index(random.below(static_cast<int>(values.size())))] = bad;
    for (const InstructionSet& set : all)
      check(!exact_sums(*set.kernels, with_bad, columns, scale).fits, set.kernels->name, "what does not fit");
  }
}

// -- all of it
// ---------------------------------------------------------------------------------------------------------------

// Trees that are visited alone sum what they sum among the others; the others sum nothing.
void check_some_trees(const Case& c, const Results& got, const char* who) {
  const Forest& f = c.model->forest;
  const Boosted &all = got.boosted[0], &some = got.some_trees[0];
  bool sums = true, weights = true;
  for (int tree = 0; tree < f.n_trees; ++tree)
    for (size_t at = index(f.first_leaf[tree] * f.width); at < index(f.first_leaf[tree + 1] * f.width); ++at) {
      const bool visited = tree % 2 == 1;
      // Margins are added in another order, and each row is rounded to a unit.
      const double off = static_cast<double>(some.leaf_sums[at] - (visited ? all.leaf_sums[at] : 0));
      sums &= std::fabs(off) <= (visited ? c.n_rows : 0);
      weights &= some.leaf_weights[at] == (visited ? all.leaf_weights[at] : 0);
    }
  check(sums && weights, who, "boost: leaf sums of some trees");
}

void check_kernels(const std::vector<InstructionSet>& all, bool few) {
  // code bytes, trees, outputs, width, columns, thresholds of column 0, depth of the chain,
  // greater_equal, float32_input, truncate. 300 thresholds need two planes of one byte.
  const Shape shapes[] = {
      {1, 9, 1, 1, 6, 5, 6, true, true, true},         {1, 12, 2, 1, 8, 300, 9, false, false, false},
      {1, 10, 3, 3, 20, 60, 40, true, false, true},    {2, 10, 1, 1, 6, 3000, 12, false, true, false},
      {2, 12, 3, 1, 20, 40000, 40, true, false, true}, {2, 9, 2, 2, 8, 300, 9, false, false, false},
      {1, 80, 2, 1, 8, 60, 9, true, true, true},       // more trees than a tree batch has
      {1, 5, 1, 1, 6, 5, 256, true, true, true},       // chains that are longer than their tops: by one split,
      {2, 5, 2, 2, 8, 300, 400, false, false, false},  // and by many
      {1, 3, 2, 1, 6, 60, 6, true, true, true},        // no tree with a top
  };
  bool sweeps[5] = {};  // how many points were left for the last sweep, and [4]: whether some tree had a full one
  bool deep = false, leaves = false;  // whether frontiers have nodes of both kinds
  uint64_t seed = 100;
  // One row, around a block, more than a strip. Few: one and two bytes, with more than a block.
  const std::vector<int> sizes = few ? std::vector<int>{65} : std::vector<int>{1, 63, 64, 65, 700};
  for (const Shape& shape : shapes)
    for (const int n_rows : sizes) {
      if (few && &shape != &shapes[0] && &shape != &shapes[5] && &shape != &shapes[9]) continue;
      const Case c = random_case(++seed, shape, n_rows);
      for (const ShapTree& t : c.model->shap->trees()) sweeps[t.n_points % 4] = true, sweeps[4] |= t.n_points >= 4;
      for (const TopArrays& top : c.model->built->tops)
        for (const int32_t below : top.below) (below < 0 ? leaves : deep) = true;
      const Results plain = results(c, counted(baseline::kernels));
      check_codes(c, plain, baseline::kernels.name);
      check_routing(c, plain, baseline::kernels.name);
      check_shap(c, plain, baseline::kernels.name);
      check_boost(c, plain, baseline::kernels.name);
      check_shares(c, plain, baseline::kernels.name);
      check_rounds(c, plain, baseline::kernels.name);
      check_effects(c, plain, baseline::kernels.name);
      check_some_trees(c, plain, baseline::kernels.name);
      check_residuals(c, plain, baseline::kernels.name);
      for (const InstructionSet& set : all)
        if (set.kernels != &baseline::kernels) check_same(results(c, counted(*set.kernels)), plain, set.kernels->name);
    }
  if (few) return;
  check(sweeps[0] && sweeps[1] && sweeps[2] && sweeps[3] && sweeps[4], "coverage", "number of sweeps of TreeSHAP");
  check(deep && leaves, "coverage", "nodes of frontiers");
}

}  // namespace
}  // namespace treeinner

int main(int n_arguments, char** arguments) {
  using namespace treeinner;
  const bool few = n_arguments > 1 && !std::strcmp(arguments[1], "few");
  const std::vector<InstructionSet> all = instruction_sets();
  for (const InstructionSet& set : all) check_primitives(*set.primitives, few ? 40 : 2000);
  check_kernels(all, few);
  Random random(2);
  for (const int n_rows : {1, 64, 130})
    for (const int n_columns : {1, 31, 32, 50})
      if (!few || (n_rows == 130 && n_columns == 50)) check_exact(random, n_rows, n_columns, all);
  check(all_called(), "coverage", "which kernels were called");
  std::printf("%lld passed, %lld failed\n", static_cast<long long>(n_passed), static_cast<long long>(n_failed));
  return n_failed != 0;
}
