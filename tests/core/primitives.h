// The vector functions of simd/api.h as a table, so that one program can hold those of several instruction sets.
#pragma once

#include <cstdint>

namespace treeinner {

// Arrays of doubles have 8 entries and are 64-byte aligned, blocks of codes have 64 entries and are aligned too.
struct Primitives {
  const char* name;
  uint64_t (*at_least_8)(const uint8_t* codes, uint16_t cut);
  uint64_t (*at_least_16)(const uint16_t* codes, uint16_t cut);
  uint64_t (*in_set_8)(const uint8_t* codes, const uint64_t* set);
  uint64_t (*in_set_16)(const uint16_t* codes, const uint64_t* set);
  void (*put)(const uint64_t* where, const uint8_t* value, int n, uint8_t* out);  // n times into zeros, then stored
  void (*all)(double x, double* out);
  void (*add)(const double* a, const double* b, double* out);
  void (*multiply)(const double* a, const double* b, double* out);
  void (*choose)(uint8_t mask, const double* yes, const double* no, double* out);
  void (*fixed_point)(const double* x, int64_t* out);
};

// Only those of this architecture are linked in.
namespace baseline { extern const Primitives primitives; }
namespace avx2 { extern const Primitives primitives; }
namespace avx512 { extern const Primitives primitives; }
namespace neon { extern const Primitives primitives; }

}  // namespace treeinner
