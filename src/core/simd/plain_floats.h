// Looking floats up one by one, for the sets that have no instruction for it: they work with tables made for AVX-512,
// but prefer records (model/score_table.h).
#pragma once

namespace treeinner::TREEINNER_NS {
constexpr bool kLooksUp = false;
constexpr int kFloats = 32;

struct Floats {
  float v[kFloats];
};
inline Floats load(const float* p) {
  Floats a;
  std::memcpy(a.v, p, sizeof a.v);
  return a;
}
inline void store(float* p, const Floats& a) { std::memcpy(p, a.v, sizeof a.v); }
inline Floats operator+(Floats a, const Floats& b) {
  for (int r = 0; r < kFloats; ++r) a.v[r] += b.v[r];
  return a;
}
inline Floats operator*(Floats a, const Floats& b) {
  for (int r = 0; r < kFloats; ++r) a.v[r] *= b.v[r];
  return a;
}

struct FloatTable {
  const uint16_t *low, *high;
  FloatTable(const uint16_t* l, const uint16_t* h) : low(l), high(h) {}
  Floats operator()(const uint8_t* leaf) const {
    Floats found;
    for (int r = 0; r < kFloats; ++r) {
      const uint32_t bits = low[leaf[r]] | static_cast<uint32_t>(high[leaf[r]]) << 16;
      std::memcpy(&found.v[r], &bits, sizeof bits);
    }
    return found;
  }
};
inline void arrange(const uint8_t* leaf, uint8_t* arranged) { std::memcpy(arranged, leaf, kFloats); }
}  // namespace treeinner::TREEINNER_NS
