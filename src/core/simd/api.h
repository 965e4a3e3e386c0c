// The vector functions, the same for every instruction set. This file says what they do; one file per set says how.
//
// What includes it is compiled once per instruction set (kernels/table.cpp) into a namespace of that name, so that no
// function compiled for AVX-512 can be linked into the baseline. Nothing from the C++ library is instantiated here or
// in the kernels for the same reason.
//
// Row r of a block is bit r of a Word. A block of codes is 64 consecutive codes of one plane, 64-byte aligned.
//
//   Word at_least(const Code* codes, uint16_t cut)        rows whose code is at least `cut`
//   Word in_set(const Code* codes, const uint64_t* set)   rows whose code is in a set, a bit per code; of 8-bit codes
//                                                         the set has all 256 bits
//   Marks: some rows of a block, marked
//     marks(word), marks_at_least(codes, cut)
//   Bytes: a byte per row of a block
//     no_bytes()                       zeros
//     put(bytes, where, value)         on the rows of a Word
//     move(bytes, from, marks, to)     bytes equal to `from` on marked rows become `to`
//     store(uint8_t*, bytes)           aligned
//   Lanes: eight doubles
//     load(p), store(p, a)             aligned
//     all(x), a + b, a - b, a * b, choose(mask, yes, no)
//   Tally: eight 64-bit sums
//     no_tally(), add_bits(tally, lanes), store(uint64_t*, tally)      sums of the bits of doubles
//   int64_t fixed_point(double x)      x rounded to an integer, a half to the even one; 0 if |x| >= 2^62 or x is NaN
//   int count_right<greater_equal>(const float* t, float x)            how many of 15 sorted thresholds send x right
//   kCountsThresholds                  whether that beats halving (bin.h)
//   Floats: kFloats = 32 of them: load, store (aligned), +, *
//   FloatTable(low, high)(leaf)        the floats of 32 rows by their leaves, out of 64, whose 16-bit halves come apart
//   arrange(leaf, arranged)            the order in which a FloatTable wants the leaves of 32 rows
//   kLooksUp                           whether that beats adding records (tree_batch.h)
#pragma once

#include <cstdint>
#include <cstring>

#include "../model/forest.h"

#if defined(TREEINNER_ISA_AVX512)
#define TREEINNER_NS avx512
#elif defined(TREEINNER_ISA_AVX2)
#define TREEINNER_NS avx2
#elif defined(TREEINNER_ISA_NEON)
#define TREEINNER_NS neon
#else
#define TREEINNER_NS baseline
#endif

namespace treeinner::TREEINNER_NS {
using Word = uint64_t;
using Mask = uint8_t;                     // bit l: lane l
constexpr int kLanes = 8;                 // rows of a Lanes
constexpr int kOctets = kBlock / kLanes;  // Lanes of a block

// The loops over the parts of a block keep one vector each in registers; compilers do not always unroll them.
#define TREEINNER_UNROLL _Pragma("GCC unroll 8")

template <int N>
struct Count {  // a number as a type
  static constexpr int n = N;
};

inline Mask mask_of(Word word, int octet) { return static_cast<Mask>(word >> (kLanes * octet)); }

inline uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// fixed_point where a vector instruction converts.
inline int64_t fixed_point_by_rounding(double x) {
  return __builtin_fabs(x) < 0x1p62 ? static_cast<int64_t>(__builtin_rint(x)) : 0;
}

// fixed_point where none does. Adding 1.5 * 2^52 rounds numbers below 2^51, and the sum's bits are then that many more
// than the constant's. So in two parts: how many 2^32, and what is left, which a double holds exactly.
inline int64_t fixed_point_by_shifting(double x) {
  const double shift = 0x1.8p52, above = x * 0x1p-32 + shift, below = (x - (above - shift) * 0x1p32) + shift;
  const uint64_t fits = -static_cast<uint64_t>(__builtin_fabs(x) < 0x1p62);
  return static_cast<int64_t>(((bits_of(above) << 32) + bits_of(below) - bits_of(shift)) & fits);
}

template <class Code>
inline Word in_set_one_by_one(const Code* codes, const uint64_t* set) {
  Word word = 0;
  for (int r = 0; r < kBlock; ++r) word |= (set[codes[r] >> 6] >> (codes[r] & 63) & 1) << r;
  return word;
}
inline Word in_set(const uint16_t* codes, const uint64_t* set) { return in_set_one_by_one(codes, set); }
}  // namespace treeinner::TREEINNER_NS

#if defined(TREEINNER_ISA_AVX512)
#include "avx512.h"
#elif defined(TREEINNER_ISA_AVX2)
#include "avx2.h"
#elif defined(TREEINNER_ISA_NEON)
#include "neon.h"
#else
#include "scalar.h"
#endif
