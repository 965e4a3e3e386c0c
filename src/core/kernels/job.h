// What every kernel gets: a Job, the rows and the trees it is about, and its own Args.
//
// A kernel is a pure function over a range of rows: borrowed arrays in, sums or values out; no threads, no globals, no
// allocation. Memory to work in comes with the Job: a kernel that needs some has a function scratch_of(job, args,
// arena) that takes it out of an Arena. The same function, called with an empty Arena, tells how much it is (list.h).
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
template <class Code>
inline const Code* codes_of(const Job& job) {
  return static_cast<const Code*>(job.codes);
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
