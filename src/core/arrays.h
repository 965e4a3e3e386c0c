// What passes the boundary: typed numpy arrays in and out, aligned scratch, and the instruction set in use.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "forest.h"

namespace treeinner {

namespace nb = nanobind;

template <class T, int Dims = 1>
using In = nb::ndarray<const T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
template <class T, int Dims = 1>
using Out = nb::ndarray<T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
using Weight = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr int64_t kBlock = 64;
constexpr size_t kAlign = 64;

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(std::string("treeinner core: ") + message);
}

inline int64_t blocks_of(int64_t n_rows) { return (n_rows + kBlock - 1) / kBlock; }

template <class T, class Array>
std::vector<T> copied(const Array& a) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> out(a.size() * sizeof(*a.data()) / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), a.data(), out.size() * sizeof(T));
  return out;
}

// 64-byte aligned scratch.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : size_((bytes + kAlign - 1) / kAlign * kAlign), data_(make(size_)) {}
  void* get() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* p) const { ::operator delete(p, std::align_val_t{kAlign}); }
  };
  static void* make(size_t bytes) { return ::operator new(bytes ? bytes : kAlign, std::align_val_t{kAlign}); }
  size_t size_;
  std::unique_ptr<void, Free> data_;
};

// -- which level runs ------------------------------------------------------------------------------------------------

inline std::vector<const Kernels*> supported() {
  std::vector<const Kernels*> levels{&kBaseline};
#if defined(TREEINNER_X86)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
    levels.push_back(&kAvx2);
  if (levels.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    levels.push_back(&kAvx512);
#elif defined(TREEINNER_ARM)
  levels.push_back(&kNeon);
#endif
  return levels;
}

inline const Kernels* active = nullptr;

inline std::vector<std::string> level_names() {
  std::vector<std::string> names;
  for (const Kernels* level : supported()) names.emplace_back(level->name);
  return names;
}

inline std::string use_level(const std::string& name) {
  for (const Kernels* level : supported())
    if (name == level->name) active = level;
  if (!active) active = supported().back();
  return active->name;
}

}  // namespace treeinner
