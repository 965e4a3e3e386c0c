// What AVX2 and AVX-512 share.
#pragma once

#include <immintrin.h>

namespace treeinner::TREEINNER_NS {
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
}  // namespace treeinner::TREEINNER_NS
