// Random records of a UBJSON file, as readers/_ubjson.py hands them to the core; whole, damaged and cut off.
#pragma once

#include <string>

#include "random_table.h"
#include "records.h"

namespace treeinner {

struct RandomRecords {
  Array<char> data;
  std::vector<std::string> texts;
  std::vector<int64_t> item_bytes, begin, bytes;  // begin, bytes: (holes, records)
  size_t at;
  int64_t n_records;
};

inline RandomRecords random_records(Random& random) {
  const std::pair<char, int> numbers[] = {{'i', 1}, {'U', 1}, {'I', 2}, {'l', 4}, {'d', 4}, {'L', 8}, {'D', 8}};
  RandomRecords r;
  r.n_records = 1 + random.below(5);
  r.at = static_cast<size_t>(random.below(4));
  const int n_holes = 1 + random.below(4);
  for (int hole = 0; hole < n_holes; ++hole) {
    r.texts.push_back(std::string(static_cast<size_t>(random.below(4)), static_cast<char>('a' + hole)));
    const int64_t sizes[] = {0, 1, 2, 4, 8};
    r.item_bytes.push_back(sizes[random.below(5)]);
  }
  r.texts.push_back("}");
  r.begin.resize(static_cast<size_t>(n_holes * r.n_records));
  r.bytes.resize(r.begin.size());
  const auto put = [&](const std::string& text) { r.data.insert(r.data.end(), text.begin(), text.end()); };
  put(std::string(r.at, '?'));
  for (int64_t record = 0; record < r.n_records; ++record) {
    for (size_t hole = 0; hole < static_cast<size_t>(n_holes); ++hole) {
      put(r.texts[hole]);
      const int count = random.below(4);
      const auto& [mark, size] = numbers[random.below(7)];
      const int64_t item = r.item_bytes[hole], bytes = item ? item * count : size;
      put(item ? std::string(7, '\0') + static_cast<char>(count) : std::string(1, mark));
      const size_t place = hole * static_cast<size_t>(r.n_records) + static_cast<size_t>(record);
      r.begin[place] = static_cast<int64_t>(r.data.size());
      r.bytes[place] = bytes;
      for (int64_t i = 0; i < bytes; ++i) r.data.push_back(static_cast<char>(random.bits()));
    }
    put(r.texts.back());
  }
  return r;
}

struct FoundHoles {
  bool found;
  std::vector<int64_t> begin, bytes;
};

inline FoundHoles found_holes(const RandomRecords& r, const Array<char>& data) {
  RecordForm form{{}, r.item_bytes};
  for (const std::string& text : r.texts) form.texts.push_back(text);
  FoundHoles out{false, std::vector<int64_t>(r.begin.size()), std::vector<int64_t>(r.begin.size())};
  const std::string_view view(data.data(), data.size());
  out.found = r.at <= data.size() && find_holes(form, view, r.at, r.n_records, out.begin.data(), out.bytes.data());
  return out;
}

inline bool records_are_found(const RandomRecords& r) {
  const FoundHoles got = found_holes(r, r.data);
  return got.found && got.begin == r.begin && got.bytes == r.bytes;
}

// The file ends too early: never found.
inline bool cut_off_is_noticed(Random& random, const RandomRecords& r) {
  const Array<char> less(r.data.begin(), r.data.begin() + random.below(static_cast<int>(r.data.size())));
  return !found_holes(r, less).found;
}

// A wrong byte: another number, or not found; never a hole outside the data.
inline bool damage_stays_inside(Random& random, const RandomRecords& r) {
  Array<char> damaged = r.data;
  damaged[static_cast<size_t>(random.below(static_cast<int>(damaged.size())))] = static_cast<char>(random.bits());
  const FoundHoles got = found_holes(r, damaged);
  const int64_t size = static_cast<int64_t>(damaged.size());
  bool inside = true;
  for (size_t i = 0; got.found && i < got.begin.size(); ++i)
    inside &= got.begin[i] >= 0 && got.bytes[i] >= 0 && got.begin[i] <= size && got.bytes[i] <= size - got.begin[i];
  return inside;
}

template <class Whole>
bool numbers_are_joined(Random& random) {
  constexpr int64_t kBytes = sizeof(Whole);
  Array<char> data;
  std::vector<int64_t> begin, bytes;
  Array<Whole> expected;
  for (int part = random.below(4); part >= 0; --part) {
    for (int gap = random.below(3); gap > 0; --gap) data.push_back('?');
    begin.push_back(static_cast<int64_t>(data.size()));
    const int count = random.below(20);
    bytes.push_back(count * kBytes);
    for (int i = 0; i < count; ++i) {
      const Whole number = static_cast<Whole>(random.bits());
      expected.push_back(number);
      for (int64_t byte = kBytes - 1; byte >= 0; --byte)
        data.push_back(static_cast<char>(static_cast<uint64_t>(number) >> 8 * byte));
    }
  }
  Array<Whole> out(expected.size());
  join_numbers(data.data(), begin.data(), bytes.data(), static_cast<int64_t>(begin.size()), out.data());
  return out == expected;
}

}  // namespace treeinner
