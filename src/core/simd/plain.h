// What the sets without wide registers share: loops, of which the compiler makes vectors of 16 bytes on SSE2 and NEON.
#pragma once

#include "narrow.h"

namespace treeinner::TREEINNER_NS {
inline Word in_set(const uint8_t* codes, const uint64_t* set) { return in_set_one_by_one(codes, set); }

inline Marks marks(Word word) {
  alignas(64) uint8_t m[kBlock];
  for (int r = 0; r < kBlock; ++r) m[r] = word >> r & 1 ? 255 : 0;
  return load<Marks>(m);
}
inline Marks marks_at_least(const uint16_t* codes, uint16_t cut) {
  alignas(64) uint8_t m[kBlock];
  for (int r = 0; r < kBlock; ++r) m[r] = codes[r] >= cut ? 255 : 0;
  return load<Marks>(m);
}

constexpr bool kCountsThresholds = false;
template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  int n = 0;
  for (int i = 0; i < 15; ++i) n += GreaterEqual ? x >= t[i] : x > t[i];
  return n;
}
}  // namespace treeinner::TREEINNER_NS
