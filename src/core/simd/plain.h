// Blocks as plain arrays, for the sets without wide registers: the compiler makes vectors of 16 bytes of them on SSE2
// and NEON.
#pragma once

#include "plain_floats.h"

namespace treeinner::TREEINNER_NS {
inline Word in_set(const uint8_t* codes, const uint64_t* set) { return in_set_one_by_one(codes, set); }

struct Bytes {
  uint8_t v[kBlock];
};
using Marks = Bytes;  // 255 on a marked row, else 0
inline Marks marks(Word word) {
  Marks m;
  for (int r = 0; r < kBlock; ++r) m.v[r] = word >> r & 1 ? 255 : 0;
  return m;
}
template <class Code>
inline Marks marks_at_least(const Code* codes, uint16_t cut) {
  Marks m;
  for (int r = 0; r < kBlock; ++r) m.v[r] = codes[r] >= static_cast<Code>(cut) ? 255 : 0;
  return m;
}

inline Bytes no_bytes() { return {}; }
inline void put(Bytes& bytes, Word where, uint8_t value) {
  for (; where; where &= where - 1) bytes.v[__builtin_ctzll(where)] = value;
}
inline void move(Bytes& bytes, uint8_t from, const Marks& where, uint8_t to) {
  const uint8_t up = static_cast<uint8_t>(to - from);
  for (int r = 0; r < kBlock; ++r)
    bytes.v[r] = static_cast<uint8_t>(bytes.v[r] + ((bytes.v[r] == from ? 255 : 0) & where.v[r] & up));
}
inline void store(uint8_t* to, const Bytes& bytes) { std::memcpy(to, bytes.v, kBlock); }

constexpr bool kCountsThresholds = false;
template <bool GreaterEqual>
inline int count_right(const float* t, float x) {
  int n = 0;
  for (int i = 0; i < 15; ++i) n += GreaterEqual ? x >= t[i] : x > t[i];
  return n;
}
}  // namespace treeinner::TREEINNER_NS
