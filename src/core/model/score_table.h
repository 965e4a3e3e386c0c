// The records of a PathTable -> a ScoreTable, for row scores in tree batches. Plain C++.
#pragma once

#include <cmath>
#include <memory>

#include "path_table.h"

namespace treeinner {
// Owns what a ScoreTable borrows (tables.h). by_lookup: which of its two forms; level: of shares, whose residuals come
// times `scale`.
class ScoreArrays {
 public:
  static bool takes_part(const Forest& f) { return f.width == 1 && n_places(f) <= kPlaces; }

  ScoreArrays(const Forest& f, const PathArrays& paths, bool by_lookup, const PathArrays* level = nullptr,
              double scale = 1.0)
      : f_(f), paths_(paths), level_(level), found_(index(n_places(f)) * kTreeBatch, -1) {
    for (int32_t tree = 0; tree < f.n_trees; ++tree)
      takes_part_.push_back(paths.entries[index(tree)] > 0 && n_leaves(tree) <= kLookup);
    scale_steps();
    level_unit_ = step_unit_ / scale;
    for (int32_t tree = 0; tree < f.n_trees; ++tree) {
      first_record_.push_back(static_cast<int64_t>(records_.size()));
      if (takes_part_[index(tree)]) by_lookup ? add_lookups(tree) : add_records(tree);
      if (tree % kTreeBatch == kTreeBatch - 1 || tree == f.n_trees - 1) close_tree_batch();
    }
  }

  bool any() const { return std::find(takes_part_.begin(), takes_part_.end(), 1) != takes_part_.end(); }
  ScoreTable view(bool by_lookup) const {
    return {step_unit_,
            by_lookup,
            takes_part_.data(),
            first_record_.data(),
            records_.data(),
            first_use_.data(),
            uses_.data(),
            first_lookup_.data(),
            slot_.data(),
            lookups_.data(),
            level_ ? level_lookups_.data() : nullptr};
  }

 private:
  int64_t n_leaves(int32_t tree) const { return f_.first_leaf[tree + 1] - f_.first_leaf[tree]; }
  const double* record(const PathArrays& paths, int32_t tree, int64_t leaf) const {
    const int stride = record_stride<double>(paths.entries[index(tree)]);
    return paths.records.data() + paths.first_record[index(tree)] + leaf * stride;
  }

  // A power of two: the steps are rounded once, and their products with the weights keep clear of float32's ends.
  void scale_steps() {
    double largest = 0.0;
    for (int32_t tree = 0; tree < f_.n_trees; ++tree)
      for (int64_t leaf = 0; takes_part_[index(tree)] && leaf < n_leaves(tree); ++leaf)
        for (int i = 0; i < paths_.entries[index(tree)]; ++i)
          largest = std::max(largest, std::fabs(record(paths_, tree, leaf)[i]));
    int exponent = 0;
    if (largest > 0.0 && std::isfinite(largest)) std::frexp(largest, &exponent);
    step_unit_ = std::ldexp(1.0, exponent);
  }

  void add_records(int32_t tree) {
    const int n = paths_.entries[index(tree)];
    const size_t entries = index(n), stride = index(level_ ? share_stride(n) : record_stride<float>(n));
    records_.resize((records_.size() + 15) / 16 * 16);
    first_record_.back() = static_cast<int64_t>(records_.size());
    for (int64_t leaf = 0; leaf < n_leaves(tree); ++leaf) {
      const double* from = record(paths_, tree, leaf);
      records_.resize(records_.size() + stride);
      float* to = records_.data() + records_.size() - stride;
      for (size_t i = 0; i < entries; ++i) to[i] = static_cast<float>(from[i] / step_unit_);
      if (level_) {  // the same paths have the same players
        const double* level = record(*level_, tree, leaf);
        to += entries;
        for (size_t i = 0; i < entries; ++i) to[i] = static_cast<float>(level[i] / level_unit_);
      }
      std::memcpy(to + entries, from + entries, entries * sizeof(uint16_t));
    }
  }

  void add_lookups(int32_t tree) {
    const int entries = paths_.entries[index(tree)];
    for (int64_t leaf = 0; leaf < n_leaves(tree); ++leaf)
      for (int i = 0; i < entries; ++i) {
        const double* from = record(paths_, tree, leaf);
        uint16_t player;
        std::memcpy(&player, reinterpret_cast<const char*>(from + entries) + i * sizeof player, sizeof player);
        int32_t& at = found_[index((f_.tree_output[tree] * f_.n_players + player) * kTreeBatch + tree % kTreeBatch)];
        if (at < 0) {
          at = static_cast<int32_t>(tree_batch_.size());
          tree_batch_.push_back({});
          if (level_) level_batch_.push_back({});
        }
        put(tree_batch_[index(at)], leaf, from[i] / step_unit_);
        if (level_) put(level_batch_[index(at)], leaf, record(*level_, tree, leaf)[i] / level_unit_);
      }
  }

  static void put(Lookup& lookup, int64_t leaf, double number) {
    const float step = static_cast<float>(number);
    uint32_t bits;
    std::memcpy(&bits, &step, sizeof bits);
    lookup.low[leaf] = static_cast<uint16_t>(bits);
    lookup.high[leaf] = static_cast<uint16_t>(bits >> 16);
  }

  // Lookups in the order of places, then of trees.
  void close_tree_batch() {
    const int64_t begin = first_use_.back();
    for (size_t i = 0; !tree_batch_.empty() && i < found_.size(); ++i) {
      if (found_[i] < 0) continue;
      const int32_t place = static_cast<int32_t>(i / kTreeBatch);
      if (static_cast<int64_t>(uses_.size()) == begin || uses_.back().place != place) uses_.push_back({place, 0});
      ++uses_.back().n_trees;
      slot_.push_back(static_cast<uint8_t>(i % kTreeBatch));
      lookups_.push_back(tree_batch_[index(found_[i])]);
      if (level_) level_lookups_.push_back(level_batch_[index(found_[i])]);
      found_[i] = -1;
    }
    first_use_.push_back(static_cast<int64_t>(uses_.size()));
    first_lookup_.push_back(static_cast<int64_t>(lookups_.size()));
    tree_batch_.clear();
    level_batch_.clear();
  }

  const Forest& f_;
  const PathArrays& paths_;
  const PathArrays* level_;
  double step_unit_ = 1.0, level_unit_ = 1.0;
  std::vector<uint8_t> takes_part_, slot_;
  std::vector<int64_t> first_record_, first_use_{0}, first_lookup_{0};
  std::vector<LookupUse> uses_;
  AlignedVector<float> records_;
  AlignedVector<Lookup> lookups_, level_lookups_, tree_batch_, level_batch_;
  std::vector<int32_t> found_;  // (places, kTreeBatch)  in tree_batch_; -1: the tree does not have the player
};

// A path table with what it borrows. for_scores: for row scores too, where the forest takes part in them.
struct Paths {
  PathArrays arrays;
  std::unique_ptr<ScoreArrays> scores;
  ScoreTable score_view{};
  PathTable view;

  Paths(const BuiltForest& built, const double* node_value, bool for_scores, bool by_lookup)
      : arrays(built, node_value), view(arrays.view()) {
    if (for_scores) add_scores(built.view(), by_lookup, nullptr, 1.0);
  }
  Paths(const Paths&) = delete;
  virtual ~Paths() = default;

 protected:
  // level: of shares, whose residuals come times `scale`.
  void add_scores(const Forest& f, bool by_lookup, const PathArrays* level, double scale) {
    if (!ScoreArrays::takes_part(f)) return;
    scores = std::make_unique<ScoreArrays>(f, arrays, by_lookup, level, scale);
    score_view = scores->view(by_lookup);
    if (scores->any()) view.scores = &score_view;
  }
};
}  // namespace treeinner
