// Every instruction set of this machine against the baseline, bit for bit, and the baseline against plain loops.
//
// No Python: on arm64 it runs under an emulator (`make test-neon`), on x86-64 under the sanitizers
// (`make test-core-sanitized`). Random models from fixed seeds; prints "N passed, 0 failed".
#include <cmath>
#include <cstdio>
#include <initializer_list>

#include "oracle.h"
#include "primitives.h"
#include "random_case.h"

namespace treeinner {
namespace {

constexpr int kLanes = 8;

int64_t n_passed = 0, n_failed = 0;

void check(bool right, const char* who, const char* what) {
  ++(right ? n_passed : n_failed);
  if (!right && n_failed <= 20) std::fprintf(stderr, "%s: %s differs\n", who, what);
}

// -- primitives against plain loops
// ---------------------------------------------------------------------------------------

template <class Code>
void check_compare(Random& random, const Primitives& p) {
  constexpr int kLargest = std::numeric_limits<Code>::max();
  Array<Code> codes(kBlock);
  const int cut = random.chance(0.2) ? kLargest : random.below(kLargest + 1);
  // Codes around the cut, where a wrong compare shows, and anywhere.
  for (Code& c : codes)
    c = static_cast<Code>(random.chance(0.5) ? random.below(kLargest + 1)
                                             : std::min(kLargest, std::max(0, cut + random.below(5) - 2)));
  std::vector<uint64_t> set((kLargest + 1) / 64);
  for (uint64_t& word : set) word = random.bits();
  uint64_t expected = 0, expected_in = 0;
  for (int r = 0; r < kBlock; ++r) {
    const uint64_t code = codes[static_cast<size_t>(r)];
    expected |= uint64_t{code >= static_cast<uint64_t>(cut)} << r;
    expected_in |= (set[code / 64] >> code % 64 & 1) << r;
  }
  const uint16_t c = static_cast<uint16_t>(cut);
  if constexpr (sizeof(Code) == 1) {
    check(p.at_least_8(codes.data(), c) == expected, p.name, "at_least, 1 byte");
    check(p.in_set_8(codes.data(), set.data()) == expected_in, p.name, "in_set, 1 byte");
  } else {
    check(p.at_least_16(codes.data(), c) == expected, p.name, "at_least, 2 bytes");
    check(p.in_set_16(codes.data(), set.data()) == expected_in, p.name, "in_set, 2 bytes");
  }
}

// Each code alone among its opposites, so that a bit in the wrong place shows.
template <class Code>
void check_positions(const Primitives& p) {
  for (int r = 0; r < kBlock; ++r) {
    Array<Code> codes(kBlock, 9);
    codes[static_cast<size_t>(r)] = 10;
    uint64_t found;
    if constexpr (sizeof(Code) == 1)
      found = p.at_least_8(codes.data(), 10);
    else
      found = p.at_least_16(codes.data(), 10);
    check(found == uint64_t{1} << r, p.name, "at_least, one row");
  }
}

void check_put(Random& random, const Primitives& p) {
  constexpr int kPuts = 5;
  Array<uint8_t> bytes(kBlock, 77), expected(kBlock);
  uint64_t where[kPuts];
  uint8_t value[kPuts];
  for (int i = 0; i < kPuts; ++i) {
    where[i] = random.chance(0.1) ? 0 : random.chance(0.1) ? ~uint64_t{0} : random.bits() & random.bits();
    value[i] = static_cast<uint8_t>(random.bits());
    for (int r = 0; r < kBlock; ++r)
      if (where[i] >> r & 1) expected[static_cast<size_t>(r)] = value[i];
  }
  p.put(where, value, kPuts, bytes.data());
  check(same_bits(bytes, expected), p.name, "put");
}

// No NaN: which of two NaNs an addition returns is the compiler's choice.
double lane(Random& random) {
  constexpr double kSpecial[] = {0.0, 1e308, 5e-324, -5e-324, 1e-200};
  return random.chance(0.2) ? kSpecial[random.below(5)] : random.number();
}

void check_lanes(Random& random, const Primitives& p) {
  Array<double> a(kLanes), b(kLanes), out(kLanes), expected(kLanes);
  for (double& x : a) x = lane(random);
  for (double& x : b) x = random.chance(0.1) ? -0.0 : lane(random);
  const double yes = lane(random);
  const uint8_t mask = static_cast<uint8_t>(random.bits());
  auto compare = [&](const char* what, auto lane_of) {
    for (size_t l = 0; l < kLanes; ++l) expected[l] = lane_of(l, (mask >> l & 1) != 0);
    check(same_bits(out, expected), p.name, what);
  };
  p.all(yes, out.data());
  compare("all", [&](size_t, bool) { return yes; });
  p.add(a.data(), b.data(), out.data());
  compare("+", [&](size_t l, bool) { return a[l] + b[l]; });
  p.multiply(a.data(), b.data(), out.data());
  compare("*", [&](size_t l, bool) { return a[l] * b[l]; });
  p.choose(mask, a.data(), b.data(), out.data());
  compare("choose", [&](size_t l, bool m) { return m ? a[l] : b[l]; });
}

void check_fixed_point(Random& random, const Primitives& p) {
  // Halves, every exponent from 2^-70 on, and the ends of the range.
  const double special[] = {0x1p62, -0x1p62, std::nextafter(0x1p62, 0.0), 3 * 0x1p31, HUGE_VAL, std::nan("")};
  Array<double> x(kLanes);
  Array<int64_t> out(kLanes), expected(kLanes);
  for (size_t l = 0; l < kLanes; ++l) {
    const double integer = static_cast<double>(static_cast<int64_t>(random.bits()) >> random.below(63));
    x[l] = std::ldexp(integer, random.chance(0.5) ? -1 : -random.below(70));
    if (random.chance(0.1)) x[l] = special[random.below(6)];
    expected[l] = std::fabs(x[l]) < 0x1p62 ? static_cast<int64_t>(std::nearbyint(x[l])) : 0;
  }
  p.fixed_point(x.data(), out.data());
  check(same_bits(out, expected), p.name, "fixed_point");
}

void check_primitives(const Primitives& p) {
  Random random(1);
  check_positions<uint8_t>(p);
  check_positions<uint16_t>(p);
  for (int i = 0; i < 2000; ++i) {
    check_compare<uint8_t>(random, p);
    if (i % 20 == 0) check_compare<uint16_t>(random, p);  // its set is 8 KiB of random bits
    check_put(random, p);
    check_lanes(random, p);
    check_fixed_point(random, p);
  }
}

// -- kernels
// ---------------------------------------------------------------------------------------------------------------

void check_same(const Results& a, const Results& b, const char* who) {
  check(same_bits(a.codes, b.codes), who, "bin");
  check(same_bits(a.leaves, b.leaves), who, "leaves");
  check(same_bits(a.margins, b.margins), who, "margins");
  check(same_bits(a.leaf_sums, b.leaf_sums), who, "leaf_sums");
  check(same_bits(a.path, b.path), who, "path");
  check(same_bits(a.weighted_path, b.weighted_path), who, "path with weights");
  check(same_bits(a.shap, b.shap), who, "shap");
  check(same_bits(a.weighted_shap, b.weighted_shap), who, "shap with weights");
  for (size_t i = 0; i < a.boosted.size(); ++i) {
    const Boosted &x = a.boosted[i], &y = b.boosted[i];
    check(same_bits(x.margin, y.margin) && same_bits(x.largest, y.largest), who, "boost: margins");
    check(same_bits(x.leaf_sums, y.leaf_sums) && same_bits(x.leaf_weights, y.leaf_weights), who, "boost: leaves");
    check(same_bits(x.sums, y.sums), who, "boost: row scores");
  }
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

bool all_close(const Array<double>& a, const Array<double>& b) {
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
  check(same_bits(got.boosted[0].sums, got.boosted.back().sums), who, "boost: row scores by records and by lookup");
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

// -- all of it
// ---------------------------------------------------------------------------------------------------------------

struct InstructionSet {
  const Kernels* kernels;
  const Primitives* primitives;
};

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> all{{&baseline::kernels, &baseline::primitives}};
#if defined(__aarch64__)
  all.push_back({&neon::kernels, &neon::primitives});
#elif defined(__x86_64__)
  __builtin_cpu_init();
  const bool bmi = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (bmi && __builtin_cpu_supports("avx2"))
    all.push_back({&avx2::kernels, &avx2::primitives});
  else
    std::puts("avx2: not on this machine, left out");
  if (bmi && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    all.push_back({&avx512::kernels, &avx512::primitives});
  else
    std::puts("avx512: not on this machine, left out");
#endif
  return all;
}

void check_kernels(const std::vector<InstructionSet>& all) {
  // code bytes, trees, outputs, width, columns, thresholds of column 0, depth of the chain,
  // greater_equal, float32_input, truncate. 300 thresholds need two planes of one byte.
  const Shape shapes[] = {
      {1, 9, 1, 1, 6, 5, 6, true, true, true},         {1, 12, 2, 1, 8, 300, 9, false, false, false},
      {1, 10, 3, 3, 20, 60, 40, true, false, true},    {2, 10, 1, 1, 6, 3000, 12, false, true, false},
      {2, 12, 3, 1, 20, 40000, 40, true, false, true}, {2, 9, 2, 2, 8, 300, 9, false, false, false},
      {1, 80, 2, 1, 8, 60, 9, true, true, true},       // more trees than a tree batch has
      {1, 5, 1, 1, 6, 5, 256, true, true, true},       // chains that are longer than their tops: by one split,
      {2, 5, 2, 2, 8, 300, 400, false, false, false},  // and by many
  };
  bool sweeps[5] = {};  // how many points were left for the last sweep, and [4]: whether some tree had a full one
  bool deep = false, leaves = false;  // whether frontiers have nodes of both kinds
  uint64_t seed = 100;
  for (const Shape& shape : shapes)
    for (const int n_rows : {1, 63, 64, 65, 700}) {  // one row, around a block, more than a strip
      const Case c = random_case(++seed, shape, n_rows);
      for (const ShapTree& t : c.model->shap->trees()) sweeps[t.n_points % 4] = true, sweeps[4] |= t.n_points >= 4;
      for (const TopArrays& top : c.model->built->tops)
        for (const int32_t below : top.below) (below < 0 ? leaves : deep) = true;
      const Results plain = results(c, baseline::kernels);
      check_codes(c, plain, baseline::kernels.name);
      check_routing(c, plain, baseline::kernels.name);
      check_shap(c, plain, baseline::kernels.name);
      check_boost(c, plain, baseline::kernels.name);
      for (const InstructionSet& set : all)
        if (set.kernels != &baseline::kernels) check_same(results(c, *set.kernels), plain, set.kernels->name);
    }
  check(sweeps[0] && sweeps[1] && sweeps[2] && sweeps[3] && sweeps[4], "coverage", "number of sweeps of TreeSHAP");
  check(deep && leaves, "coverage", "nodes of frontiers");
}

}  // namespace
}  // namespace treeinner

int main() {
  using namespace treeinner;
  const std::vector<InstructionSet> all = instruction_sets();
  std::printf("instruction sets:");
  for (const InstructionSet& set : all) std::printf(" %s", set.kernels->name);
  std::puts("");
  for (const InstructionSet& set : all) check_primitives(*set.primitives);
  check_kernels(all);
  std::printf("%lld passed, %lld failed\n", static_cast<long long>(n_passed), static_cast<long long>(n_failed));
  return n_failed != 0;
}
