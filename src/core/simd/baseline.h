// Plain C++, for any processor: the baseline, and what the others are compared with. See api.h.
#pragma once

#include "plain.h"

namespace treeinner::TREEINNER_NS {
template <class Code>
inline Word at_least(const Code* codes, uint16_t cut) {
  Word word = 0;
  for (int r = 0; r < kBlock; ++r) word |= static_cast<Word>(codes[r] >= cut) << r;
  return word;
}
}  // namespace treeinner::TREEINNER_NS
