// NEON, of every arm64 processor: comparing codes is worth writing by hand. See api.h.
#pragma once

#include <arm_neon.h>

#include "plain.h"

namespace treeinner::TREEINNER_NS {
inline Word byte_mask(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
  // Each byte is 0 or 255: keep the bit of its position, then add neighbours three times.
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  const uint8x16_t ab = vpaddq_u8(vandq_u8(a, bits), vandq_u8(b, bits));
  const uint8x16_t cd = vpaddq_u8(vandq_u8(c, bits), vandq_u8(d, bits));
  const uint8x16_t abcd = vpaddq_u8(ab, cd);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(abcd, abcd)), 0);
}

inline Word at_least(const uint8_t* codes, uint16_t cut) {
  const uint8x16_t c = vdupq_n_u8(static_cast<uint8_t>(cut));
  return byte_mask(vcgeq_u8(vld1q_u8(codes), c), vcgeq_u8(vld1q_u8(codes + 16), c), vcgeq_u8(vld1q_u8(codes + 32), c),
                   vcgeq_u8(vld1q_u8(codes + 48), c));
}

inline Word at_least(const uint16_t* codes, uint16_t cut) {
  const uint16x8_t c = vdupq_n_u16(cut);
  uint8x16_t q[4];
  for (int i = 0; i < 4; ++i)
    q[i] = vcombine_u8(vmovn_u16(vcgeq_u16(vld1q_u16(codes + 16 * i), c)),
                       vmovn_u16(vcgeq_u16(vld1q_u16(codes + 16 * i + 8), c)));
  return byte_mask(q[0], q[1], q[2], q[3]);
}

inline int64_t fixed_point(double x) { return fixed_point_by_rounding(x); }
}  // namespace treeinner::TREEINNER_NS
