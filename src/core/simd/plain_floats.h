// For the sets that have no instruction for it. Floats are looked up one by one: they work with tables made for
// AVX-512, but prefer records (model/score_table.h).
#pragma once

namespace treeinner::TREEINNER_NS {
inline Doubles pick(Word word, Doubles yes, Doubles no) {
  Longs bit;
  for (int l = 0; l < Lanes::kIn; ++l) bit[l] = Word{1} << l;
  return ((word - Longs{}) & bit) == bit ? yes : no;
}

constexpr bool kLooksUp = false;
struct FloatTable {
  const uint16_t *low, *high;
  FloatTable(const uint16_t* l, const uint16_t* h) : low(l), high(h) {}
  FloatPack operator()(const uint8_t* leaf) const {
    alignas(64) float found[kFloats];
    for (int r = 0; r < kFloats; ++r) {
      const uint32_t bits = low[leaf[r]] | static_cast<uint32_t>(high[leaf[r]]) << 16;
      std::memcpy(&found[r], &bits, sizeof bits);
    }
    return load<FloatPack>(found);
  }
};
inline void arrange(const uint8_t* leaf, uint8_t* arranged) { std::memcpy(arranged, leaf, kFloats); }
}  // namespace treeinner::TREEINNER_NS
