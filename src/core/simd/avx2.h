// AVX2, BMI and BMI2: a block of 8-bit codes is two registers. See api.h.
#pragma once

#include "plain_floats.h"
#include "x86.h"

namespace treeinner::TREEINNER_NS {
struct Bytes {
  __m256i low, high;
};
using Marks = Bytes;                       // all bits of a marked row's byte
inline __m256i spread32(uint32_t where) {  // bit r -> byte r all ones
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  const __m256i word = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(where)), byte_of);
  return _mm256_cmpeq_epi8(_mm256_and_si256(word, bit), bit);
}
inline Marks marks(Word word) {
  return {spread32(static_cast<uint32_t>(word)), spread32(static_cast<uint32_t>(word >> 32))};
}
// There is no unsigned compare: x >= c exactly if max(x, c) == x.
inline Marks marks_at_least(const uint8_t* codes, uint16_t cut) {
  const __m256i c = _mm256_set1_epi8(static_cast<char>(cut));
  const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32));
  return {_mm256_cmpeq_epi8(_mm256_max_epu8(a, c), a), _mm256_cmpeq_epi8(_mm256_max_epu8(b, c), b)};
}
inline __m256i bytes_at_least(const uint16_t* codes, uint16_t cut) {  // of 32 rows
  const __m256i c = _mm256_set1_epi16(static_cast<short>(cut));
  const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
  const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 16));
  const __m256i ge_a = _mm256_cmpeq_epi16(_mm256_max_epu16(a, c), a);
  const __m256i ge_b = _mm256_cmpeq_epi16(_mm256_max_epu16(b, c), b);
  // packs works within 128-bit halves; the permutation puts the four quarters back in order.
  return _mm256_permute4x64_epi64(_mm256_packs_epi16(ge_a, ge_b), 0xd8);
}
inline Marks marks_at_least(const uint16_t* codes, uint16_t cut) {
  return {bytes_at_least(codes, cut), bytes_at_least(codes + 32, cut)};
}

template <class Code>
inline Word at_least(const Code* codes, uint16_t cut) {
  const Marks m = marks_at_least(codes, cut);
  const auto word = [](__m256i v) -> Word { return static_cast<uint32_t>(_mm256_movemask_epi8(v)); };
  return word(m.low) | word(m.high) << 32;
}

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

inline int64_t fixed_point(double x) { return fixed_point_by_shifting(x); }

constexpr bool kCountsThresholds = true;
template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  constexpr int kOrder = GreaterEqual ? _CMP_GE_OQ : _CMP_GT_OQ;
  const __m256 v = _mm256_set1_ps(x);
  // Nothing behind the 15 is read: the vectors overlap, and so do their bits.
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_loadu_ps(t), kOrder));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_loadu_ps(t + 7), kOrder));
  return __builtin_popcount(static_cast<unsigned>(low | high << 7));
}
}  // namespace treeinner::TREEINNER_NS
