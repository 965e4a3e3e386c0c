// Compiled once per instruction set, as kernels/table.cpp is. Nothing from the C++ library here, as simd/api.h says.
#include "primitives.h"

#include "simd/api.h"

namespace treeinner::TREEINNER_NS {

namespace simd = TREEINNER_NS;

const Primitives primitives = {
    TREEINNER_STRING(TREEINNER_NS),
    [](const uint8_t* codes, uint16_t cut) -> uint64_t { return simd::at_least(codes, cut); },
    [](const uint16_t* codes, uint16_t cut) -> uint64_t { return simd::at_least(codes, cut); },
    [](const uint8_t* codes, const uint64_t* set) -> uint64_t { return simd::in_set(codes, set); },
    [](const uint16_t* codes, const uint64_t* set) -> uint64_t { return simd::in_set(codes, set); },
    [](const uint64_t* where, const uint8_t* value, int n, uint8_t* out) {
      simd::Bytes bytes = simd::no_bytes();
      for (int i = 0; i < n; ++i) simd::put(bytes, where[i], value[i]);
      simd::store(out, bytes);
    },
    [](double x, double* out) { simd::store(out, simd::all<simd::Lanes>(x)); },
    [](const double* a, const double* b, double* out) {
      simd::store(out, simd::load<simd::Lanes>(a) + simd::load<simd::Lanes>(b));
    },
    [](const double* a, const double* b, double* out) {
      simd::store(out, simd::load<simd::Lanes>(a) * simd::load<simd::Lanes>(b));
    },
    [](uint8_t mask, const double* yes, const double* no, double* out) {
      simd::store(out, simd::choose(mask, simd::load<simd::Lanes>(yes), simd::load<simd::Lanes>(no)));
    },
    [](const double* x, int64_t* out) {
      for (int l = 0; l < simd::kLanes; ++l) out[l] = simd::fixed_point(x[l]);
    },
};

}  // namespace treeinner::TREEINNER_NS
