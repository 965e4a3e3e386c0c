// Objects of one form, one after the other in a UBJSON file: a text that all of them have, a hole, a text, a hole, and
// so on to a last text. A model of a thousand trees is a thousand such objects; readers/_ubjson.py learns their form.
// Files may be damaged: nothing is read that is not there.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace treeinner {

struct RecordForm {
  std::vector<std::string_view> texts;  // one more than holes; each up to the length of its hole, or its mark
  std::vector<int64_t> item_bytes;      // by hole: of each of its items; 0: it is one number behind its mark
};

// The machine's own form of a big-endian number.
template <class Whole>
inline Whole big_endian(const char* from) {
  uint8_t byte[sizeof(Whole)];
  std::memcpy(byte, from, sizeof(Whole));
  Whole n = 0;
#pragma GCC unroll 8
  for (size_t i = 0; i < sizeof(Whole); ++i) n |= static_cast<Whole>(Whole{byte[i]} << 8 * (sizeof(Whole) - 1 - i));
  return n;
}

// Bytes of the number behind a mark; 0: no number follows it.
inline int64_t number_bytes(char mark) {
  switch (mark) {
    case 'i':
    case 'U': return 1;
    case 'I': return 2;
    case 'l':
    case 'd': return 4;
    case 'L':
    case 'D': return 8;
  }
  return 0;
}

// Where the contents of the holes of n records begin, the first of which is at `at`, and how many bytes they have: both
// (holes, records). False: not all of them have this form, or the data end before they do.
inline bool find_holes(const RecordForm& form, std::string_view data, size_t at, int64_t n_records, int64_t* begin,
                       int64_t* bytes) {
  const size_t n_holes = form.item_bytes.size();
  const auto pass = [&](std::string_view text) {
    const bool here = data.substr(at, text.size()) == text;
    at += here ? text.size() : 0;
    return here;
  };
  for (int64_t record = 0; record < n_records; ++record) {
    for (size_t hole = 0; hole < n_holes; ++hole) {
      if (!pass(form.texts[hole])) return false;
      const uint64_t item = static_cast<uint64_t>(form.item_bytes[hole]), left = data.size() - at;
      const uint64_t head = item ? 8 : 1;
      if (left < head) return false;
      const uint64_t count = item ? big_endian<uint64_t>(data.data() + at) : 1;
      const uint64_t size = item ? item : static_cast<uint64_t>(number_bytes(data[at]));
      if (size == 0 || count > (left - head) / size) return false;
      at += head;
      begin[static_cast<int64_t>(hole) * n_records + record] = static_cast<int64_t>(at);
      bytes[static_cast<int64_t>(hole) * n_records + record] = static_cast<int64_t>(count * size);
      at += count * size;
    }
    if (!pass(form.texts[n_holes])) return false;
  }
  return true;
}

// The big-endian numbers of n parts of the data, one part after the other.
template <class Whole>
inline void join_numbers(const char* data, const int64_t* begin, const int64_t* bytes, int64_t n, Whole* out) {
  for (int64_t part = 0; part < n; ++part) {
    const char* from = data + begin[part];
    const int64_t count = bytes[part] / static_cast<int64_t>(sizeof(Whole));
    for (int64_t i = 0; i < count; ++i) out[i] = big_endian<Whole>(from + i * static_cast<int64_t>(sizeof(Whole)));
    out += count;
  }
}

}  // namespace treeinner
