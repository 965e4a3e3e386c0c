// The compiled trees and its tables as Python holds them: own the arrays, check shapes, call the kernels.
#pragma once

#include "../model/shap_table.h"
#include "../model/share_table.h"
#include "arrays.h"

namespace treeinner {
// Binned rows.
struct Codes {
  int64_t n_rows;
  Buffer data;
};

class CoreForest {
 public:
  // trees: Trees; plan: its Plan (treeinner/kernels/binning.py); nodes: (nodes, 6), an EnsembleNode for each.
  CoreForest(const nb::object& trees, const nb::object& plan, In<int32_t, 2> nodes, int n_players)
      : built_(arrays_of(trees, plan, nodes, n_players)),
        f_(built_.view()),
        plan_(plan),
        columns_(rows_of<Column, int64_t>(plan, "columns")),
        planes_(rows_of<Plane, int32_t>(plan, "planes")) {
    const auto is = [&](const char* rule, const char* value) {
      return nb::cast<std::string>(trees.attr(rule)) == value;
    };
    binning_ = {static_cast<int32_t>(columns_.size()),
                is("right_if", "greater_equal"),
                nb::cast<bool>(trees.attr("float32_input")),
                is("category_rule", "truncate"),
                columns_.data(),
                planes_.data(),
                array_of<double>(plan, "thresholds").data(),
                array_of<float>(plan, "thresholds32").data(),
                array_of<uint16_t>(plan, "codes_of_category").data(),
                array_of<int32_t>(plan, "other_code").data()};
  }

  // Node of the Trees by number: each tree's splits in pre-order, then its leaves.
  void numbered(Out<int32_t> out) const {
    require(has_shape(out, n_nodes(f_)), "one number per node");
    std::copy(built_.numbered.begin(), built_.numbered.end(), out.data());
  }

  // values: (columns, 3), a Values for each column; the caller keeps their arrays alive and in range.
  std::unique_ptr<Codes> bin(In<int64_t, 2> values, int64_t n_rows) const {
    static_assert(sizeof(Values) == 3 * sizeof(int64_t), "a Values is three numbers");
    require(has_shape(values, columns_.size(), 3), "values are (columns, 3)");
    auto codes = new_codes(n_rows);
    const auto* columns = reinterpret_cast<const Values*>(values.data());
    run(&Kernels::bin, {&f_, nullptr, n_rows}, BinArgs{&binning_, columns, codes->data.data()});
    return codes;
  }

  void leaves(const Codes& codes, Out<int32_t, 2> out) const {
    require(has_shape(out, codes.n_rows, f_.n_trees), "out is (rows, trees)");
    run(&Kernels::leaves, job(codes), LeavesArgs{out.data()});
  }

  void margins(const Codes& codes, int tree, int n, Out<double, 2> out) const {
    require(is_row_array(out, codes), "margins are (outputs, padded rows)");
    run(&Kernels::margins, job(codes, tree, n), MarginsArgs{out.data()});
  }

  void leaf_sums(const Codes& codes, int tree, int n, In<int64_t, 2> weight, Out<int64_t, 2> sums) const {
    require(is_row_array(weight, codes), "weights are (outputs, padded rows)");
    require(has_shape(sums, n_leaves(f_), f_.width), "sums are (leaves, width)");
    run(&Kernels::leaf_sums, job(codes, tree, n), LeafSumsArgs{weight.data(), sums.data()});
  }

  // node_value: (nodes, width), each tree's in the order of their numbers, as everywhere here.
  std::unique_ptr<Paths> path_table(In<double, 2> node_value, bool for_scores) const {
    require(has_shape(node_value, n_nodes(f_), f_.width), "node values are (nodes, width)");
    return std::make_unique<Paths>(built_, node_value.data(), for_scores);
  }

  // value, residual: means over the rows in every node, residuals less the root's; scale: of the residuals in `boost`;
  // own, fixed: see Shares.
  std::unique_ptr<Shares> share_table(In<double, 2> value, In<double, 2> residual, double scale, bool own,
                                      const Shares* fixed) const {
    if (fixed) check(*fixed);
    for (const auto* means : {&value, &residual})
      require(has_shape(*means, n_nodes(f_), f_.width), "means are (nodes, width)");
    return std::make_unique<Shares>(built_, value.data(), residual.data(), scale, own, fixed);
  }

  // out: (outputs, players), what the squares of the steps add up to.
  void squares(const Paths& table, In<int64_t, 2> leaf_weights, Out<double, 2> out) const {
    check(table);
    require(has_shape(leaf_weights, n_leaves(f_), 1), "leaf weights are (leaves, 1)");
    require(has_shape(out, f_.n_outputs, f_.n_players), "squares are (outputs, players)");
    for (int tree = 0; tree < f_.n_trees; ++tree) require(!f_.tops[tree].below, "squares are of trees without a top");
    run(&Kernels::squares, {&f_}, SquaresArgs{&table.view, leaf_weights.data(), out.data()});
  }

  // row_weight: of shares.
  void path(const Codes& codes, int tree, int n, const Paths& table, const Maybe<double, 2>& weight,
            Out<double, 3> sums, const Maybe<double>& row_weight) const {
    require(has_shape(sums, codes.n_rows, f_.n_outputs, f_.n_players), "sums are (rows, outputs, players)");
    require(!row_weight || has_shape(*row_weight, codes.n_rows), "row weights are (rows,)");
    require(weight || !table.view.level, "shares need residuals");
    check(table);
    run(&Kernels::path, job(codes, tree, n),
        PathArgs{&table.view, row_weights(weight, codes), data_of(row_weight), sums.data()});
  }

  // cover: (nodes,); quadrature(n): points and weights of a Gauss-Legendre rule on [0, 1].
  std::unique_ptr<ShapArrays> shap_table(In<double> cover, const nb::callable& quadrature) const {
    require(has_shape(cover, n_nodes(f_)), "one cover per node");
    const Quadrature rule = [&](int n, double* u, double* w) {
      const auto [points, weights] = nb::cast<std::pair<In<double>, In<double>>>(quadrature(n), false);
      require(has_shape(points, n) && has_shape(weights, n), "a rule has as many points as asked for");
      std::copy(points.data(), points.data() + n, u);
      std::copy(weights.data(), weights.data() + n, w);
    };
    return std::make_unique<ShapArrays>(f_, cover.data(), rule);
  }

  void shap(const Codes& codes, int tree, int n, const ShapArrays& table, const Maybe<double, 2>& weight,
            Out<double, 4> sums) const {
    require(table.forest == &f_, "a TreeSHAP table of another forest");
    require(has_shape(sums, padded(codes.n_rows) / kSlice, f_.n_outputs, f_.n_players, kSlice) &&
                (sums.size() == 0 || is_aligned(sums.data())),
            "sums are [slice][output][player][16], aligned");
    run(&Kernels::shap, job(codes, tree, n), ShapArgs{table.trees().data(), row_weights(weight, codes), sums.data()});
  }

  // out: minus the gradients at the margin; both (outputs, padded rows).
  void residuals(const Codes& codes, int loss, double loss_scale, In<double, 2> y, const Maybe<double>& weight,
                 Out<double, 2> margin, Out<double, 2> out) const {
    require(is_row_array(out, codes), "residuals are (outputs, padded rows)");
    run(&Kernels::residuals, job(codes),
        ResidualsArgs{loss_input(codes, loss, loss_scale, y, weight, margin), out.data()});
  }

  // Points of every round's step, that residuals are averaged over, and (rows,) += what the first-order terms add up
  // to.
  using StepRule = std::tuple<In<int32_t>, In<double>, In<double>, Out<double>>;

  // Contributions so far, and what the players' own effects add to the shares: (rows, outputs, players), added to.
  using Effects = std::pair<Out<double, 3>, std::optional<Out<double, 3>>>;

  // Shares with node values taken as fixed, of the same paths, and their (rows, outputs, players), added to.
  using FixedShares = std::pair<const Shares*, Out<double, 3>>;

  // margin: (outputs, padded rows), moved on; y: (1 or outputs, rows). fixed, leaf_weights: both or none.
  // mean_residual: (rounds, outputs), and row_weight: of shares.
  void boost(const Codes& codes, int loss, double loss_scale, In<int32_t> first_tree, In<double, 2> y,
             const Maybe<double>& weight, Out<double, 2> margin, double scale,
             const std::optional<Out<int64_t, 2>>& leaf_sums, Out<double> largest, const Maybe<int64_t>& fixed,
             const std::optional<Out<int64_t, 2>>& leaf_weights, const Paths* paths, Out<double, 3> sums,
             const Maybe<double, 2>& mean_residual, const Maybe<double>& row_weight,
             const std::optional<StepRule>& rule, const std::optional<Effects>& effects,
             const std::optional<FixedShares>& fixed_shares) const {
    const size_t n_rounds = first_tree.size() - 1;
    const int32_t* first = first_tree.data();
    require(static_cast<int64_t>(largest.size()) >= codes.n_rows, "largest is (rows,)");
    require(first_tree.size() >= 1 && first[0] == 0, "rounds begin at tree 0");
    for (size_t i = 1; i < first_tree.size(); ++i)
      require(first[i] >= first[i - 1] && first[i] <= f_.n_trees, "rounds are runs of trees");
    require(!paths || first[n_rounds] == f_.n_trees, "rounds end at the last tree");
    for (const auto* into : {&leaf_sums, &leaf_weights})
      require(!*into || has_shape(**into, n_leaves(f_), f_.width), "leaf sums and weights are (leaves, width)");
    require(!paths || has_shape(sums, codes.n_rows, f_.n_outputs, f_.n_players), "sums are (rows, outputs, players)");
    require(!fixed || has_shape(*fixed, codes.n_rows), "fixed-point weights are (rows,)");
    require(!leaf_weights || (fixed && leaf_sums), "leaf weights come with leaf sums and fixed-point weights");
    require((paths && paths->view.level) == mean_residual.has_value(), "shares need mean residuals");
    require(!mean_residual || has_shape(*mean_residual, n_rounds, f_.n_outputs), "means are (rounds, outputs)");
    require(!row_weight || has_shape(*row_weight, codes.n_rows), "row weights are (rows,)");
    if (paths) check(*paths);
    BoostArgs args{loss_input(codes, loss, loss_scale, y, weight, margin), static_cast<int32_t>(n_rounds), first,
                   scale};
    args.largest = largest.data(), args.leaf_sums = data_of(leaf_sums);
    args.leaf_weights = data_of(leaf_weights), args.fixed_weights = data_of(fixed);
    args.paths = paths ? &paths->view : nullptr, args.sums = sums.data();
    args.mean_residual = data_of(mean_residual), args.row_weight = data_of(row_weight);
    if (rule) {
      const auto& [first_point, point, point_weight, first_order] = *rule;
      require(has_shape(first_point, n_rounds + 1) && first_point.data()[0] == 0, "points begin at 0");
      for (size_t i = 1; i <= n_rounds; ++i)
        require(first_point.data()[i] >= first_point.data()[i - 1], "every round has its points");
      const size_t n_points = static_cast<size_t>(first_point.data()[n_rounds]);
      require(has_shape(point, n_points) && has_shape(point_weight, n_points), "a weight for every point");
      require(first_order.size() == 0 || has_shape(first_order, codes.n_rows),
              "first-order terms are (rows,), or none");
      args.first_point = first_point.data(), args.point = point.data(), args.point_weight = point_weight.data();
      args.first_order = first_order.size() ? first_order.data() : nullptr;
    }
    if (effects) {
      const auto& [so_far, put_back] = *effects;
      require(paths && !rule, "effects go with paths, and residuals before the rounds");
      require(has_shape(so_far, codes.n_rows, f_.n_outputs, f_.n_players) &&
                  (!put_back || put_back->size() == so_far.size()),
              "effects are (rows, outputs, players)");
      args.effect = {so_far.data(), data_of(put_back)};
    }
    if (fixed_shares) {
      const auto& [table, into] = *fixed_shares;
      require(table && mean_residual && into.size() == sums.size(), "fixed shares go with shares");
      check(*table);
    }
    require(!paths || fixed_shares.has_value() == paths->score_view.with_fixed || !paths->scores,
            "a table with fixed node values goes with a place for their shares");
    if (fixed_shares) {
      const auto& [table, into] = *fixed_shares;
      args.fixed = &table->view, args.fixed_sums = into.data();
    }
    run(&Kernels::boost, job(codes), args);
  }

  // Leaf sums of the same rows, drawn anew: codes are (draws, padded rows). Only `trees` are visited, round by round;
  // moved: (rounds, outputs, padded rows), what the others add to the margin before each round.
  void redraw(const Codes& codes, int loss, double loss_scale, In<int32_t> first_tree, In<int32_t> trees,
              In<double, 2> y, const Maybe<double>& weight, In<double, 3> moved, double scale,
              Out<int64_t, 3> leaf_sums, Out<double> largest, In<int64_t> fixed, Out<int64_t, 3> leaf_weights) const {
    const auto n_rows = static_cast<int64_t>(fixed.size()), n_draws = static_cast<int64_t>(leaf_sums.shape(0));
    const auto n_rounds = static_cast<int32_t>(first_tree.size()) - 1;
    const int32_t *first = first_tree.data(), *tree = trees.data();
    require(n_rounds >= 0 && first[0] == 0 && has_shape(trees, first[n_rounds]), "rounds begin and end with the trees");
    for (int32_t i = 0; i < n_rounds; ++i) require(first[i] <= first[i + 1], "rounds are runs of trees");
    for (size_t i = 0; i < trees.size(); ++i) require(tree[i] >= 0 && tree[i] < f_.n_trees, "trees out of range");
    require(codes.n_rows == n_draws * padded(n_rows), "codes are (draws, padded rows)");
    require(has_shape(moved, n_rounds, f_.n_outputs, padded(n_rows)), "moves are (rounds, outputs, padded rows)");
    require(has_shape(y, 1, n_rows) || has_shape(y, f_.n_outputs, n_rows), "y is (1 or outputs, rows)");
    require(!weight || has_shape(*weight, n_rows), "weights are (rows,)");
    require(has_shape(largest, padded(n_rows)), "largest is (padded rows,)");
    require(loss >= Loss::kSquared && loss <= Loss::kSoftmax, "no such loss");
    for (const auto* sums : {&leaf_sums, &leaf_weights})
      require(has_shape(*sums, n_draws, n_leaves(f_), f_.width), "leaf sums and weights are (draws, leaves, width)");
    const int64_t size = f_.n_outputs * padded(n_rows), leaves = int64_t{n_leaves(f_)} * f_.width;
    Buffer margin(index(size) * sizeof(double));
    auto* margins = reinterpret_cast<double*>(margin.data());
    const LossInput input{{loss, loss_scale}, y.data(), y.shape(0) == 1 ? 0 : n_rows,
                          data_of(weight),    margins,  padded(n_rows)};
    BoostArgs args{input, n_rounds, first, scale};
    args.largest = largest.data(), args.fixed_weights = fixed.data(), args.trees = tree, args.moved = moved.data();
    const Kernels* kernels = active;
    const nb::gil_scoped_release release;
    for (int64_t draw = 0; draw < n_draws; ++draw) {
      std::fill(margins, margins + size, 0.0);
      args.leaf_sums = leaf_sums.data() + draw * leaves, args.leaf_weights = leaf_weights.data() + draw * leaves;
      call(kernels->boost, Job{&f_, codes.data.data() + draw * code_bytes(n_rows), n_rows, 0, f_.n_trees}, args);
    }
  }

  void split_scores(In<double, 2> node_value, In<int64_t, 2> leaf_sums, double unit, Out<double, 2> out) const {
    require(has_shape(leaf_sums, n_leaves(f_), f_.width), "leaf sums are (leaves, width)");
    require(has_shape(node_value, n_nodes(f_), f_.width), "node values are (nodes, width)");
    require(has_shape(out, f_.first_split[f_.n_trees], f_.width), "scores are (splits, width)");
    run(&Kernels::split_scores, {&f_}, SplitScoresArgs{node_value.data(), leaf_sums.data(), unit, out.data()});
  }

  void centre_values(In<int64_t, 2> leaf_weights, Out<double, 2> node_value) const {
    require(has_shape(leaf_weights, n_leaves(f_), f_.width), "leaf weights are (leaves, width)");
    require(has_shape(node_value, n_nodes(f_), f_.width), "node values are (nodes, width)");
    run(&Kernels::centre_values, {&f_}, CentreValuesArgs{leaf_weights.data(), node_value.data()});
  }

  const Forest& view() const { return f_; }
  const std::vector<Plane>& planes() const { return planes_; }
  size_t n_columns() const { return columns_.size(); }

  std::unique_ptr<Codes> new_codes(int64_t n_rows) const {
    return std::unique_ptr<Codes>(new Codes{n_rows, Buffer(code_bytes(n_rows))});
  }

  // All trees, if none are named.
  Job job(const Codes& codes, int tree = 0, int n = -1) const {
    n = n < 0 ? f_.n_trees : n;
    require(tree >= 0 && tree + n <= f_.n_trees, "trees out of range");
    require(codes.data.size() >= code_bytes(codes.n_rows), "codes of another forest");
    return {&f_, codes.data.data(), codes.n_rows, tree, n};
  }

 private:
  static EnsembleArrays arrays_of(const nb::object& trees, const nb::object& plan, const In<int32_t, 2>& nodes,
                                  int n_players) {
    const auto start = array_of<int64_t>(trees, "start");
    const auto output = array_of<int32_t>(trees, "output");
    const auto value = array_of<double, 2>(trees, "value");
    const auto sets = array_of<uint64_t>(plan, "sets");
    const auto planes = array_of<int32_t, 2>(plan, "planes");
    const auto n_trees = static_cast<int32_t>(output.size()), width = static_cast<int32_t>(value.shape(1)),
               n_planes = static_cast<int32_t>(planes.shape(0));
    const int n_outputs = nb::cast<int>(trees.attr("n_outputs")), code_bytes = nb::cast<int>(plan.attr("code_bytes"));
    require(has_shape(nodes, value.shape(0), sizeof(EnsembleNode) / sizeof(int32_t)), "one EnsembleNode per node");
    require(has_shape(start, n_trees + 1) && start.data()[0] == 0 &&
                start.data()[n_trees] == static_cast<int64_t>(value.shape(0)),
            "trees begin at the first node and end at the last");
    require(code_bytes == 1 || code_bytes == 2, "codes have 1 or 2 bytes");
    const ForestShape shape{n_trees, n_outputs, width, n_planes, n_players, code_bytes};
    // Python holds the arrays as long as it holds the trees and the plan: until the forest is built.
    const auto* by_node = reinterpret_cast<const EnsembleNode*>(nodes.data());
    return {shape, start.data(), output.data(), by_node, value.data(), sets.data(), sets.size()};
  }

  size_t code_bytes(int64_t n_rows) const { return index(padded(n_rows) * f_.n_planes * f_.code_bytes); }
  template <class Array>
  bool is_row_array(const Array& a, const Codes& codes) const {
    return has_shape(a, f_.n_outputs, padded(codes.n_rows));
  }
  void check(const Paths& table) const { require(&table.arrays.forest() == &f_, "a path table of another forest"); }

  LossInput loss_input(const Codes& codes, int loss, double loss_scale, const In<double, 2>& y,
                       const Maybe<double>& weight, const Out<double, 2>& margin) const {
    require(loss >= Loss::kSquared && loss <= Loss::kSoftmax, "no such loss");
    require(has_shape(y, 1, codes.n_rows) || has_shape(y, f_.n_outputs, codes.n_rows), "y is (1 or outputs, rows)");
    require(is_row_array(margin, codes), "margins are (outputs, padded rows)");
    require(!weight || has_shape(*weight, codes.n_rows), "weights are (rows,)");
    return {{loss, loss_scale}, y.data(),      y.shape(0) == 1 ? 0 : codes.n_rows,
            data_of(weight),    margin.data(), padded(codes.n_rows)};
  }

  const double* row_weights(const Maybe<double, 2>& w, const Codes& codes) const {
    require(!w || (is_row_array(*w, codes) && is_aligned(w->data())), "weights are (outputs, padded rows), aligned");
    return data_of(w);
  }

  const BuiltForest built_;
  const Forest& f_;
  const nb::object plan_;  // holds the arrays of binning_
  const std::vector<Column> columns_;
  const std::vector<Plane> planes_;
  Binning binning_{};
};
}  // namespace treeinner
