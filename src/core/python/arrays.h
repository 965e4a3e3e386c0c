// What passes the boundary: typed numpy arrays in and out, and the instruction set in use.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "../kernels/list.h"
#include "../simd/processor.h"

namespace treeinner {
namespace nb = nanobind;

template <class T, int Dims = 1>
using In = nb::ndarray<const T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;
template <class T, int Dims = 1>
using Out = nb::ndarray<T, nb::ndim<Dims>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(std::string("treeinner core: ") + message);
}

// Whether an array has these extents.
template <class Array, class... Extents>
bool has_shape(const Array& a, Extents... extents) {
  size_t axis = 0;
  return ((static_cast<int64_t>(a.shape(axis++)) == static_cast<int64_t>(extents)) && ...);
}

inline bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlign == 0; }

// The array that an attribute of a Python object holds; never a converted copy, which would not outlive the call.
template <class T, int Dims = 1>
In<T, Dims> array_of(const nb::object& object, const char* name) {
  return nb::cast<In<T, Dims>>(object.attr(name), false);
}

// The same, of which each row is a struct of such numbers.
template <class Row, class T>
std::vector<Row> rows_of(const nb::object& object, const char* name) {
  const auto a = array_of<T, 2>(object, name);
  require(a.shape(1) * sizeof(T) == sizeof(Row), "a row has another number of entries");
  const auto* rows = reinterpret_cast<const Row*>(a.data());
  return std::vector<Row>(rows, rows + a.shape(0));
}

// An array or None.
template <class T, int Dims = 1>
using Maybe = std::optional<In<T, Dims>>;
template <class Array>
auto data_of(const std::optional<Array>& a) {
  return a ? a->data() : nullptr;
}

// -- which instruction set runs

inline std::vector<const Kernels*> supported() {
  std::vector<const Kernels*> found{&baseline::kernels};
#if defined(TREEINNER_X86)
  const Processor processor = this_processor();
  if (processor.avx2) found.push_back(&avx2::kernels);
  if (processor.avx512) found.push_back(&avx512::kernels);
#elif defined(TREEINNER_ARM)
  found.push_back(&neon::kernels);
#endif
  return found;
}

inline const Kernels* active = supported().back();

inline std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Kernels* kernels : supported()) names.emplace_back(kernels->name);
  return names;
}

inline void use_instruction_set(const std::string& name) {
  for (const Kernels* kernels : supported())
    if (name == kernels->name) active = kernels;
}

// Runs a kernel of the instruction set in use, without the GIL. Pointers into arrays were taken before.
template <class Args>
void run(Kernel<Args> Kernels::* kernel, const Job& job, const Args& args) {
  const Kernels* kernels = active;
  nb::gil_scoped_release release;
  call(kernels->*kernel, job, args);
}
}  // namespace treeinner
