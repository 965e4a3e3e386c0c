// A random model and a random table, and everything that an instruction set makes of them.
#pragma once

#include "random_forest.h"

namespace treeinner {

template <class A, class B>
bool same_bits(const A& a, const B& b) {
  return a.size() == b.size() && (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(*a.data())));
}

struct Case {
  Shape shape;
  Columns columns;
  std::unique_ptr<Model> model;
  Table table;
  int n_rows, padded;
  Array<double> weight, y;
  Array<int64_t> fixed_weight;
};

inline Case random_case(uint64_t seed, const Shape& shape, int n_rows) {
  Random random(seed);
  Columns columns = random_columns(random, shape);
  auto model = random_model(random, shape, columns);
  Table table = random_table(random, columns, n_rows);
  Case c{
      shape, std::move(columns), std::move(model), std::move(table), n_rows, static_cast<int>(padded(n_rows)), {}, {},
      {}};
  for (int i = 0; i < shape.n_outputs * c.padded; ++i) {
    c.y.push_back(random.below(2));
    c.weight.push_back(random.number());
    c.fixed_weight.push_back(static_cast<int64_t>(random.bits()) >> 20);
  }
  return c;
}

struct Boosted {
  Array<double> margin, sums, largest;
  Array<int64_t> leaf_sums, leaf_weights;
};

struct Results {
  Array<char> codes;
  Array<int32_t> leaves;
  Array<double> margins, path, weighted_path, shap, weighted_shap;
  Array<int64_t> leaf_sums;
  std::vector<Boosted> boosted;  // by loss; then squared error with lookups
  Array<double> split_scores, centred;
};

constexpr Loss::Kind kLosses[] = {Loss::kSquared, Loss::kLogistic, Loss::kPoisson, Loss::kSoftmax};
constexpr double kFixedScale = 0x1p20;

// One tree per round.
inline Boosted boosted(const Case& c, const Kernels& k, const Job& job, Loss::Kind kind, const PathTable& paths) {
  const Forest& f = c.model->forest;
  const size_t leaves = index(f.first_leaf[f.n_trees] * f.width);
  Boosted out{Array<double>(index(f.n_outputs * c.padded)), Array<double>(index(c.n_rows * n_places(f))),
              Array<double>(index(c.n_rows)), Array<int64_t>(leaves), Array<int64_t>(leaves)};
  std::vector<int32_t> first_tree;
  for (int32_t tree = 0; tree <= f.n_trees; ++tree) first_tree.push_back(tree);
  const LossInput input{{kind, 1.0}, c.y.data(), c.padded, c.weight.data(), out.margin.data(), c.padded};
  call(k.boost, job,
       BoostArgs{input, f.n_trees, first_tree.data(), kFixedScale, out.leaf_sums.data(), c.fixed_weight.data(),
                 out.leaf_weights.data(), out.largest.data(), &paths, out.sums.data()});
  return out;
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
    call(k.path, job, PathArgs{&c.model->paths->view, residual.data(), sums.data()});
    call(k.margins, job, MarginsArgs{margin.data()});
  }
  return sums;
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
  call(k.path, job, PathArgs{&paths, nullptr, out.path.data()});
  call(k.path, job, PathArgs{&paths, c.weight.data(), out.weighted_path.data()});
  const ShapTree* trees = (shap ? shap : m.shap.get())->trees().data();
  call(k.shap, job, ShapArgs{trees, nullptr, out.shap.data()});
  call(k.shap, job, ShapArgs{trees, c.weight.data(), out.weighted_shap.data()});
  for (const Loss::Kind loss : kLosses) out.boosted.push_back(boosted(c, k, job, loss, paths));
  out.boosted.push_back(boosted(c, k, job, Loss::kSquared, m.paths_by_lookup->view));
  out.split_scores.resize(index(f.first_split[f.n_trees] * f.width));
  out.centred.assign(m.node_value.begin(), m.node_value.end());
  call(k.split_scores, job, SplitScoresArgs{m.node_value.data(), out.leaf_sums.data(), 0.25, out.split_scores.data()});
  call(k.centre_values, job, CentreValuesArgs{out.leaf_sums.data(), out.centred.data()});
  return out;
}

}  // namespace treeinner
