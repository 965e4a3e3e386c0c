// The records of a PathTable -> a ScoreTable, for row scores in tree batches. Plain C++.
#pragma once

#include <cmath>
#include <tuple>

#include "path_table.h"

namespace treeinner {
// Owns what a ScoreTable borrows (tables.h). by_lookup: which of its two forms.
class ScoreArrays {
 public:
  static bool takes_part(const Forest& f) { return f.width == 1 && n_places(f) <= kPlaces; }

  ScoreArrays(const Forest& f, const PathArrays& paths, bool by_lookup)
      : f_(f), paths_(paths), by_lookup_(by_lookup), of_place_(index(n_places(f)), -1) {
    for (int32_t tree = 0; tree < f.n_trees; ++tree)
      takes_part_.push_back(paths.entries[index(tree)] > 0 && n_leaves(tree) <= kLookup);
    scale_steps();
    for (int32_t tree = 0; tree < f.n_trees; ++tree) {
      if (tree % kTreeBatch == 0) close_tree_batch();
      first_record_.push_back(static_cast<int64_t>(records_.size()));
      if (takes_part_[index(tree)]) add_tree(tree);
    }
    close_tree_batch();
  }

  bool any() const { return std::find(takes_part_.begin(), takes_part_.end(), 1) != takes_part_.end(); }
  ScoreTable view() const {
    return {step_unit_,
            takes_part_.data(),
            first_record_.data(),
            by_lookup_ ? nullptr : records_.data(),
            first_use_.data(),
            uses_.data(),
            first_lookup_.data(),
            slot_.data(),
            by_lookup_ ? lookups_.data() : nullptr};
  }

 private:
  // The steps of one player in one tree, by leaf.
  struct PlayerSteps {
    int32_t place, slot;
    float step[kLookup];
  };

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
      for (int64_t leaf = 0; takes_part_[index(tree)] && leaf < n_leaves(tree); ++leaf)
        for (int i = 0; i < paths_.entries[index(tree)]; ++i)
          largest = std::max(largest, std::fabs(record(tree, leaf)[i]));
    int exponent = 0;
    if (largest > 0.0 && std::isfinite(largest)) std::frexp(largest, &exponent);
    step_unit_ = std::ldexp(1.0, exponent);
  }

  void add_tree(int32_t tree) {
    const int entries = paths_.entries[index(tree)];
    const size_t stride = index(record_stride<float>(entries));
    if (!by_lookup_) records_.resize((records_.size() + 15) / 16 * 16);
    first_record_.back() = static_cast<int64_t>(records_.size());
    for (int64_t leaf = 0; leaf < n_leaves(tree); ++leaf) {
      const double* from = record(tree, leaf);
      uint16_t players[kRecord];
      float steps[kRecord];
      std::memcpy(players, from + entries, index(entries) * sizeof(uint16_t));
      for (int i = 0; i < entries; ++i) steps[i] = static_cast<float>(from[i] / step_unit_);
      if (by_lookup_) {
        for (int i = 0; i < entries; ++i)
          if (steps[i] != 0.0f) steps_of(tree, f_.tree_output[tree] * f_.n_players + players[i]).step[leaf] = steps[i];
        continue;
      }
      records_.resize(records_.size() + stride);
      float* to = records_.data() + records_.size() - stride;
      std::memcpy(to, steps, index(entries) * sizeof(float));
      std::memcpy(to + entries, players, index(entries) * sizeof(uint16_t));
    }
    for (const PlayerSteps& steps : tree_batch_) of_place_[index(steps.place)] = -1;
  }

  PlayerSteps& steps_of(int32_t tree, int32_t place) {
    int32_t& at = of_place_[index(place)];
    if (at < 0) {
      at = static_cast<int32_t>(tree_batch_.size());
      tree_batch_.push_back({place, tree % kTreeBatch, {}});
    }
    return tree_batch_[index(at)];
  }

  void close_tree_batch() {
    std::sort(tree_batch_.begin(), tree_batch_.end(), [](const PlayerSteps& a, const PlayerSteps& b) {
      return std::tie(a.place, a.slot) < std::tie(b.place, b.slot);
    });
    const size_t begin = uses_.size();
    for (const PlayerSteps& steps : tree_batch_) {
      if (uses_.size() == begin || uses_.back().place != steps.place) uses_.push_back({steps.place, 0});
      ++uses_.back().n_trees;
      slot_.push_back(static_cast<uint8_t>(steps.slot));
      Lookup lookup;
      for (int leaf = 0; leaf < kLookup; ++leaf) {
        uint32_t bits;
        std::memcpy(&bits, &steps.step[leaf], sizeof bits);
        lookup.low[leaf] = static_cast<uint16_t>(bits);
        lookup.high[leaf] = static_cast<uint16_t>(bits >> 16);
      }
      lookups_.push_back(lookup);
    }
    first_use_.push_back(static_cast<int64_t>(uses_.size()));
    first_lookup_.push_back(static_cast<int64_t>(lookups_.size()));
    tree_batch_.clear();
  }

  const Forest& f_;
  const PathArrays& paths_;
  const bool by_lookup_;
  double step_unit_ = 1.0;
  std::vector<uint8_t> takes_part_, slot_;
  std::vector<int64_t> first_record_, first_use_, first_lookup_;
  std::vector<LookupUse> uses_;
  AlignedVector<float> records_;
  AlignedVector<Lookup> lookups_;
  std::vector<PlayerSteps> tree_batch_;
  std::vector<int32_t> of_place_;  // in tree_batch_, of the tree at hand
};
}  // namespace treeinner
