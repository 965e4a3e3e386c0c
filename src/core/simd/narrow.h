// What all sets but AVX-512 share: blocks in registers of bytes, and what they have no instruction for.
#pragma once

namespace treeinner::TREEINNER_NS {
using Octets = uint8_t TREEINNER_VECTOR(TREEINNER_REGISTER);
using Bytes = Pack<Octets, kBlock>;
using Marks = Bytes;  // 255 on a marked row, else 0
Marks marks(Word word);

TREEINNER_INLINE Marks marks_at_least(const uint8_t* codes, uint16_t cut) {
  using P = Bytes;
  P m = load<P>(codes);
  TREEINNER_PARTS m.part[i] = reinterpret_cast<Octets>(m.part[i] >= static_cast<uint8_t>(cut));
  return m;
}
inline Bytes no_bytes() { return {}; }
TREEINNER_INLINE void move(Bytes& bytes, uint8_t from, const Marks& where, uint8_t to) {
  using P = Bytes;
  const uint8_t up = static_cast<uint8_t>(to - from);
  TREEINNER_PARTS bytes.part[i] += reinterpret_cast<Octets>(bytes.part[i] == from) & where.part[i] & up;
}
inline void put(Bytes& bytes, Word where, uint8_t value) {
  using P = Bytes;
  const Marks m = marks(where);
  TREEINNER_PARTS bytes.part[i] = (bytes.part[i] & ~m.part[i]) | (m.part[i] & value);
}

inline Doubles pick(Word word, Doubles yes, Doubles no) {
  Longs bit;
  for (int l = 0; l < Lanes::kIn; ++l) bit[l] = Word{1} << l;
  return ((word - Longs{}) & bit) == bit ? yes : no;
}
}  // namespace treeinner::TREEINNER_NS
