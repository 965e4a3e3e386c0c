// The instruction sets that this processor has, and how often each kernel was called.
#pragma once

#include <cstdio>
#include <vector>

#include "kernels/list.h"
#include "primitives.h"
#include "simd/processor.h"

namespace treeinner {

struct InstructionSet {
  const Kernels* kernels;
  const Primitives* primitives;
};

// The baseline first. Those that the processor lacks are left out, with a line that says so.
inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> all{{&baseline::kernels, &baseline::primitives}};
#if defined(__aarch64__)
  all.push_back({&neon::kernels, &neon::primitives});
#elif defined(__x86_64__)
  const Processor processor = this_processor();
  if (processor.avx2)
    all.push_back({&avx2::kernels, &avx2::primitives});
  else
    std::puts("avx2: skipped: this processor does not have it");
  if (processor.avx512)
    all.push_back({&avx512::kernels, &avx512::primitives});
  else
    std::puts("avx512: skipped: this processor, or valgrind, does not have it");
#endif
  std::printf("instruction sets:");
  for (const InstructionSet& set : all) std::printf(" %s", set.kernels->name);
  std::puts("");
  return all;
}

// -- calls
// ---------------------------------------------------------------------------------------------------------------

// A kernel, known by the type of its arguments, that counts its calls: with codes of one byte, and of two.
template <class Args>
struct Counted {
  static inline Kernel<Args> kernel = nullptr;
  static inline int calls[2] = {0, 0};
  static void call(const Job& job, const Args& args) {
    ++calls[job.forest && job.forest->code_bytes == 2];
    kernel(job, args);
  }
};

// The same kernels, which count; those of one set at a time.
inline Kernels counted(const Kernels& kernels) {
  Kernels out = kernels;
#define TREEINNER_COUNT(name, Args) Counted<Args>::kernel = kernels.name, out.name = Counted<Args>::call;
  TREEINNER_KERNELS(TREEINNER_COUNT, TREEINNER_COUNT)
#undef TREEINNER_COUNT
  return out;
}

// Prints the calls of all sets together; whether every kernel of the list was called, with codes of either width.
inline bool all_called() {
  bool all = true;
  const auto say = [&](const char* name, const int* calls, bool codes) {
    std::printf(codes ? " %s %d+%d" : " %s %d", name, codes ? calls[0] : calls[0] + calls[1], calls[1]);
    all &= codes ? calls[0] && calls[1] : calls[0] || calls[1];
  };
  std::printf("calls (codes of 1+2 bytes):");
#define TREEINNER_SAY_CODES(name, Args) say(#name, Counted<Args>::calls, true);
#define TREEINNER_SAY_PLAIN(name, Args) say(#name, Counted<Args>::calls, false);
  TREEINNER_KERNELS(TREEINNER_SAY_CODES, TREEINNER_SAY_PLAIN)
  std::puts("");
  return all;
}

}  // namespace treeinner
