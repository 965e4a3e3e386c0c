// What every kernel gets: a Job, the rows and the trees it is about, and its own Args. README.md says what a kernel is.
#pragma once

#include "../simd/api.h"

namespace treeinner {
struct Job {
  const Forest* forest = nullptr;  // or null, where a kernel asks for none
  const void* codes = nullptr;     // [block][plane][64] of 8-bit or 16-bit codes, 64-byte aligned
  int64_t n_rows = 0;
  int32_t first_tree = 0, n_trees = 0;
  void* scratch = nullptr;
};

// Hands out pieces of memory, 64-byte aligned, and counts their bytes. Row arrays have (outputs, padded rows), unless
// something else is said.
struct Arena {
  uintptr_t at = 0;
  size_t bytes = 0;
  explicit Arena(void* memory) : at(reinterpret_cast<uintptr_t>(memory)) {}
  template <class T>
  TREEINNER_INLINE T* take(int64_t n) {
    T* piece = reinterpret_cast<T*>(at + bytes);
    bytes += (static_cast<size_t>(n) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return piece;
  }
};

namespace TREEINNER_NS {
// For kernels that need no scratch.
template <class Args>
inline void scratch_of(const Job&, const Args&, Arena&) {}

// call(Count<n>), for n from Least to Most: a template of each.
template <int Least, int Most, class Call>
inline void with_count(int n, Call call) {
  if (n == Most) return call(Count<Most>{});
  if constexpr (Most > Least) with_count<Least, Most - 1>(n, call);
}

template <class Code>
inline const Code* codes_of(const Job& job) {
  return static_cast<const Code*>(job.codes);
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
