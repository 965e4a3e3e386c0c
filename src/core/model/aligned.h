// Memory at addresses that are multiples of 64, as the vector loads need.
#pragma once

#include <new>
#include <vector>

#include "forest.h"

namespace treeinner {
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{kAlign})); }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{kAlign}); }
  bool operator==(const AlignedAllocator&) const { return true; }
  bool operator!=(const AlignedAllocator&) const { return false; }
};
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

// Bytes that nobody has written yet.
struct UnwrittenByte {
  char byte;
  UnwrittenByte() {}  // not even with a zero
};
using Buffer = AlignedVector<UnwrittenByte>;

inline size_t index(int64_t i) { return static_cast<size_t>(i); }
}  // namespace treeinner
