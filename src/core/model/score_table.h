// The records of a PathTable -> a ScoreTable, for row scores in tree batches. Plain C++.
#pragma once

#include <cmath>
#include <memory>

#include "path_table.h"

namespace treeinner {
// Owns what a ScoreTable borrows (tables.h). level: of shares, whose residuals come times `scale`; fixed: likewise, or
// null.
class ScoreArrays {
 public:
  static bool takes_part(const Forest& f) { return f.width == 1 && n_places(f) <= kPlaces; }

  ScoreArrays(const Forest& f, const PathArrays& paths, const PathArrays* level = nullptr, double scale = 1.0,
              const PathArrays* fixed = nullptr)
      : f_(f), paths_(paths), level_(level), fixed_(fixed) {
    for (int32_t tree = 0; tree < f.n_trees; ++tree)
      takes_part_.push_back(paths.entries[index(tree)] > 0 && n_leaves(tree) <= kSmall);
    scale_steps();
    size_t size = 0;
    for (int32_t tree = 0; tree < f.n_trees; ++tree)
      if (takes_part_[index(tree)]) size += index(n_leaves(tree) * stride_of(tree));
    records_.reserve(size);
    for (int32_t tree = 0; tree < f.n_trees; ++tree) {
      first_record_.push_back(static_cast<int64_t>(records_.size()));
      if (takes_part_[index(tree)]) add_records(tree, step_unit_ / scale);
    }
  }

  bool any() const { return std::find(takes_part_.begin(), takes_part_.end(), 1) != takes_part_.end(); }
  ScoreTable view() const {
    return {step_unit_, takes_part_.data(), first_record_.data(), records_.data(), fixed_ != nullptr};
  }

 private:
  int stride_of(int32_t tree) const { return quad_stride(paths_.entries[index(tree)], fixed_ ? kQuad + 1 : kQuad); }
  int64_t n_leaves(int32_t tree) const { return f_.first_leaf[tree + 1] - f_.first_leaf[tree]; }
  const double* record(const PathArrays& paths, int32_t tree, int64_t leaf) const {
    const int stride = record_stride(paths.entries[index(tree)]);
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

  void add_records(int32_t tree, double level_unit) {
    const int entries = paths_.entries[index(tree)];
    for (int64_t leaf = 0; leaf < n_leaves(tree); ++leaf) {
      const double *from = record(paths_, tree, leaf), *level = level_ ? record(*level_, tree, leaf) : nullptr,
                   *fixed = fixed_ ? record(*fixed_, tree, leaf) : nullptr;
      const size_t begin = records_.size();
      records_.resize(begin + index(stride_of(tree)));
      float *to = records_.data() + begin, *steps = to + entries * kQuad;
      for (int i = 0; i < entries; ++i, to += kQuad) {
        const double step = from[i] / step_unit_, whole = std::rint(step * kWhole);
        const double of_level = level ? level[i] / level_unit : 0.0;
        const double more = fixed ? (fixed[i] - level[i]) / level_unit : 0.0;
        to[0] = static_cast<float>(fixed ? of_level : step), to[1] = static_cast<float>(fixed ? more : of_level);
        to[2] = static_cast<float>(whole), to[3] = static_cast<float>(step * kWhole - whole);
        if (fixed) steps[i] = static_cast<float>(step);
      }
      to += fixed ? entries : 0;
      uint16_t player[kRecord];  // the same paths have the same players
      uint64_t packed[2] = {};
      std::memcpy(player, from + entries, index(entries) * sizeof(uint16_t));
      for (int i = 0; i < entries; ++i) packed[i / kPacked] |= uint64_t{player[i]} << kPlayerBits * (i % kPacked);
      std::memcpy(to, packed, entries <= kPacked ? 8 : 16);
    }
  }

  const Forest& f_;
  const PathArrays& paths_;
  const PathArrays *level_, *fixed_;
  double step_unit_ = 1.0;
  std::vector<uint8_t> takes_part_;
  std::vector<int64_t> first_record_;
  AlignedVector<float> records_;
};

// A path table with what it borrows. for_scores: for row scores too, where the forest takes part in them.
struct Paths {
  PathArrays arrays;
  std::unique_ptr<ScoreArrays> scores;
  ScoreTable score_view{};
  PathTable view;

  Paths(const BuiltForest& built, const double* node_value, bool for_scores)
      : arrays(built, node_value), view(arrays.view()) {
    if (for_scores) add_scores(built.view(), nullptr, 1.0);
  }
  Paths(const Paths&) = delete;
  virtual ~Paths() = default;

 protected:
  // As ScoreArrays.
  void add_scores(const Forest& f, const PathArrays* level, double scale, const PathArrays* fixed = nullptr) {
    if (!ScoreArrays::takes_part(f)) return;
    scores = std::make_unique<ScoreArrays>(f, arrays, level, scale, fixed);
    score_view = scores->view();
    if (scores->any()) view.scores = &score_view;
  }
};
}  // namespace treeinner
