// 64 rows as one word: the vector primitives, one set per instruction set.
//
// This header is compiled once per level (see kernels.cpp); everything lives in a namespace named after the level, so
// that no function compiled for AVX-512 can be linked into the baseline. Nothing from the C++ library is instantiated
// here or in the kernels for the same reason.
//
// Row r of a block is bit r of a word. A block of codes is 64 consecutive codes of one plane, 64-byte aligned.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(TREEINNER_LEVEL_AVX512)
#define TREEINNER_NS avx512
#include <immintrin.h>
#elif defined(TREEINNER_LEVEL_AVX2)
#define TREEINNER_NS avx2
#include <immintrin.h>
#elif defined(TREEINNER_LEVEL_NEON)
#define TREEINNER_NS neon
#include <arm_neon.h>
#else
#define TREEINNER_NS baseline
#endif

namespace treeinner::TREEINNER_NS {

using Word = uint64_t;
constexpr int kRows = 64;   // rows of a block
constexpr int kLanes = 8;   // rows of a Lanes
constexpr int kGroups = 8;  // Lanes of a block

// The loops over the groups keep a Lanes per group in registers; compilers do not always unroll them by themselves.
#define TREEINNER_UNROLL _Pragma("GCC unroll 8")
#define TREEINNER_INLINE inline __attribute__((always_inline))

template <int N>
struct Count {  // a number as a type
  static constexpr int n = N;
};

// -- which codes are at least `cut`
// ------------------------------------------------------------------------------------

#if defined(TREEINNER_LEVEL_AVX512)

inline Word at_least(const uint8_t* codes, uint16_t cut) {
  return _mm512_cmpge_epu8_mask(_mm512_load_si512(codes), _mm512_set1_epi8(static_cast<char>(cut)));
}

inline Word at_least(const uint16_t* codes, uint16_t cut) {
  const __m512i c = _mm512_set1_epi16(static_cast<short>(cut));
  const Word low = _mm512_cmpge_epu16_mask(_mm512_load_si512(codes), c);
  const Word high = _mm512_cmpge_epu16_mask(_mm512_load_si512(codes + 32), c);
  return low | high << 32;
}

#elif defined(TREEINNER_LEVEL_AVX2)

inline Word byte_mask(__m256i v) { return static_cast<uint32_t>(_mm256_movemask_epi8(v)); }

inline Word at_least(const uint8_t* codes, uint16_t cut) {
  const __m256i c = _mm256_set1_epi8(static_cast<char>(cut));
  // There is no unsigned compare: x >= c exactly if max(x, c) == x.
  const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32));
  return byte_mask(_mm256_cmpeq_epi8(_mm256_max_epu8(a, c), a)) | byte_mask(_mm256_cmpeq_epi8(_mm256_max_epu8(b, c), b))
                                                                      << 32;
}

inline Word at_least(const uint16_t* codes, uint16_t cut) {
  const __m256i c = _mm256_set1_epi16(static_cast<short>(cut));
  Word word = 0;
  for (int half = 0; half < 2; ++half) {
    const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32 * half));
    const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32 * half + 16));
    const __m256i ge_a = _mm256_cmpeq_epi16(_mm256_max_epu16(a, c), a);
    const __m256i ge_b = _mm256_cmpeq_epi16(_mm256_max_epu16(b, c), b);
    // packs works within 128-bit halves; the permutation puts the four quarters back in order.
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(ge_a, ge_b), 0xd8);
    word |= byte_mask(bytes) << (32 * half);
  }
  return word;
}

#elif defined(TREEINNER_LEVEL_NEON)

inline Word byte_mask(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
  // Each byte is 0 or 255: keep the bit of its position, then add neighbours three times.
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  const uint8x16_t ab = vpaddq_u8(vandq_u8(a, bits), vandq_u8(b, bits));
  const uint8x16_t cd = vpaddq_u8(vandq_u8(c, bits), vandq_u8(d, bits));
  const uint8x16_t abcd = vpaddq_u8(ab, cd);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(abcd, abcd)), 0);
}

inline Word at_least(const uint8_t* codes, uint16_t cut) {
  const uint8x16_t c = vdupq_n_u8(static_cast<uint8_t>(cut));
  return byte_mask(vcgeq_u8(vld1q_u8(codes), c), vcgeq_u8(vld1q_u8(codes + 16), c), vcgeq_u8(vld1q_u8(codes + 32), c),
                   vcgeq_u8(vld1q_u8(codes + 48), c));
}

inline Word at_least(const uint16_t* codes, uint16_t cut) {
  const uint16x8_t c = vdupq_n_u16(cut);
  uint8x16_t q[4];
  for (int i = 0; i < 4; ++i)
    q[i] = vcombine_u8(vmovn_u16(vcgeq_u16(vld1q_u16(codes + 16 * i), c)),
                       vmovn_u16(vcgeq_u16(vld1q_u16(codes + 16 * i + 8), c)));
  return byte_mask(q[0], q[1], q[2], q[3]);
}

#else

template <class Code>
inline Word at_least(const Code* codes, uint16_t cut) {
  Word word = 0;
  for (int r = 0; r < kRows; ++r) word |= static_cast<Word>(codes[r] >= cut) << r;
  return word;
}

#endif

// -- which codes are in a set (a bit per code)
// -------------------------------------------------------------------------

template <class Code>
inline Word in_set_one_by_one(const Code* codes, const uint64_t* set) {
  Word word = 0;
  for (int r = 0; r < kRows; ++r) word |= (set[codes[r] >> 6] >> (codes[r] & 63) & 1) << r;
  return word;
}

inline Word in_set(const uint16_t* codes, const uint64_t* set) { return in_set_one_by_one(codes, set); }

#if defined(TREEINNER_LEVEL_AVX2) || defined(TREEINNER_LEVEL_AVX512)

// A set of 256 bits is 32 bytes. Code c looks up byte c >> 3 by two 16-byte shuffles and tests bit c & 7.
inline Word in_set(const uint8_t* codes, const uint64_t* set) {
  const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(set)));
  const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(set + 2)));
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  Word word = 0;
  for (int half = 0; half < 2; ++half) {
    const __m256i code = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32 * half));
    const __m256i byte = _mm256_and_si256(_mm256_srli_epi16(code, 3), _mm256_set1_epi8(31));
    const __m256i upper = _mm256_cmpgt_epi8(byte, _mm256_set1_epi8(15));
    const __m256i found = _mm256_blendv_epi8(_mm256_shuffle_epi8(low, byte), _mm256_shuffle_epi8(high, byte), upper);
    const __m256i bit = _mm256_shuffle_epi8(bit_of, _mm256_and_si256(code, _mm256_set1_epi8(7)));
    const __m256i hit = _mm256_cmpeq_epi8(_mm256_and_si256(found, bit), bit);
    word |= static_cast<Word>(static_cast<uint32_t>(_mm256_movemask_epi8(hit))) << (32 * half);
  }
  return word;
}

#else

inline Word in_set(const uint8_t* codes, const uint64_t* set) { return in_set_one_by_one(codes, set); }

#endif

// -- a byte per row, and marks on some of the rows, in registers where there are any
// ---------------------------------------------------------------------

#if defined(TREEINNER_LEVEL_AVX512)

using Marks = Word;
inline Marks marks(Word word) { return word; }
template <class Code>
inline Marks marks_at_least(const Code* codes, uint16_t cut) {
  return at_least(codes, cut);
}

struct Bytes {
  __m512i v;
};
inline Bytes no_bytes() { return {_mm512_setzero_si512()}; }
inline void put(Bytes& bytes, Word where, uint8_t value) {
  bytes.v = _mm512_mask_mov_epi8(bytes.v, where, _mm512_set1_epi8(static_cast<char>(value)));
}
// Bytes equal to `from` on marked rows become `to`.
inline void move(Bytes& bytes, uint8_t from, Marks where, uint8_t to) {
  put(bytes, _mm512_mask_cmpeq_epi8_mask(where, bytes.v, _mm512_set1_epi8(static_cast<char>(from))), to);
}
inline void store(uint8_t* to, const Bytes& bytes) { _mm512_store_si512(to, bytes.v); }

#elif defined(TREEINNER_LEVEL_AVX2)

struct Marks {
  __m256i low, high;  // all bits of a marked row's byte
};
inline __m256i spread32(uint32_t where) {  // bit r -> byte r all ones
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  const __m256i word = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(where)), byte_of);
  return _mm256_cmpeq_epi8(_mm256_and_si256(word, bit), bit);
}
inline Marks marks(Word word) {
  return {spread32(static_cast<uint32_t>(word)), spread32(static_cast<uint32_t>(word >> 32))};
}
inline Marks marks_at_least(const uint8_t* codes, uint16_t cut) {
  const __m256i c = _mm256_set1_epi8(static_cast<char>(cut));
  const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32));
  return {_mm256_cmpeq_epi8(_mm256_max_epu8(a, c), a), _mm256_cmpeq_epi8(_mm256_max_epu8(b, c), b)};
}
inline Marks marks_at_least(const uint16_t* codes, uint16_t cut) { return marks(at_least(codes, cut)); }

struct Bytes {
  __m256i low, high;
};
inline Bytes no_bytes() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline void put(Bytes& bytes, Word where, uint8_t value) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(value));
  const Marks m = marks(where);
  bytes.low = _mm256_blendv_epi8(bytes.low, v, m.low);
  bytes.high = _mm256_blendv_epi8(bytes.high, v, m.high);
}
inline void move(Bytes& bytes, uint8_t from, Marks where, uint8_t to) {
  const __m256i here = _mm256_set1_epi8(static_cast<char>(from)), up = _mm256_set1_epi8(static_cast<char>(to - from));
  const __m256i low = _mm256_and_si256(_mm256_cmpeq_epi8(bytes.low, here), where.low);
  const __m256i high = _mm256_and_si256(_mm256_cmpeq_epi8(bytes.high, here), where.high);
  bytes.low = _mm256_add_epi8(bytes.low, _mm256_and_si256(low, up));
  bytes.high = _mm256_add_epi8(bytes.high, _mm256_and_si256(high, up));
}
inline void store(uint8_t* to, const Bytes& bytes) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), bytes.low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to + 32), bytes.high);
}

#else

// Plain arrays: the compiler makes vectors of 16 bytes of them on SSE2 and NEON.
struct Marks {
  uint8_t v[kRows];  // 255 on a marked row, else 0
};
inline Marks marks(Word word) {
  Marks m;
  for (int r = 0; r < kRows; ++r) m.v[r] = word >> r & 1 ? 255 : 0;
  return m;
}
template <class Code>
inline Marks marks_at_least(const Code* codes, uint16_t cut) {
  Marks m;
  for (int r = 0; r < kRows; ++r) m.v[r] = codes[r] >= static_cast<Code>(cut) ? 255 : 0;
  return m;
}

struct Bytes {
  uint8_t v[kRows];
};
inline Bytes no_bytes() { return {}; }
inline void put(Bytes& bytes, Word where, uint8_t value) {
  for (; where; where &= where - 1) bytes.v[__builtin_ctzll(where)] = value;
}
inline void move(Bytes& bytes, uint8_t from, const Marks& where, uint8_t to) {
  const uint8_t up = static_cast<uint8_t>(to - from);
  for (int r = 0; r < kRows; ++r)
    bytes.v[r] = static_cast<uint8_t>(bytes.v[r] + ((bytes.v[r] == from ? 255 : 0) & where.v[r] & up));
}
inline void store(uint8_t* to, const Bytes& bytes) { std::memcpy(to, bytes.v, kRows); }

#endif

// -- how many of 15 sorted thresholds send a value right; only where counting beats halving (bin.h)
// ----------------------------------------------------------------------------------------------------

#if defined(TREEINNER_LEVEL_AVX512)

template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  constexpr int kOrder = GreaterEqual ? _CMP_GE_OQ : _CMP_GT_OQ;
  const __m512 v = _mm512_set1_ps(x);
  return __builtin_popcount(_mm512_mask_cmp_ps_mask(0x7fff, v, _mm512_maskz_loadu_ps(0x7fff, t), kOrder));
}

#elif defined(TREEINNER_LEVEL_AVX2)

template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  constexpr int kOrder = GreaterEqual ? _CMP_GE_OQ : _CMP_GT_OQ;
  const __m256 v = _mm256_set1_ps(x);
  // Nothing behind the 15 is read: the vectors overlap, and so do their bits.
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_loadu_ps(t), kOrder));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_loadu_ps(t + 7), kOrder));
  return __builtin_popcount(static_cast<unsigned>(low | high << 7));
}

#endif

// -- a double as a whole number
// ----------------------------------------------------------------------------------------

inline uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// x rounded to a whole number, a half to the even one; 0 if |x| >= 2^62 or x is NaN.
inline int64_t whole_number(double x) {
#if defined(TREEINNER_LEVEL_AVX512) || defined(TREEINNER_LEVEL_NEON)
  return __builtin_fabs(x) < 0x1p62 ? static_cast<int64_t>(__builtin_rint(x)) : 0;
#else
  // No vector instruction does it. Adding 1.5 * 2^52 rounds numbers below 2^51, and the sum's bits are then that many
  // more than the constant's. So in two parts: how many 2^32, and what is left, which a double holds exactly.
  const double shift = 0x1.8p52, above = x * 0x1p-32 + shift, below = (x - (above - shift) * 0x1p32) + shift;
  const uint64_t fits = -static_cast<uint64_t>(__builtin_fabs(x) < 0x1p62);
  return static_cast<int64_t>(((bits_of(above) << 32) + bits_of(below) - bits_of(shift)) & fits);
#endif
}

}  // namespace treeinner::TREEINNER_NS
