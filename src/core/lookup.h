// A float for each of 64 leaves, looked up for 32 rows at once: AVX-512 only (scores.h).
#pragma once

#include "word.h"

namespace treeinner::TREEINNER_NS {

#if defined(TREEINNER_LEVEL_AVX512)
#define TREEINNER_LOOKS_UP
constexpr int kFloats = 32;

struct Floats {
  __m512 low, high;
};
inline Floats load(const float* p) { return {_mm512_load_ps(p), _mm512_load_ps(p + 16)}; }
inline void store(float* p, Floats a) {
  _mm512_store_ps(p, a.low);
  _mm512_store_ps(p + 16, a.high);
}
inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.low, b.low), _mm512_add_ps(a.high, b.high)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.low, b.low), _mm512_mul_ps(a.high, b.high)}; }

// One permutation takes 32 numbers out of 64, if they have 16 bits: so the halves of the floats have tables of their
// own.
struct FloatTable {
  __m512i low[2], high[2];
  FloatTable(const uint16_t* l, const uint16_t* h)
      : low{_mm512_load_si512(l), _mm512_load_si512(l + 32)}, high{_mm512_load_si512(h), _mm512_load_si512(h + 32)} {}
  Floats operator()(const uint8_t* leaf) const {
    const __m512i at = _mm512_cvtepu8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(leaf)));
    const __m512i l = _mm512_permutex2var_epi16(low[0], at, low[1]),
                  h = _mm512_permutex2var_epi16(high[0], at, high[1]);
    return {_mm512_castsi512_ps(_mm512_unpacklo_epi16(l, h)), _mm512_castsi512_ps(_mm512_unpackhi_epi16(l, h))};
  }
};

// The order in which a FloatTable wants the leaves of 32 rows: its unpacking then gives the rows in order.
inline void arrange(const uint8_t* leaf, uint8_t* arranged) {
  const __m256i rows = _mm256_load_si256(reinterpret_cast<const __m256i*>(leaf));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_store_si256(reinterpret_cast<__m256i*>(arranged), _mm256_permutevar8x32_epi32(rows, order));
}
#endif

}  // namespace treeinner::TREEINNER_NS
