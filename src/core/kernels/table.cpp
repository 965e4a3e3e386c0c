// One source for every instruction set: CMake compiles this file once for each, with TREEINNER_NS and its flags.
#include "list.h"

namespace treeinner::TREEINNER_NS {
#define TREEINNER_WITH_CODES(kernel, Args)                     \
  void kernel##_with_codes(const Job& job, const Args& args) { \
    if (job.forest->code_bytes == 1)                           \
      kernel<uint8_t>(job, args);                              \
    else                                                       \
      kernel<uint16_t>(job, args);                             \
  }
#define TREEINNER_NOTHING(kernel, Args)
TREEINNER_KERNELS(TREEINNER_WITH_CODES, TREEINNER_NOTHING)
#define TREEINNER_ENTRY_CODES(kernel, Args) kernel##_with_codes,
#define TREEINNER_ENTRY_PLAIN(kernel, Args) kernel,

const Kernels kernels = {TREEINNER_STRING(TREEINNER_NS),
                         TREEINNER_KERNELS(TREEINNER_ENTRY_CODES, TREEINNER_ENTRY_PLAIN)};
}  // namespace treeinner::TREEINNER_NS
