// Compiled once per level, as src/core/kernels.cpp is. Nothing from the C++ library here, for the reason word.h gives.
#include "primitives.h"

#include "lanes.h"

#if defined(TREEINNER_LEVEL_AVX512)
#define TREEINNER_PRIMITIVES kAvx512Primitives
#elif defined(TREEINNER_LEVEL_AVX2)
#define TREEINNER_PRIMITIVES kAvx2Primitives
#elif defined(TREEINNER_LEVEL_NEON)
#define TREEINNER_PRIMITIVES kNeonPrimitives
#else
#define TREEINNER_PRIMITIVES kBaselinePrimitives
#endif
#define TREEINNER_STRING_(x) #x
#define TREEINNER_STRING(x) TREEINNER_STRING_(x)

namespace treeinner {

namespace level = TREEINNER_NS;

const Primitives TREEINNER_PRIMITIVES = {
    TREEINNER_STRING(TREEINNER_NS),
    [](const uint8_t* codes, uint16_t cut) -> uint64_t { return level::at_least(codes, cut); },
    [](const uint16_t* codes, uint16_t cut) -> uint64_t { return level::at_least(codes, cut); },
    [](const uint8_t* codes, const uint64_t* set) -> uint64_t { return level::in_set(codes, set); },
    [](const uint16_t* codes, const uint64_t* set) -> uint64_t { return level::in_set(codes, set); },
    [](const uint64_t* where, const uint8_t* value, int n, uint8_t* out) {
      level::Bytes bytes = level::no_bytes();
      for (int i = 0; i < n; ++i) level::put(bytes, where[i], value[i]);
      level::store(out, bytes);
    },
    [](uint64_t word, int group) -> uint8_t { return level::mask_of(word, group); },
    [](double x, double* out) { level::store(out, level::all(x)); },
    [](const double* a, const double* b, double* out) { level::store(out, level::load(a) + level::load(b)); },
    [](const double* a, const double* b, double* out) { level::store(out, level::load(a) * level::load(b)); },
    [](uint8_t mask, const double* yes, const double* no, double* out) {
      level::store(out, level::choose(mask, level::load(yes), level::load(no)));
    },
    [](const double* x, int64_t* out) {
      for (int l = 0; l < level::kLanes; ++l) out[l] = level::whole_number(x[l]);
    },
};

}  // namespace treeinner
