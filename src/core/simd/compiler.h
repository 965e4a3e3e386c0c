// What compilers differ in: no other file of the core names an attribute, a pragma or a builtin. GCC and clang, which
// on Windows is clang-cl; MSVC has no vector types.
#pragma once

#include <cstdint>
#include <limits>

// Functions outside the namespaces of the instruction sets are compiled into the kernels of each of them. If they were
// not inlined, the linker could keep the copy that was compiled for AVX-512 and give it to all.
#define TREEINNER_INLINE inline __attribute__((always_inline))
#define TREEINNER_NOINLINE __attribute__((noinline))
#define TREEINNER_VECTOR(bytes) __attribute__((vector_size(bytes)))
#define TREEINNER_ALIGNED(pointer, bytes) __builtin_assume_aligned(pointer, bytes)

// Short loops over what stays in registers; compilers do not always unroll them.
#if defined(__clang__)
#define TREEINNER_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TREEINNER_UNROLL _Pragma("GCC unroll 11")
#endif

namespace treeinner {
// Instead of the C++ library, which the kernels may not instantiate (api.h).
constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
TREEINNER_INLINE double absolute(double x) { return __builtin_fabs(x); }
TREEINNER_INLINE double with_sign_of(double x, double sign) { return __builtin_copysign(x, sign); }
TREEINNER_INLINE double rounded_down(double x) { return __builtin_floor(x); }
TREEINNER_INLINE double rounded_to_zero(double x) { return __builtin_trunc(x); }
TREEINNER_INLINE int count_bits(uint32_t bits) { return __builtin_popcount(bits); }
TREEINNER_INLINE int count_bits(uint64_t bits) { return __builtin_popcountll(bits); }
TREEINNER_INLINE int lowest_bit(uint64_t bits) { return __builtin_ctzll(bits); }  // not of 0
TREEINNER_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
}  // namespace treeinner
