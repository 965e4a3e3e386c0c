// Every kernel, once. From this list follow the table of an instruction set, the code width and the call from Python.
#pragma once

#include "../model/aligned.h"
#include "bin.h"
#include "boost.h"
#include "exact.h"
#include "leaf_scores.h"
#include "permute.h"
#include "shap.h"

// CODES(kernel, Args): a template over the type of the codes. PLAIN(kernel, Args): one that reads none.
#define TREEINNER_KERNELS(CODES, PLAIN)  \
  CODES(bin, BinArgs)                    \
  CODES(leaves, LeavesArgs)              \
  CODES(margins, MarginsArgs)            \
  CODES(leaf_sums, LeafSumsArgs)         \
  CODES(path, PathArgs)                  \
  CODES(boost, BoostArgs)                \
  CODES(shap, ShapArgs)                  \
  CODES(permute, PermuteArgs)            \
  PLAIN(residuals, ResidualsArgs)        \
  PLAIN(exact, ExactArgs)                \
  PLAIN(split_scores, SplitScoresArgs)   \
  PLAIN(centre_values, CentreValuesArgs) \
  PLAIN(squares, SquaresArgs)

namespace treeinner {
template <class Args>
using Kernel = void (*)(const Job&, const Args&);

// The kernels of one instruction set.
struct Kernels {
  const char* name;
#define TREEINNER_MEMBER(kernel, Args) Kernel<Args> kernel;
  TREEINNER_KERNELS(TREEINNER_MEMBER, TREEINNER_MEMBER)
#undef TREEINNER_MEMBER
};

// Only those of this architecture are linked in.
namespace baseline { extern const Kernels kernels; }
namespace avx2 { extern const Kernels kernels; }
namespace avx512 { extern const Kernels kernels; }
namespace neon { extern const Kernels kernels; }

// Calls a kernel with the scratch that it needs.
template <class Args>
void call(Kernel<Args> kernel, Job job, const Args& args) {
  Arena needed(nullptr);
  TREEINNER_NS::scratch_of(job, args, needed);
  Buffer scratch(needed.bytes);
  job.scratch = scratch.data();
  kernel(job, args);
}
}  // namespace treeinner
