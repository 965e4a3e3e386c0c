// One source for every instruction set: CMake compiles this file once per level, with TREEINNER_LEVEL_* and its flags.
#include "bin.h"
#include "boost.h"
#include "exact.h"
#include "path.h"
#include "permute.h"
#include "route.h"
#include "shap.h"

namespace treeinner {
namespace TREEINNER_NS {

template <class Call>
inline void with_codes(int32_t code_bytes, const void* codes, Call call) {
  if (code_bytes == 1)
    call(static_cast<const uint8_t*>(codes));
  else
    call(static_cast<const uint16_t*>(codes));
}

void bin(const Binning& b, int32_t first, int32_t n, const Values* values, int32_t code_bytes, int32_t n_planes,
         int64_t n_rows, void* codes) {
  if (code_bytes == 1)
    bin_rows(b, first, first + n, values, n_planes, n_rows, static_cast<uint8_t*>(codes));
  else
    bin_rows(b, first, first + n, values, n_planes, n_rows, static_cast<uint16_t*>(codes));
}

void leaves(const Forest& f, int32_t tree, int32_t n, const void* codes, int64_t n_rows, int32_t* out) {
  with_codes(f.code_bytes, codes, [&](auto* c) { leaf_numbers(f, tree, n, c, n_rows, out); });
}

void margins(const Forest& f, int32_t tree, int32_t n, const void* codes, int64_t n_rows, double* out) {
  with_codes(f.code_bytes, codes, [&](auto* c) { add_margins(f, tree, n, c, n_rows, out); });
}

void leaf_sums(const Forest& f, int32_t tree, int32_t n, const void* codes, int64_t n_rows, const int64_t* weight,
               int64_t* sums) {
  with_codes(f.code_bytes, codes, [&](auto* c) { add_leaf_sums(f, tree, n, c, n_rows, weight, sums); });
}

void path(const Forest& f, int32_t tree, int32_t n, const PathTable& table, const void* codes, int64_t n_rows,
          const double* weight, double* sums) {
  with_codes(f.code_bytes, codes, [&](auto* c) {
    if (weight)
      add_path<true>(f, tree, n, table, c, n_rows, weight, sums);
    else
      add_path<false>(f, tree, n, table, c, n_rows, weight, sums);
  });
}

void boost(const Forest& f, const BoostInput& in, const PathTable* paths, const void* codes, int64_t n_rows,
           double* push, int64_t* whole, const ScoreScratch& scratch) {
  with_codes(f.code_bytes, codes, [&](auto* c) { boost(f, in, paths, c, n_rows, push, whole, scratch); });
}

void push(const Gradients& gradients, int32_t n_outputs, int64_t n_rows, double* scratch, double* out) {
  all_gradients(gradients, n_outputs, n_rows, scratch, out);
}

void shap(const Forest& f, int32_t tree, int32_t n, const ShapForest& shap, const void* codes, int64_t n_rows,
          const double* tree_scale, const double* weight, const ShapScratch& scratch, double* sums) {
  with_codes(f.code_bytes, codes,
             [&](auto* c) { add_shap(f, tree, n, shap, c, n_rows, tree_scale, weight, scratch, sums); });
}

bool exact(const double* values, int64_t n_rows, int64_t n_columns, double scale, const PowerLimbs& to) {
  return add_exactly(values, n_rows, n_columns, scale, to);
}

void shuffle(const Forest& f, const ShuffleNode* nodes, int32_t n_groups, bool sets, const void* own,
             const void* shuffled, int64_t n_rows, const ShuffleScratch& scratch, double* change) {
  with_codes(f.code_bytes, own, [&](auto* c) {
    const auto* other = static_cast<decltype(c)>(shuffled);
    if (sets)
      shuffle_rows<true>(f, nodes, n_groups, c, other, n_rows, scratch, change);
    else
      shuffle_rows<false>(f, nodes, n_groups, c, other, n_rows, scratch, change);
  });
}

}  // namespace TREEINNER_NS

#define TREEINNER_STRING_(x) #x
#define TREEINNER_STRING(x) TREEINNER_STRING_(x)
#if defined(TREEINNER_LEVEL_AVX512)
#define TREEINNER_TABLE kAvx512
#elif defined(TREEINNER_LEVEL_AVX2)
#define TREEINNER_TABLE kAvx2
#elif defined(TREEINNER_LEVEL_NEON)
#define TREEINNER_TABLE kNeon
#else
#define TREEINNER_TABLE kBaseline
#endif

const Kernels TREEINNER_TABLE = {
    TREEINNER_STRING(TREEINNER_NS),
    TREEINNER_NS::bin,
    TREEINNER_NS::leaves,
    TREEINNER_NS::margins,
    TREEINNER_NS::leaf_sums,
    TREEINNER_NS::path,
    TREEINNER_NS::boost,
    TREEINNER_NS::push,
    TREEINNER_NS::shap,
    TREEINNER_NS::exact,
    TREEINNER_NS::shuffle,
};

}  // namespace treeinner
