// AVX-512 F, BW, DQ and VL: a block of 8-bit codes is one register. See api.h.
#pragma once

#include "x86.h"

namespace treeinner::TREEINNER_NS {
inline Word at_least(const uint8_t* codes, uint16_t cut) {
  return _mm512_cmpge_epu8_mask(_mm512_load_si512(codes), _mm512_set1_epi8(static_cast<char>(cut)));
}

inline Word at_least(const uint16_t* codes, uint16_t cut) {
  const __m512i c = _mm512_set1_epi16(static_cast<short>(cut));
  const Word low = _mm512_cmpge_epu16_mask(_mm512_load_si512(codes), c);
  const Word high = _mm512_cmpge_epu16_mask(_mm512_load_si512(codes + 32), c);
  return low | high << 32;
}

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
inline void move(Bytes& bytes, uint8_t from, Marks where, uint8_t to) {
  put(bytes, _mm512_mask_cmpeq_epi8_mask(where, bytes.v, _mm512_set1_epi8(static_cast<char>(from))), to);
}
inline void store(uint8_t* to, const Bytes& bytes) { _mm512_store_si512(to, bytes.v); }

inline Doubles pick(Word word, Doubles yes, Doubles no) {
  return _mm512_mask_blend_pd(static_cast<__mmask8>(word), no, yes);
}

constexpr bool kCountsThresholds = true;
template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  constexpr int kOrder = GreaterEqual ? _CMP_GE_OQ : _CMP_GT_OQ;
  const __m512 v = _mm512_set1_ps(x);
  return count_bits(uint32_t{_mm512_mask_cmp_ps_mask(0x7fff, v, _mm512_maskz_loadu_ps(0x7fff, t), kOrder)});
}
}  // namespace treeinner::TREEINNER_NS
