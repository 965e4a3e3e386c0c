// The vector functions of one instruction set against plain loops; and the count of checks.
#pragma once

#include <cmath>
#include <cstdio>

#include "primitives.h"
#include "random_table.h"

namespace treeinner {

inline int64_t n_passed = 0, n_failed = 0;

inline void check(bool right, const char* who, const char* what) {
  ++(right ? n_passed : n_failed);
  if (!right && n_failed <= 20) std::fprintf(stderr, "%s: %s differs\n", who, what);
}

constexpr int kLanes = 8;

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

inline void check_put(Random& random, const Primitives& p) {
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
inline double lane(Random& random) {
  constexpr double kSpecial[] = {0.0, 1e308, 5e-324, -5e-324, 1e-200};
  return random.chance(0.2) ? kSpecial[random.below(5)] : random.number();
}

inline void check_lanes(Random& random, const Primitives& p) {
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

inline void check_fixed_point(Random& random, const Primitives& p) {
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

inline void check_primitives(const Primitives& p, int n) {
  Random random(1);
  check_positions<uint8_t>(p);
  check_positions<uint16_t>(p);
  for (int i = 0; i < n; ++i) {
    check_compare<uint8_t>(random, p);
    if (i % 20 == 0) check_compare<uint16_t>(random, p);  // its set is 8 KiB of random bits
    check_put(random, p);
    check_lanes(random, p);
    check_fixed_point(random, p);
  }
}

}  // namespace treeinner
