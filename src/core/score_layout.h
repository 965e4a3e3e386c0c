// The records of a PathTable -> the two forms that its row scores want (ScoreTable in forest.h). Plain C++.
#pragma once

#include <cmath>
#include <tuple>

#include "layout.h"

namespace treeinner {

struct ScoreLayout {
  double step_unit = 1.0;
  std::vector<int64_t> first_record, first_use, first_lookup;
  std::vector<float> records;
  std::vector<LookupUse> uses;
  std::vector<uint8_t> slot;
  std::vector<Lookup> lookups;
};

// The steps of one player in one tree, by leaf.
struct PlayerSteps {
  int32_t place, slot;
  float step[kLookup];
};

class ScoreLayouter {
 public:
  ScoreLayouter(const Forest& f, const PathEntries& paths) : f_(f), paths_(paths), of_place_(places(), -1) {}

  static bool takes_part(const Forest& f) {
    return f.width == 1 && static_cast<int64_t>(f.n_outputs) * f.n_players <= kPlaces;
  }
  bool takes_part(int32_t tree) const { return paths_.entries[index(tree)] > 0 && n_leaves(tree) <= kLookup; }

  ScoreLayout make() {
    scale_steps();
    for (int32_t tree = 0; tree < f_.n_trees; ++tree) {
      if (tree % kBatch == 0) close_batch();
      out_.first_record.push_back(takes_part(tree) ? add_records(tree) : -1);
    }
    close_batch();
    return std::move(out_);
  }

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  size_t places() const { return index(f_.n_outputs) * index(f_.n_players); }
  int64_t n_leaves(int32_t tree) const { return f_.first_leaf[tree + 1] - f_.first_leaf[tree]; }
  const double* record(int32_t tree, int64_t leaf) const {
    const int stride = record_stride<double>(paths_.entries[index(tree)]);
    return paths_.records.data() + paths_.first_record[index(tree)] + leaf * stride;
  }

  // A power of two, so that the steps are rounded once and their products with the weights keep clear of float32's
  // ends.
  void scale_steps() {
    double largest = 0.0;
    for (int32_t tree = 0; tree < f_.n_trees; ++tree)
      for (int64_t leaf = 0; takes_part(tree) && leaf < n_leaves(tree); ++leaf)
        for (int i = 0; i < paths_.entries[index(tree)]; ++i)
          largest = std::max(largest, std::fabs(record(tree, leaf)[i]));
    int exponent = 0;
    if (largest > 0.0 && std::isfinite(largest)) std::frexp(largest, &exponent);
    out_.step_unit = std::ldexp(1.0, exponent);
  }

  int64_t add_records(int32_t tree) {
    const int entries = paths_.entries[index(tree)];
    const size_t stride = index(record_stride<float>(entries));
    out_.records.resize((out_.records.size() + 15) / 16 * 16);
    const size_t first = out_.records.size();
    for (int64_t leaf = 0; leaf < n_leaves(tree); ++leaf) {
      const double* from = record(tree, leaf);
      out_.records.resize(out_.records.size() + stride);
      float* to = out_.records.data() + out_.records.size() - stride;
      std::memcpy(to + entries, from + entries, index(entries) * sizeof(uint16_t));
      for (int i = 0; i < entries; ++i) {
        uint16_t player;
        std::memcpy(&player, reinterpret_cast<const char*>(from + entries) + index(i) * sizeof player, sizeof player);
        to[i] = static_cast<float>(from[i] / out_.step_unit);
        if (to[i] != 0.0f) steps_of(tree, f_.tree_output[tree] * f_.n_players + player).step[leaf] = to[i];
      }
    }
    for (const PlayerSteps& steps : batch_) of_place_[index(steps.place)] = -1;
    return static_cast<int64_t>(first);
  }

  PlayerSteps& steps_of(int32_t tree, int32_t place) {
    int32_t& at = of_place_[index(place)];
    if (at < 0) {
      at = static_cast<int32_t>(batch_.size());
      batch_.push_back({place, tree % kBatch, {}});
    }
    return batch_[index(at)];
  }

  void close_batch() {
    std::sort(batch_.begin(), batch_.end(), [](const PlayerSteps& a, const PlayerSteps& b) {
      return std::tie(a.place, a.slot) < std::tie(b.place, b.slot);
    });
    for (const PlayerSteps& steps : batch_) {
      if (out_.uses.size() == begin_ || out_.uses.back().place != steps.place) out_.uses.push_back({steps.place, 0});
      ++out_.uses.back().n_trees;
      out_.slot.push_back(static_cast<uint8_t>(steps.slot));
      Lookup lookup;
      for (int leaf = 0; leaf < kLookup; ++leaf) {
        uint32_t bits;
        std::memcpy(&bits, &steps.step[leaf], sizeof bits);
        lookup.low[leaf] = static_cast<uint16_t>(bits);
        lookup.high[leaf] = static_cast<uint16_t>(bits >> 16);
      }
      out_.lookups.push_back(lookup);
    }
    begin_ = out_.uses.size();
    out_.first_use.push_back(static_cast<int64_t>(out_.uses.size()));
    out_.first_lookup.push_back(static_cast<int64_t>(out_.lookups.size()));
    batch_.clear();
  }

  const Forest& f_;
  const PathEntries& paths_;
  ScoreLayout out_;
  std::vector<PlayerSteps> batch_;
  std::vector<int32_t> of_place_;  // in batch_, of the tree at hand
  size_t begin_ = 0;               // first use of the batch
};

}  // namespace treeinner
