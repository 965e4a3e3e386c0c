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
//   Doubles pick(word, yes, no)        one register of doubles: bit l of the word chooses lane l
//   int count_right<greater_equal>(const float* t, float x)            how many of 15 sorted thresholds send x right
//   kCountsThresholds                  whether that beats halving (bin.h)
//
// Arithmetic is the same for all sets but for the size of a register: see Pack below.
#pragma once

#include <cstdint>
#include <cstring>

#include "../model/forest.h"

// Who compiles for an instruction set says which, and how many bytes its registers have (CMakeLists.txt).
#if !defined(TREEINNER_NS)
#define TREEINNER_NS baseline
#define TREEINNER_REGISTER 16
#endif
#define TREEINNER_STRING_(x) #x
#define TREEINNER_STRING(x) TREEINNER_STRING_(x)

namespace treeinner::TREEINNER_NS {
using Word = uint64_t;
constexpr int kLanes = 8;

template <int N>
struct Count {  // a number as a type
  static constexpr int n = N;
};

using Doubles = double TREEINNER_VECTOR(TREEINNER_REGISTER);
using Longs = uint64_t TREEINNER_VECTOR(TREEINNER_REGISTER);
using FourFloats = float TREEINNER_VECTOR(16);

// Numbers in as many registers as they take.
template <class Register, int Numbers>
struct Pack {
  static constexpr int kIn = sizeof(Register) / sizeof(Register{}[0]), kRegisters = Numbers / kIn;
  Register part[kRegisters];
};
#define TREEINNER_PARTS TREEINNER_UNROLL for (int i = 0; i < P::kRegisters; ++i)
#define TREEINNER_OPERATOR(op)                                                        \
  template <class R, int N, class P = Pack<R, N>>                                     \
  TREEINNER_INLINE Pack<R, N> operator op(const Pack<R, N>& a, const Pack<R, N>& b) { \
    P c;                                                                              \
    TREEINNER_PARTS c.part[i] = a.part[i] op b.part[i];                               \
    return c;                                                                         \
  }
TREEINNER_OPERATOR(+);
TREEINNER_OPERATOR(-);
TREEINNER_OPERATOR(*);
#undef TREEINNER_OPERATOR

// Memory is aligned to registers.
template <class P, class Number>
TREEINNER_INLINE P load(const Number* p) {
  P a;
  TREEINNER_PARTS std::memcpy(&a.part[i], TREEINNER_ALIGNED(p + i * P::kIn, sizeof a.part[i]), sizeof a.part[i]);
  return a;
}
template <class P, class Number>
TREEINNER_INLINE void store(Number* p, const P& a) {
  TREEINNER_PARTS std::memcpy(TREEINNER_ALIGNED(p + i * P::kIn, sizeof a.part[i]), &a.part[i], sizeof a.part[i]);
}
template <class P>
TREEINNER_INLINE P all(double x) {
  P a;
  TREEINNER_PARTS a.part[i] = x - Doubles{};
  return a;
}

using Lanes = Pack<Doubles, kLanes>;
using Tally = Pack<Longs, kLanes>;  // sums of the bits of doubles
using Quad = Pack<FourFloats, 4>;

inline uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline Tally bits_of(const Lanes& x) {
  using P = Tally;
  P bits;
  TREEINNER_PARTS bits.part[i] = reinterpret_cast<Longs>(x.part[i]);
  return bits;
}

// x rounded to an integer, a half to the even one; 0 if |x| >= 2^62 or x is NaN. Adding 1.5 * 2^52 rounds numbers below
// 2^51, and the sum's bits are then that many more than the constant's. So in two parts: how many 2^32, and what is
// left, which a double holds exactly.
inline int64_t fixed_point(double x) {
  const double shift = 0x1.8p52, above = x * 0x1p-32 + shift, below = (x - (above - shift) * 0x1p32) + shift;
  const uint64_t fits = -static_cast<uint64_t>(absolute(x) < 0x1p62);
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

#include TREEINNER_STRING(TREEINNER_NS.h)

namespace treeinner::TREEINNER_NS {
template <class P>
TREEINNER_INLINE P choose(Word rows, const P& yes, const P& no) {
  P c;
  TREEINNER_PARTS c.part[i] = pick(rows >> i * P::kIn, yes.part[i], no.part[i]);
  return c;
}
}  // namespace treeinner::TREEINNER_NS
