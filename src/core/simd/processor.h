// Which instruction sets this processor has and the operating system saves the registers of. Asked directly: the
// builtin for it needs a library that clang-cl does not link. macOS saves those of AVX-512 only after their first use,
// so it gets AVX2.
#pragma once

#if defined(__x86_64__)
namespace treeinner {
struct Processor {
  bool avx2 = false, avx512 = false;
};

inline Processor this_processor() {
  unsigned a, b, c, d, saved;
  const auto ask = [&](unsigned page) {
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(page), "c"(0));
  };
  ask(0);
  if (a < 7) return {};
  ask(1);
  if (!(c >> 27 & 1)) return {};  // it cannot be asked what is saved
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  ask(7);
  const auto has = [&](unsigned registers, unsigned features) {
    return (saved & registers) == registers && (b & features) == features;
  };
  constexpr unsigned kAvx2 = 1u << 3 | 1u << 5 | 1u << 8;                  // BMI, AVX2, BMI2
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  return {has(0x06, kAvx2), has(0xe6, kAvx2 | kAvx512)};
}
}  // namespace treeinner
#endif
