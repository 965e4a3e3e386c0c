// Eight doubles, and eight 64-bit sums of the bits of doubles: in registers where there are any.
#pragma once

#include "word.h"

namespace treeinner::TREEINNER_NS {

using Mask = uint8_t;  // bit l: lane l

inline Mask mask_of(Word word, int group) { return static_cast<Mask>(word >> (kLanes * group)); }

#if defined(TREEINNER_LEVEL_AVX512)

struct Lanes {
  __m512d v;
};
inline Lanes load(const double* p) { return {_mm512_load_pd(p)}; }
inline void store(double* p, Lanes a) { _mm512_store_pd(p, a.v); }
inline Lanes all(double x) { return {_mm512_set1_pd(x)}; }
inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_pd(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_pd(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_pd(a.v, b.v)}; }
inline Lanes choose(Mask m, Lanes yes, Lanes no) { return {_mm512_mask_blend_pd(m, no.v, yes.v)}; }

struct Tally {
  __m512i v;
};
inline Tally no_tally() { return {_mm512_setzero_si512()}; }
inline void add_bits(Tally& t, Lanes a) { t.v = _mm512_add_epi64(t.v, _mm512_castpd_si512(a.v)); }
inline void store(uint64_t* p, Tally t) { _mm512_storeu_si512(p, t.v); }

#elif defined(TREEINNER_LEVEL_AVX2)

struct Lanes {
  __m256d low, high;
};
inline Lanes load(const double* p) { return {_mm256_load_pd(p), _mm256_load_pd(p + 4)}; }
inline void store(double* p, Lanes a) {
  _mm256_store_pd(p, a.low);
  _mm256_store_pd(p + 4, a.high);
}
inline Lanes all(double x) { return {_mm256_set1_pd(x), _mm256_set1_pd(x)}; }
inline Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)}; }
inline __m256d spread4(unsigned m) {  // bit l -> lane l all ones
  const __m256i bit = _mm256_setr_epi64x(1, 2, 4, 8);
  return _mm256_castsi256_pd(_mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(m), bit), bit));
}
inline Lanes choose(Mask m, Lanes yes, Lanes no) {
  return {_mm256_blendv_pd(no.low, yes.low, spread4(m)), _mm256_blendv_pd(no.high, yes.high, spread4(m >> 4))};
}

struct Tally {
  __m256i low, high;
};
inline Tally no_tally() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline void add_bits(Tally& t, Lanes a) {
  t.low = _mm256_add_epi64(t.low, _mm256_castpd_si256(a.low));
  t.high = _mm256_add_epi64(t.high, _mm256_castpd_si256(a.high));
}
inline void store(uint64_t* p, Tally t) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), t.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 4), t.high);
}

#else

// Plain arrays: the compiler makes two-lane vectors of them on SSE2 and NEON.
struct Lanes {
  double v[kLanes];
};
inline Lanes load(const double* p) {
  Lanes a;
  std::memcpy(a.v, p, sizeof a.v);
  return a;
}
inline void store(double* p, Lanes a) { std::memcpy(p, a.v, sizeof a.v); }
inline Lanes all(double x) {
  Lanes a;
  for (int l = 0; l < kLanes; ++l) a.v[l] = x;
  return a;
}
inline Lanes operator+(Lanes a, Lanes b) {
  for (int l = 0; l < kLanes; ++l) a.v[l] += b.v[l];
  return a;
}
inline Lanes operator-(Lanes a, Lanes b) {
  for (int l = 0; l < kLanes; ++l) a.v[l] -= b.v[l];
  return a;
}
inline Lanes operator*(Lanes a, Lanes b) {
  for (int l = 0; l < kLanes; ++l) a.v[l] *= b.v[l];
  return a;
}
inline Lanes choose(Mask m, Lanes yes, Lanes no) {
  for (int l = 0; l < kLanes; ++l) no.v[l] = m >> l & 1 ? yes.v[l] : no.v[l];
  return no;
}

struct Tally {
  uint64_t v[kLanes];
};
inline Tally no_tally() { return {}; }
inline void add_bits(Tally& t, const Lanes& a) {
  for (int l = 0; l < kLanes; ++l) t.v[l] += bits_of(a.v[l]);
}
inline void store(uint64_t* p, const Tally& t) { std::memcpy(p, t.v, sizeof t.v); }

#endif

}  // namespace treeinner::TREEINNER_NS
