// The compiled ensemble as Python holds it: owns the arrays, checks shapes, releases the GIL, calls the kernels.
#pragma once

#include "arrays.h"
#include "score_layout.h"

namespace treeinner {

// -- a block of rows, binned
// -------------------------------------------------------------------------------------------

struct Codes {
  int64_t n_rows;
  Buffer data;
};

// -- a path attribution
// ------------------------------------------------------------------------------------------------

struct CorePath {
  PathEntries entries;
  ScoreLayout scores;
  bool has_scores = false;
  Buffer forks{0}, records{0}, score_records{0}, lookups{0};  // aligned
  ScoreTable score_table{};
};

// -- the compiled ensemble
// ---------------------------------------------------------------------------------------------

class CoreForest {
 public:
  CoreForest(In<int32_t, 2> splits, In<int64_t> first_split, In<int64_t> first_leaf, In<int32_t> tree_output,
             In<double, 2> leaf_value, In<int32_t> leaf_id, In<uint64_t> sets, int n_outputs, int n_planes,
             int n_players, int code_bytes, int max_depth)
      : splits_(copied<Split>(splits)),
        first_split_(copied<int64_t>(first_split)),
        first_leaf_(copied<int64_t>(first_leaf)),
        tree_output_(copied<int32_t>(tree_output)),
        leaf_value_(copied<double>(leaf_value)),
        leaf_id_(copied<int32_t>(leaf_id)),
        sets_(copied<uint64_t>(sets)) {
    require(splits.shape(1) * sizeof(int32_t) == sizeof(Split), "a split has 8 numbers");
    require(first_split_.size() == tree_output_.size() + 1, "first_split has one entry per tree and one more");
    require(first_leaf_.size() == tree_output_.size() + 1, "first_leaf has one entry per tree and one more");
    require(first_split_.back() == static_cast<int64_t>(splits_.size()), "first_split does not end at the last split");
    require(first_leaf_.back() == static_cast<int64_t>(leaf_id_.size()), "first_leaf does not end at the last leaf");
    require(leaf_value.shape(0) == leaf_id_.size(), "leaf_value has one row per leaf");
    require(code_bytes == 1 || code_bytes == 2, "codes have 1 or 2 bytes");
    forest_ = {static_cast<int32_t>(tree_output_.size()),
               n_outputs,
               static_cast<int32_t>(leaf_value.shape(1)),
               n_planes,
               n_players,
               code_bytes,
               0,
               max_depth,
               splits_.data(),
               first_split_.data(),
               first_leaf_.data(),
               tree_output_.data(),
               leaf_value_.data(),
               leaf_id_.data(),
               sets_.data(),
               nullptr,
               nullptr,
               0};
    for (size_t tree = 0; tree < tree_output_.size(); ++tree)
      forest_.max_splits =
          std::max(forest_.max_splits, static_cast<int32_t>(first_split_[tree + 1] - first_split_[tree]));
    crowns_ = crowns_of(forest_);
    forest_.crowns = crowns_.of_tree.data();
    forest_.plane_player = crowns_.plane_player.data();
    forest_.strip = crowns_.forks.empty() ? kRun : kStrip;
  }

  void set_binning(In<int64_t, 2> columns, In<int32_t, 2> planes, In<double> thresholds, In<float> thresholds32,
                   In<uint16_t> codes_of_category, In<int32_t> other_code, bool greater_equal, bool float32_input,
                   bool truncate) {
    require(columns.shape(1) == 6 && planes.shape(1) == 4, "a column has 6 numbers and a plane 4");
    require(planes.shape(0) == static_cast<size_t>(forest_.n_planes), "planes do not match the forest");
    columns_.clear();
    for (size_t i = 0; i < columns.shape(0); ++i) {
      const int64_t* c = columns.data() + 6 * i;
      columns_.push_back({static_cast<int32_t>(c[0]), static_cast<int32_t>(c[1]), static_cast<int32_t>(c[2]),
                          static_cast<int32_t>(c[3]), c[4], c[5]});
    }
    planes_ = copied<Plane>(planes);
    thresholds_ = copied<double>(thresholds);
    thresholds32_ = copied<float>(thresholds32);
    codes_of_category_ = copied<uint16_t>(codes_of_category);
    other_code_ = copied<int32_t>(other_code);
    binning_ = {static_cast<int32_t>(columns_.size()),
                greater_equal,
                float32_input,
                truncate,
                columns_.data(),
                planes_.data(),
                thresholds_.data(),
                thresholds32_.data(),
                codes_of_category_.data(),
                other_code_.data()};
  }

  void set_shap(In<uint8_t> splits, In<int32_t, 2> kinds, In<int32_t> n_points, In<int64_t> first_point, In<double> u,
                In<double> w) {
    shap_splits_ = copied<ShapSplit>(splits);
    kinds_ = copied<int32_t>(kinds);
    n_points_ = copied<int32_t>(n_points);
    first_point_ = copied<int64_t>(first_point);
    u_ = copied<double>(u);
    w_ = copied<double>(w);
    require(n_points_.size() == tree_output_.size() && kinds_.size() == 4 * tree_output_.size(), "one rule per tree");
    require(shap_splits_.size() == splits_.size(), "one entry per split");
    shap_ = {shap_splits_.data(), kinds_.data(), n_points_.data(), first_point_.data(), u_.data(), w_.data()};
  }

  // addresses, strides (bytes) and dtypes of the columns; the caller keeps the arrays alive and in range.
  std::unique_ptr<Codes> bin(In<uint64_t> addresses, In<int64_t> strides, In<int32_t> dtypes, int64_t n_rows) const {
    const size_t n = columns_.size();
    require(addresses.size() == n && strides.size() == n && dtypes.size() == n, "wrong number of columns");
    std::vector<Values> values(n);
    for (size_t i = 0; i < n; ++i)
      values[i] = {reinterpret_cast<const char*>(addresses.data()[i]), strides.data()[i], dtypes.data()[i]};
    const size_t bytes = static_cast<size_t>(blocks_of(n_rows) * forest_.n_planes * kBlock * forest_.code_bytes);
    auto codes = std::unique_ptr<Codes>(new Codes{n_rows, Buffer(bytes)});
    nb::gil_scoped_release release;
    active->bin(binning_, 0, static_cast<int32_t>(n), values.data(), forest_.code_bytes, forest_.n_planes, n_rows,
                codes->data.get());
    return codes;
  }

  void leaves(const Codes& codes, Out<int32_t, 2> out) const {
    check(codes);
    require(static_cast<int64_t>(out.shape(0)) == codes.n_rows && static_cast<int32_t>(out.shape(1)) == forest_.n_trees,
            "out is (rows, trees)");
    int32_t* to = out.data();
    nb::gil_scoped_release release;
    active->leaves(forest_, 0, forest_.n_trees, codes.data.get(), codes.n_rows, to);
  }

  void margins(const Codes& codes, int tree, int n, Out<double, 2> out) const {
    check(codes, tree, n);
    require(is_row_array(out, codes), "margins are (outputs, padded rows)");
    double* to = out.data();
    nb::gil_scoped_release release;
    active->margins(forest_, tree, n, codes.data.get(), codes.n_rows, to);
  }

  void leaf_sums(const Codes& codes, int tree, int n, In<int64_t, 2> weight, Out<int64_t, 2> sums) const {
    check(codes, tree, n);
    require(is_row_array(weight, codes), "weights are (outputs, padded rows)");
    require(sums.shape(0) == leaf_id_.size() && sums.shape(1) == static_cast<size_t>(forest_.width),
            "sums are (leaves, width)");
    const int64_t* from = weight.data();
    int64_t* to = sums.data();
    nb::gil_scoped_release release;
    active->leaf_sums(forest_, tree, n, codes.data.get(), codes.n_rows, from, to);
  }

  // with_scores: for row scores too, which want tables of their own.
  std::unique_ptr<CorePath> path_table(In<double, 2> node_value, bool with_scores) const {
    require(node_value.shape(0) == splits_.size() + leaf_id_.size() &&
                node_value.shape(1) == static_cast<size_t>(forest_.width),
            "node values are (nodes, width)");
    const double* value = node_value.data();
    auto out = std::make_unique<CorePath>();
    out->forks = Buffer(crowns_.forks.size() * static_cast<size_t>(fork_stride(forest_.width)));
    forks_with_steps(forest_, crowns_, value, static_cast<char*>(out->forks.get()));
    out->entries = path_entries(forest_, value);
    if (with_scores && ScoreLayouter::takes_part(forest_)) add_scores(*out);
    out->records = moved(out->entries.records);
    return out;
  }

  void path(const Codes& codes, int tree, int n, const CorePath& table, nb::object weight, Out<double, 3> sums) const {
    check(codes, tree, n);
    require(static_cast<int64_t>(sums.shape(0)) == codes.n_rows &&
                static_cast<int32_t>(sums.shape(1)) == forest_.n_outputs &&
                static_cast<int32_t>(sums.shape(2)) == forest_.n_players,
            "sums are (rows, outputs, players)");
    const double* from = weights(weight, codes);
    double* to = sums.data();
    const PathTable view = view_of(table);
    nb::gil_scoped_release release;
    active->path(forest_, tree, n, view, codes.data.get(), codes.n_rows, from, to);
  }

  // margin: (outputs, padded rows), moved on; y: (1 or outputs, rows).
  void boost(const Codes& codes, int loss, double loss_scale, In<int32_t> first_tree, In<double, 2> y,
             nb::object weight, Out<double, 2> margin, double whole_scale, Out<int64_t, 2> leaf_sums,
             Out<double> largest, nb::object whole_weight, Out<int64_t, 2> leaf_weights, const CorePath* paths,
             Out<double, 3> sums) const {
    check(codes);
    const int64_t n_rows = codes.n_rows;
    const Gradients gradients = gradients_of(codes, loss, loss_scale, y, weight, margin);
    require(static_cast<int64_t>(largest.size()) >= n_rows, "largest is (rows,)");
    require(first_tree.size() >= 1 && first_tree.data()[0] == 0, "rounds begin at tree 0");
    for (size_t i = 1; i < first_tree.size(); ++i)
      require(first_tree.data()[i] >= first_tree.data()[i - 1] && first_tree.data()[i] <= forest_.n_trees,
              "rounds are runs of trees");
    require(!paths || first_tree.data()[first_tree.size() - 1] == forest_.n_trees, "rounds end at the last tree");
    require(leaf_sums.shape(0) == leaf_id_.size() && leaf_sums.shape(1) == static_cast<size_t>(forest_.width),
            "leaf sums are (leaves, width)");
    require(!paths || (static_cast<int64_t>(sums.shape(0)) == n_rows &&
                       static_cast<int32_t>(sums.shape(1)) == forest_.n_outputs &&
                       static_cast<int32_t>(sums.shape(2)) == forest_.n_players),
            "sums are (rows, outputs, players)");
    const int64_t* whole = nullptr;
    if (!whole_weight.is_none()) {
      const auto array = nb::cast<In<int64_t>>(whole_weight);
      require(static_cast<int64_t>(array.size()) == n_rows, "whole weights are (rows,)");
      require(leaf_weights.shape(0) == leaf_id_.size() && leaf_weights.shape(1) == static_cast<size_t>(forest_.width),
              "leaf weights are (leaves, width)");
      whole = array.data();
    }
    PathTable view{};
    if (paths) view = view_of(*paths);
    const BoostInput in{gradients,
                        static_cast<int32_t>(first_tree.size()) - 1,
                        first_tree.data(),
                        whole_scale,
                        leaf_sums.data(),
                        whole,
                        whole ? leaf_weights.data() : nullptr,
                        largest.data(),
                        paths ? sums.data() : nullptr};
    nb::gil_scoped_release release;
    const size_t n_runs = static_cast<size_t>((std::min(n_rows, boosting_strip(forest_, &view)) + kRun - 1) / kRun);
    Buffer push(n_runs * push_bytes()), wholes(n_runs * push_bytes());
    const size_t kept = view.scores ? static_cast<size_t>(kRun) * kBatch : 0;
    const size_t places = view.scores ? static_cast<size_t>(kRun) * n_places() : 0;
    Buffer leaf(kept), kept_weight(kept * sizeof(float)), part(places * sizeof(float)), total(places * sizeof(double));
    const ScoreScratch scratch{static_cast<uint8_t*>(leaf.get()), static_cast<float*>(kept_weight.get()),
                               static_cast<float*>(part.get()), static_cast<double*>(total.get())};
    active->boost(forest_, in, paths ? &view : nullptr, codes.data.get(), n_rows, static_cast<double*>(push.get()),
                  static_cast<int64_t*>(wholes.get()), scratch);
  }

  // out: minus the gradients at the margin; both (outputs, padded rows).
  void push(const Codes& codes, int loss, double loss_scale, In<double, 2> y, nb::object weight, Out<double, 2> margin,
            Out<double, 2> out) const {
    const Gradients gradients = gradients_of(codes, loss, loss_scale, y, weight, margin);
    require(is_row_array(out, codes), "gradients are (outputs, padded rows)");
    double* to = out.data();
    nb::gil_scoped_release release;
    Buffer scratch(push_bytes());
    active->push(gradients, forest_.n_outputs, codes.n_rows, static_cast<double*>(scratch.get()), to);
  }

  void shap(const Codes& codes, int tree, int n, nb::object tree_scale, nb::object weight, Out<double, 4> sums) const {
    check(codes, tree, n);
    require(shap_.splits != nullptr || splits_.empty(), "set_shap comes first");
    const double* scale = nullptr;
    if (!tree_scale.is_none()) {
      const auto array = nb::cast<In<double>>(tree_scale);
      require(array.size() == tree_output_.size(), "one scale per tree");
      scale = array.data();
    }
    const double* from = weights(weight, codes);
    double* to = checked_sums(sums, codes);
    nb::gil_scoped_release release;
    const size_t splits = static_cast<size_t>(forest_.max_splits), frame = kPoints * kSweepRows * sizeof(double);
    Buffer words(splits * sizeof(ShapWords)), frames((2 * splits + 2) * frame);
    Buffer constants(splits * kShapConstants * sizeof(double));
    const ShapScratch scratch{static_cast<ShapWords*>(words.get()), static_cast<double*>(frames.get()),
                              static_cast<double*>(constants.get())};
    active->shap(forest_, tree, n, shap_, codes.data.get(), codes.n_rows, scale, from, scratch, to);
  }

  const Forest& forest() const { return forest_; }
  const std::vector<Plane>& planes() const { return planes_; }
  size_t n_columns() const { return columns_.size(); }

 private:
  PathTable view_of(const CorePath& table) const {
    require(table.entries.first_entry.size() == crowns_.n_exits + 1, "a path table of another forest");
    const PathEntries& e = table.entries;
    return {static_cast<const char*>(table.forks.get()),
            e.entries.data(),
            e.first_record.data(),
            static_cast<double*>(table.records.get()),
            e.first_entry.data(),
            e.player.data(),
            e.step.data(),
            table.has_scores ? &table.score_table : nullptr};
  }

  template <class T>
  static Buffer moved(std::vector<T>& from) {
    Buffer out(from.size() * sizeof(T));
    if (!from.empty()) std::memcpy(out.get(), from.data(), from.size() * sizeof(T));
    from = {};
    return out;
  }

  void add_scores(CorePath& path) const {
    ScoreLayout& s = path.scores = ScoreLayouter(forest_, path.entries).make();
    path.has_scores = std::any_of(s.first_record.begin(), s.first_record.end(), [](int64_t at) { return at >= 0; });
    path.score_records = moved(s.records);
    path.lookups = moved(s.lookups);
    path.score_table = {s.step_unit,
                        s.first_record.data(),
                        static_cast<const float*>(path.score_records.get()),
                        s.first_use.data(),
                        s.uses.data(),
                        s.first_lookup.data(),
                        s.slot.data(),
                        static_cast<const Lookup*>(path.lookups.get())};
  }

  size_t n_places() const { return static_cast<size_t>(forest_.n_outputs) * static_cast<size_t>(forest_.n_players); }

  Gradients gradients_of(const Codes& codes, int loss, double loss_scale, const In<double, 2>& y,
                         const nb::object& weight, const Out<double, 2>& margin) const {
    require(loss >= Loss::kSquared && loss <= Loss::kSoftmax, "no such loss");
    require((y.shape(0) == 1 || static_cast<int32_t>(y.shape(0)) == forest_.n_outputs) &&
                static_cast<int64_t>(y.shape(1)) == codes.n_rows,
            "y is (1 or outputs, rows)");
    require(is_row_array(margin, codes), "margins are (outputs, padded rows)");
    const double* w = nullptr;
    if (!weight.is_none()) {
      const auto array = nb::cast<In<double>>(weight);
      require(static_cast<int64_t>(array.size()) == codes.n_rows, "weights are (rows,)");
      w = array.data();
    }
    return {{loss, loss_scale},
            y.data(),
            y.shape(0) == 1 ? 0 : codes.n_rows,
            w,
            margin.data(),
            static_cast<int64_t>(margin.shape(1))};
  }

  // Of a run: a number per row, output and two more (loss.h).
  size_t push_bytes() const {
    return static_cast<size_t>(kRun) * (static_cast<size_t>(forest_.n_outputs) + 2) * sizeof(double);
  }

  void check(const Codes& codes, int tree = 0, int n = 0) const {
    require(tree >= 0 && n >= 0 && tree + n <= forest_.n_trees, "trees out of range");
    const int64_t bytes = blocks_of(codes.n_rows) * forest_.n_planes * kBlock * forest_.code_bytes;
    require(static_cast<int64_t>(codes.data.size()) >= bytes, "codes of another forest");
  }

  template <class Array>
  bool is_row_array(const Array& a, const Codes& codes) const {
    return static_cast<int64_t>(a.shape(0)) == forest_.n_outputs &&
           static_cast<int64_t>(a.shape(1)) == blocks_of(codes.n_rows) * kBlock;
  }

  const double* weights(const nb::object& weight, const Codes& codes) const {
    if (weight.is_none()) return nullptr;
    const auto array = nb::cast<Weight>(weight);
    require(is_row_array(array, codes) && reinterpret_cast<uintptr_t>(array.data()) % kAlign == 0,
            "weights are (outputs, padded rows), aligned");
    return array.data();
  }

  double* checked_sums(const Out<double, 4>& sums, const Codes& codes) const {
    require(static_cast<int64_t>(sums.shape(0) * sums.shape(3)) == blocks_of(codes.n_rows) * kBlock &&
                static_cast<int64_t>(sums.shape(1)) == forest_.n_outputs &&
                static_cast<int64_t>(sums.shape(2)) == forest_.n_players && sums.shape(3) == kSweepRows &&
                (sums.size() == 0 || reinterpret_cast<uintptr_t>(sums.data()) % kAlign == 0),
            "sums are [slice][output][player][16], aligned");
    return sums.data();
  }

  std::vector<Split> splits_;
  std::vector<int64_t> first_split_, first_leaf_;
  std::vector<int32_t> tree_output_;
  std::vector<double> leaf_value_;
  std::vector<int32_t> leaf_id_;
  std::vector<uint64_t> sets_;
  Crowns crowns_;
  Forest forest_{};

  std::vector<Column> columns_;
  std::vector<Plane> planes_;
  std::vector<double> thresholds_;
  std::vector<float> thresholds32_;
  std::vector<uint16_t> codes_of_category_;
  std::vector<int32_t> other_code_;
  Binning binning_{};

  std::vector<ShapSplit> shap_splits_;
  std::vector<int64_t> first_point_;
  std::vector<int32_t> kinds_, n_points_;
  std::vector<double> u_, w_;
  ShapForest shap_{};
};

}  // namespace treeinner
