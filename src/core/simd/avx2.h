// AVX2, BMI and BMI2: a block of 8-bit codes is two registers. See api.h.
#pragma once

#include "narrow.h"
#include "x86.h"

namespace treeinner::TREEINNER_NS {
inline Octets spread(Word where) {  // bit r -> byte r all ones
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101ll, 0x0202020202020202ll, 0x0303030303030303ll);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ull));
  const __m256i word = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(where)), byte_of);
  return reinterpret_cast<Octets>(_mm256_cmpeq_epi8(_mm256_and_si256(word, bit), bit));
}
inline Marks marks(Word word) { return {{spread(word), spread(word >> 32)}}; }

inline Marks marks_at_least(const uint16_t* codes, uint16_t cut) {
  // There is no unsigned compare: x >= c exactly if max(x, c) == x.
  const __m256i c = _mm256_set1_epi16(static_cast<short>(cut));
  const auto at_least = [&](int row) {
    const __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + row));
    return _mm256_cmpeq_epi16(_mm256_max_epu16(x, c), x);
  };
  Marks m;
  // packs works within 128-bit halves; the permutation puts the four quarters back in order.
  for (int i = 0; i < 2; ++i)
    m.part[i] = reinterpret_cast<Octets>(
        _mm256_permute4x64_epi64(_mm256_packs_epi16(at_least(32 * i), at_least(32 * i + 16)), 0xd8));
  return m;
}

template <class Code>
inline Word at_least(const Code* codes, uint16_t cut) {
  const Marks m = marks_at_least(codes, cut);
  const auto word = [](Octets v) -> Word {
    return static_cast<uint32_t>(_mm256_movemask_epi8(reinterpret_cast<__m256i>(v)));
  };
  return word(m.part[0]) | word(m.part[1]) << 32;
}

constexpr bool kCountsThresholds = true;
template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  constexpr int kOrder = GreaterEqual ? _CMP_GE_OQ : _CMP_GT_OQ;
  const __m256 v = _mm256_set1_ps(x);
  // Nothing behind the 15 is read: the vectors overlap, and so do their bits.
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_loadu_ps(t), kOrder));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_loadu_ps(t + 7), kOrder));
  return count_bits(static_cast<uint32_t>(low | high << 7));
}
}  // namespace treeinner::TREEINNER_NS
