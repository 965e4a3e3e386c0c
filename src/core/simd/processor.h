// Which instruction sets this processor has and the system saves the registers of. Asked directly: the builtin for it
// needs a library that clang-cl does not link. macOS saves those of AVX-512 after their first use only: AVX2 there.
#pragma once

#if defined(__x86_64__)
namespace treeinner {
struct Processor {
  bool avx2, avx512;
};
inline Processor this_processor() {
  unsigned a, b, c, d, saved;
  const auto ask = [&](unsigned page) { __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(page), "c"(0)); };
  ask(0);
  if (a < 7) return {false, false};
  ask(1);
  if (!(c >> 27 & 1)) return {false, false};  // what is saved cannot be asked
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  ask(7);
  constexpr unsigned kAvx2 = 1u << 3 | 1u << 5 | 1u << 8;                  // BMI, AVX2, BMI2
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  const bool avx2 = (saved & 0x06) == 0x06 && (b & kAvx2) == kAvx2;
  return {avx2, avx2 && (saved & 0xe6) == 0xe6 && (b & kAvx512) == kAvx512};
}
}  // namespace treeinner
#endif
