// NEON, of every arm64 processor: a word of marks is worth writing by hand. See api.h.
#pragma once

#include <arm_neon.h>

#include "plain.h"

namespace treeinner::TREEINNER_NS {
template <class Code>
inline Word at_least(const Code* codes, uint16_t cut) {
  // Each byte is 0 or 255: keep the bit of its position, then add neighbours three times.
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  const Marks m = marks_at_least(codes, cut);
  uint8x16_t bit[4];
  for (int i = 0; i < 4; ++i) bit[i] = vandq_u8(reinterpret_cast<uint8x16_t>(m.part[i]), bits);
  const uint8x16_t sums = vpaddq_u8(vpaddq_u8(bit[0], bit[1]), vpaddq_u8(bit[2], bit[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}
}  // namespace treeinner::TREEINNER_NS
