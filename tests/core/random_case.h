// A random model and a random table, and everything that an instruction set makes of them.
#pragma once

#include "rounds.h"
#include "shuffled.h"

namespace treeinner {

constexpr Loss::Kind kLosses[] = {Loss::kSquared, Loss::kLogistic, Loss::kPoisson, Loss::kSoftmax};
constexpr double kFixedScale = 0x1p20;

// Residuals of the rows, by round or one for all trees, and what they make of centred scores.
struct ShareCase {
  bool weighted;
  Array<double> y;         // (outputs, padded rows)
  Array<double> residual;  // likewise, less the mean of all rows; one for all trees
  Rounds rounds;           // or by round
  Array<double> mean;      // (rounds, outputs)
  oracle::Boosted boosted;
  oracle::Centred centred;
  std::unique_ptr<Shares> plain, table, own;  // table: beside the plain one, the same; own: less half of the squares of
                                              // the steps; null where trees have tops
};

struct Case {
  Shape shape;
  Columns columns;
  std::unique_ptr<Model> model;
  Table table;
  int n_rows, padded;
  Array<char> codes;
  Array<double> weight, y, row_weight;
  Array<int64_t> fixed_weight, fixed_row_weight;
  std::vector<ShareCase> paths, boosts;
};

inline void build_tables(const Case& c, ShareCase& s) {
  const Forest& f = c.model->forest;
  std::vector<double> residual = s.centred.residual;  // less the root's
  for (int tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    for (int64_t i = (2 * t.n_splits + 1) * f.width; i-- > 0;)
      residual[index(t.first_node * f.width + i)] -= residual[index(t.first_node * f.width + i % f.width)];
  }
  const auto make = [&](bool own) {
    return std::make_unique<Shares>(*c.model->built, s.centred.value.data(), residual.data(), kFixedScale, own,
                                    s.plain.get());
  };
  s.plain = make(false);
  s.table = make(false);
  if (f.width == 1 && std::none_of(f.tops, f.tops + f.n_trees, [](const Top& top) { return top.below != nullptr; }))
    s.own = make(true);
}

inline const double* weight_of(const Case& c, const ShareCase& s) { return s.weighted ? c.row_weight.data() : nullptr; }

// One residual for all trees.
inline ShareCase path_case(const Case& c, bool weighted) {
  const Forest& f = c.model->forest;
  ShareCase out;
  out.weighted = weighted, out.residual.resize(c.weight.size());
  const auto weight = [&](int row) { return weighted ? c.row_weight[index(row)] : 1.0; };
  const auto at = [&](int output, int row) { return index(output * c.padded + row); };
  out.centred = oracle::centred(f, c.codes.data(), c.n_rows, weight_of(c, out), [&](int tree, size_t k, int row) {
    return weight(row) * c.weight[at(f.tree_output[tree] + static_cast<int>(k), row)];
  });
  for (int output = 0; output < f.n_outputs; ++output) {
    double sum = 0, total = 0;
    for (int row = 0; row < c.n_rows; ++row) sum += weight(row) * c.weight[at(output, row)], total += weight(row);
    for (int row = 0; row < c.n_rows; ++row)
      out.residual[at(output, row)] = weight(row) * (c.weight[at(output, row)] - sum / total);
  }
  build_tables(c, out);
  return out;
}

// Targets of squared error are far from 0: float32 would lose the digits of residuals that are not counted from a mean.
inline ShareCase boost_case(const Case& c, Loss::Kind loss, bool averaged, bool weighted) {
  const Forest& f = c.model->forest;
  const size_t n = index(c.n_rows), n_outputs = index(f.n_outputs);
  ShareCase out;
  out.weighted = weighted, out.y = c.y, out.rounds = rounds_of(loss, averaged, f.n_trees);
  for (double& y : out.y) y += loss == Loss::kSquared ? 1e5 : 0.0;
  out.boosted = oracle::boost(f, out.rounds, c.codes.data(), c.n_rows, out.y.data(), weight_of(c, out));
  std::vector<size_t> round_of;
  double total = 0;
  for (size_t row = 0; row < n; ++row) total += weighted ? c.row_weight[row] : 1.0;
  for (int round = 0; round < out.rounds.n(); ++round) {
    round_of.resize(index(out.rounds.first_tree[index(round) + 1]), index(round));
    for (size_t k = 0; k < n_outputs; ++k) {
      double sum = 0;
      for (size_t row = 0; row < n; ++row) sum += out.boosted.residual[(index(round) * n_outputs + k) * n + row];
      out.mean.push_back(sum / total);
    }
  }
  out.centred = oracle::centred(f, c.codes.data(), c.n_rows, weight_of(c, out), [&](int tree, size_t k, int row) {
    return out.boosted.residual[(round_of[index(tree)] * n_outputs + index(f.tree_output[tree]) + k) * n + index(row)];
  });
  build_tables(c, out);
  return out;
}

inline Case random_case(uint64_t seed, const Shape& shape, int n_rows) {
  Random random(seed);
  Columns columns = random_columns(random, shape);
  auto model = random_model(random, shape, columns);
  Table table = random_table(random, columns, n_rows);
  Case c;
  c.shape = shape, c.n_rows = n_rows, c.padded = static_cast<int>(padded(n_rows));
  c.columns = std::move(columns), c.model = std::move(model), c.table = std::move(table);
  for (int i = 0; i < shape.n_outputs * c.padded; ++i) {
    c.y.push_back(random.below(2));
    c.weight.push_back(random.number());
    c.fixed_weight.push_back(static_cast<int64_t>(random.bits()) >> 20);
  }
  for (int row = 0; row < n_rows; ++row) {  // fixed-point integers hold them
    c.row_weight.push_back(row && random.chance(0.1) ? 0.0 : (1 + random.below(1000)) / 256.0);
    c.fixed_row_weight.push_back(static_cast<int64_t>(c.row_weight.back() * kFixedScale));
  }
  const Forest& f = c.model->forest;
  c.codes.resize(index(int64_t{c.padded} * f.n_planes * f.code_bytes));
  call(baseline::kernels.bin, {&f, c.codes.data(), n_rows, 0, f.n_trees},
       BinArgs{&c.columns.binning, c.table.values.data(), c.codes.data()});
  for (const bool weighted : {false, true}) c.paths.push_back(path_case(c, weighted));
  for (const bool weighted : {false, true}) c.boosts.push_back(boost_case(c, Loss::kSquared, false, weighted));
  for (const Loss::Kind loss : kLosses) c.boosts.push_back(boost_case(c, loss, true, true));
  return c;
}

struct Boosted {
  Array<double> margin, sums, fixed_sums, largest, first_order, so_far, put_back;
  Array<int64_t> leaf_sums, leaf_weights;
};

struct Results {
  Array<char> codes;
  Array<int32_t> leaves;
  Array<double> margins, path, weighted_path, shap, weighted_shap;
  Array<int64_t> leaf_sums;
  std::vector<Boosted> boosted;     // by loss
  std::vector<Boosted> some_trees;  // squared error, every second tree alone: one
  Array<double> split_scores, centred;
  Array<double> permuted;                        // as in shuffled.h
  std::vector<Array<double>> residuals;          // by loss, at the margins
  std::vector<Array<double>> shares;             // by path, of each case
  std::vector<Boosted> first_pass, second_pass;  // of each case: leaf sums alone; shares alone
  std::vector<Boosted> effects;                  // by loss, own effects put back; then squared error without a history
  Array<double> contributions, squares;          // of the same case
  std::vector<Array<double>> centred_values, centred_scores;
};

inline Boosted no_boosted(const Case& c) {
  const Forest& f = c.model->forest;
  const size_t leaves = index(f.first_leaf[f.n_trees] * f.width), rows = index(c.n_rows);
  return {Array<double>(index(f.n_outputs * c.padded)),
          Array<double>(rows * index(n_places(f))),
          {},
          Array<double>(rows),
          Array<double>(rows),
          {},
          {},
          Array<int64_t>(leaves),
          Array<int64_t>(leaves)};
}

// One tree per round.
inline Boosted boosted(const Case& c, const Kernels& k, const Job& job, Loss::Kind kind, const PathTable& paths) {
  const Forest& f = c.model->forest;
  Boosted out = no_boosted(c);
  std::vector<int32_t> first_tree;
  for (int32_t tree = 0; tree <= f.n_trees; ++tree) first_tree.push_back(tree);
  const LossInput input{{kind, 1.0}, c.y.data(), c.padded, c.weight.data(), out.margin.data(), c.padded};
  BoostArgs args{input, f.n_trees, first_tree.data(), kFixedScale};
  args.leaf_sums = out.leaf_sums.data(), args.leaf_weights = out.leaf_weights.data();
  args.fixed_weights = c.fixed_weight.data(), args.largest = out.largest.data();
  args.paths = &paths, args.sums = out.sums.data();
  call(k.boost, job, args);
  return out;
}

// Every second tree, one per round; what the others add to the margins is told. The margins' last ones are not.
inline Boosted some_trees_boosted(const Case& c, const Kernels& k, const Job& job) {
  const Forest& f = c.model->forest;
  Boosted out = no_boosted(c);
  const size_t size = out.margin.size();
  std::vector<int32_t> trees, first_tree{0};
  Array<double> moved;
  for (int32_t tree = 1; tree < f.n_trees; tree += 2) {
    trees.push_back(tree), first_tree.push_back(static_cast<int32_t>(trees.size()));
    moved.resize(trees.size() * size);
    call(k.margins, Job{&f, job.codes, c.n_rows, tree - 1, 1}, MarginsArgs{moved.data() + (trees.size() - 1) * size});
  }
  const LossInput input{{Loss::kSquared, 1.0}, c.y.data(), c.padded, c.weight.data(), out.margin.data(), c.padded};
  BoostArgs args{input, static_cast<int32_t>(trees.size()), first_tree.data(), kFixedScale};
  args.leaf_sums = out.leaf_sums.data(), args.leaf_weights = out.leaf_weights.data();
  args.fixed_weights = c.fixed_weight.data(), args.largest = out.largest.data();
  args.trees = trees.data(), args.moved = moved.data();
  call(k.boost, job, args);
  return out;
}

// The first pass sums in the leaves, without paths; the second, with shares, does not.
inline Boosted boosted(const Case& c, const Kernels& k, const Job& job, const ShareCase& s, bool shares) {
  Boosted out = no_boosted(c);
  const Rounds& rounds = s.rounds;
  const LossInput input{{rounds.loss, 1.0}, s.y.data(), c.padded, weight_of(c, s), out.margin.data(), c.padded};
  BoostArgs args{input, rounds.n(), rounds.first_tree.data(), kFixedScale};
  args.largest = out.largest.data();
  if (shares) {
    out.fixed_sums.resize(out.sums.size());
    args.paths = &s.table->view, args.fixed = &s.plain->view, args.sums = out.sums.data(),
    args.fixed_sums = out.fixed_sums.data();
    args.mean_residual = s.mean.data(), args.row_weight = weight_of(c, s);
  } else {
    args.leaf_sums = out.leaf_sums.data();
    if (s.weighted) args.fixed_weights = c.fixed_row_weight.data(), args.leaf_weights = out.leaf_weights.data();
  }
  if (rounds.averaged) {
    args.first_point = rounds.first_point.data(), args.point = rounds.point.data();
    args.point_weight = rounds.point_weight.data(), args.first_order = out.first_order.data();
  }
  call(k.boost, job, args);
  return out;
}

constexpr size_t kEffects = 1;  // the case of weighted rows whose own effects are put back, one tree per round

inline Boosted with_effects(const Case& c, const Kernels& k, const Job& job, Loss::Kind loss, const Shares& table,
                            bool history) {
  const ShareCase& s = c.boosts[kEffects];
  Boosted out = no_boosted(c);
  out.so_far.resize(out.sums.size()), out.put_back.resize(history ? out.sums.size() : 0);
  const LossInput input{{loss, 1.0}, s.y.data(), c.padded, weight_of(c, s), out.margin.data(), c.padded};
  BoostArgs args{input, s.rounds.n(), s.rounds.first_tree.data(), kFixedScale};
  args.largest = out.largest.data(), args.paths = &table.view, args.sums = out.sums.data();
  args.mean_residual = s.mean.data(), args.row_weight = weight_of(c, s);
  out.fixed_sums.resize(out.sums.size()), args.fixed = &s.plain->view, args.fixed_sums = out.fixed_sums.data();
  args.effect = {out.so_far.data(), history ? out.put_back.data() : nullptr};
  call(k.boost, job, args);
  return out;
}

inline void add_effects(const Case& c, const Kernels& k, const Job& job, Results& out) {
  const ShareCase& s = c.boosts[kEffects];
  for (const Loss::Kind loss : kLosses) out.effects.push_back(with_effects(c, k, job, loss, *s.table, true));
  const Paths paths(*c.model->built, s.centred.value.data(), false);
  out.contributions.resize(out.effects[0].so_far.size());
  call(k.path, job, PathArgs{&paths.view, nullptr, nullptr, out.contributions.data()});
  if (!s.own) return;
  out.effects.push_back(with_effects(c, k, job, Loss::kSquared, *s.own, false));
  out.squares.resize(index(n_places(c.model->forest)));
  call(k.squares, job, SquaresArgs{&paths.view, out.first_pass[kEffects].leaf_weights.data(), out.squares.data()});
}

// Leaf sums -> node means -> what each split adds to the centred score.
inline void add_centred(const Case& c, const Kernels& k, const Job& job, Results& out) {
  const Forest& f = c.model->forest;
  const Boosted& sums = out.first_pass.back();
  Array<double> value(index(n_nodes(f) * f.width)), scores(index(f.first_split[f.n_trees] * f.width));
  for (int tree = 0; tree < f.n_trees; ++tree) {
    const Tree t = tree_of(f, tree);
    const double* from = f.leaf_value + t.first_leaf * f.width;
    std::copy(from, from + (t.n_splits + 1) * f.width, value.data() + (t.first_node + t.n_splits) * f.width);
  }
  call(k.centre_values, job, CentreValuesArgs{sums.leaf_weights.data(), value.data()});
  call(k.split_scores, job, SplitScoresArgs{value.data(), sums.leaf_sums.data(), 1 / kFixedScale, scores.data()});
  out.centred_values.push_back(std::move(value)), out.centred_scores.push_back(std::move(scores));
}

// Row scores of squared error: margins and weighted paths, tree by tree, in float64.
inline Array<double> boosted_sums(const Case& c, const Kernels& k, const void* codes) {
  const Forest& f = c.model->forest;
  const size_t padded = index(c.padded), outputs = index(f.n_outputs);
  Array<double> margin(outputs * padded), residual(outputs * padded), sums(index(c.n_rows * n_places(f)));
  for (int tree = 0; tree < f.n_trees; ++tree) {
    for (size_t output = 0; output < outputs; ++output)
      for (size_t r = 0; r < index(c.n_rows); ++r)
        residual[output * padded + r] = (c.y[output * padded + r] - margin[output * padded + r]) * c.weight[r];
    const Job job{&f, codes, c.n_rows, tree, 1};
    call(k.path, job, PathArgs{&c.model->paths->view, residual.data(), nullptr, sums.data()});
    call(k.margins, job, MarginsArgs{margin.data()});
  }
  return sums;
}

inline Array<double> residuals_at(const Case& c, const Kernels& k, const Job& job, Loss::Kind kind,
                                  Array<double>& margin) {
  Array<double> out(margin.size());
  const LossInput input{{kind, 1.0}, c.y.data(), c.padded, c.row_weight.data(), margin.data(), c.padded};
  call(k.residuals, job, ResidualsArgs{input, out.data()});
  return out;
}

inline Results results(const Case& c, const Kernels& k, const ShapArrays* shap = nullptr) {
  const Model& m = *c.model;
  const Forest& f = m.forest;
  const size_t rows = index(c.padded), leaves = index(f.first_leaf[f.n_trees] * f.width);
  Results out;
  out.codes.resize(rows * index(f.n_planes * f.code_bytes));
  out.leaves.resize(index(c.n_rows * f.n_trees));
  out.margins.resize(rows * index(f.n_outputs));
  for (Array<double>* a : {&out.shap, &out.weighted_shap}) a->resize(rows * index(n_places(f)));
  for (Array<double>* a : {&out.path, &out.weighted_path}) a->resize(index(c.n_rows * n_places(f)));
  out.leaf_sums.resize(leaves);

  const Job job{&f, out.codes.data(), c.n_rows, 0, f.n_trees};
  call(k.bin, job, BinArgs{&c.columns.binning, c.table.values.data(), out.codes.data()});
  call(k.leaves, job, LeavesArgs{out.leaves.data()});
  call(k.margins, job, MarginsArgs{out.margins.data()});
  call(k.leaf_sums, job, LeafSumsArgs{c.fixed_weight.data(), out.leaf_sums.data()});
  const PathTable& paths = m.paths->view;
  call(k.path, job, PathArgs{&paths, nullptr, nullptr, out.path.data()});
  call(k.path, job, PathArgs{&paths, c.weight.data(), nullptr, out.weighted_path.data()});
  const ShapTree* trees = (shap ? shap : m.shap.get())->trees().data();
  call(k.shap, job, ShapArgs{trees, nullptr, out.shap.data()});
  call(k.shap, job, ShapArgs{trees, c.weight.data(), out.weighted_shap.data()});
  out.permuted = permuted(f, k, out.codes, c.n_rows);
  for (const Loss::Kind loss : kLosses) out.residuals.push_back(residuals_at(c, k, job, loss, out.margins));
  for (const Loss::Kind loss : kLosses) out.boosted.push_back(boosted(c, k, job, loss, paths));
  out.some_trees.push_back(some_trees_boosted(c, k, job));
  out.split_scores.resize(index(f.first_split[f.n_trees] * f.width));
  out.centred.assign(m.node_value.begin(), m.node_value.end());
  call(k.split_scores, job, SplitScoresArgs{m.node_value.data(), out.leaf_sums.data(), 0.25, out.split_scores.data()});
  call(k.centre_values, job, CentreValuesArgs{out.leaf_sums.data(), out.centred.data()});
  for (const ShareCase& s : c.paths) {
    out.shares.emplace_back(index(c.n_rows * n_places(f)));
    call(k.path, job, PathArgs{&s.table->view, s.residual.data(), weight_of(c, s), out.shares.back().data()});
  }
  for (const ShareCase& s : c.boosts) {
    out.first_pass.push_back(boosted(c, k, job, s, false));
    out.second_pass.push_back(boosted(c, k, job, s, true));
    add_centred(c, k, job, out);
  }
  add_effects(c, k, job, out);
  return out;
}

}  // namespace treeinner
