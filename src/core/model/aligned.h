// Memory at addresses that are multiples of 64, as the vector loads need.
#pragma once

#include <memory>
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
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : size_(bytes), data_(AlignedAllocator<char>().allocate(bytes ? bytes : 1), [](char* p) {
          AlignedAllocator<char>().deallocate(p, 0);
        }) {}
  void* get() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::unique_ptr<char, void (*)(char*)> data_;
};

inline size_t index(int64_t i) { return static_cast<size_t>(i); }
}  // namespace treeinner
