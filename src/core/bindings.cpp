// The boundary: check shapes, release the GIL, call. Python never sees a pointer and a kernel never sees Python.
#include "core_forest.h"
#include "core_shuffle.h"
#include "leaf_scores.h"

namespace treeinner {
namespace {

void preorder_of(In<int64_t> tree_start, In<int32_t> left, In<int32_t> right, Out<int32_t> order, Out<int32_t> depth) {
  const size_t n = left.size();
  require(right.size() == n && order.size() == n && depth.size() == n, "one entry per node");
  preorder(tree_start.data(), static_cast<int64_t>(tree_start.size()) - 1, left.data(), right.data(), order.data(),
           depth.data());
}

void shap_splits_of(In<int64_t> tree_start, In<int32_t> left, In<int32_t> right, In<double> cover, In<int32_t> order,
                    In<int32_t> depth, In<int32_t> number, In<int32_t> player, int n_players, Out<uint8_t> splits,
                    Out<int32_t, 2> kinds, Out<int32_t> distinct) {
  const size_t n = left.size(), n_trees = tree_start.size() - 1;
  require(splits.size() == (n - n_trees) / 2 * sizeof(ShapSplit), "one entry per split");
  require(distinct.size() == n_trees && kinds.size() == 4 * n_trees, "one entry per tree");
  require(right.size() == n && cover.size() == n && order.size() == n && depth.size() == n && number.size() == n &&
              player.size() == n,
          "one entry per node");
  shap_splits(tree_start.data(), static_cast<int64_t>(n_trees), left.data(), right.data(), cover.data(), order.data(),
              depth.data(), number.data(), player.data(), n_players, reinterpret_cast<ShapSplit*>(splits.data()),
              kinds.data(), distinct.data());
}

// Each of the four: limbs, (columns, 5), or None.
bool add_exact(In<double, 2> values, double scale, const nb::object& sums, const nb::object& squares,
               const nb::object& small_fourths, const nb::object& large_fourths) {
  const auto limbs = [&](const nb::object& array) -> int64_t* {
    if (array.is_none()) return nullptr;
    const auto out = nb::cast<Out<int64_t, 2>>(array);
    require(out.shape(0) == values.shape(1) && out.shape(1) == kLimbs, "limbs are (columns, 5)");
    return out.data();
  };
  const PowerLimbs to{limbs(sums), limbs(squares), limbs(small_fourths), limbs(large_fourths)};
  const double* from = values.data();
  const int64_t n_rows = static_cast<int64_t>(values.shape(0)), n_columns = static_cast<int64_t>(values.shape(1));
  nb::gil_scoped_release release;
  return active->exact(from, n_rows, n_columns, scale, to);
}

void require_nodes(const CoreForest& forest, const Out<double, 2>& value, const In<int64_t, 2>& leaves) {
  const Forest& f = forest.forest();
  const size_t n_leaves = static_cast<size_t>(f.first_leaf[f.n_trees]), width = static_cast<size_t>(f.width);
  require(leaves.shape(0) == n_leaves && leaves.shape(1) == width, "leaf sums are (leaves, width)");
  require(value.shape(0) == n_leaves + static_cast<size_t>(f.first_split[f.n_trees]) && value.shape(1) == width,
          "node values are (nodes, width)");
}

void split_scores_of(const CoreForest& forest, Out<double, 2> value, In<int64_t, 2> leaf_sums, double unit,
                     Out<double, 2> out) {
  require_nodes(forest, value, leaf_sums);
  const Forest& f = forest.forest();
  require(out.shape(0) == static_cast<size_t>(f.first_split[f.n_trees]) && out.shape(1) == value.shape(1),
          "scores are (splits, width)");
  split_scores(f, value.data(), leaf_sums.data(), unit, out.data());
}

void centre_values_of(const CoreForest& forest, In<int64_t, 2> leaf_weights, Out<double, 2> value) {
  require_nodes(forest, value, leaf_weights);
  centre_values(forest.forest(), leaf_weights.data(), value.data());
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Compiled core of treeinner; use treeinner.compiled.";
  use_level("");
  m.def("levels", &level_names, "Instruction sets this machine can run, slowest first.");
  m.def("use_level", &use_level, "Choose a level; an unknown name changes nothing. Returns the one in use.");
  m.def("preorder", &preorder_of);
  m.def("shap_splits", &shap_splits_of);
  m.def("add_exact", &add_exact, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
        nb::arg().none());
  m.attr("SHAP_SPLIT_BYTES") = sizeof(ShapSplit);
  m.attr("FOURTHS_EXPONENTS") = nb::make_tuple(kSmallFourths, kLargeFourths);
  m.attr("SWEEP_ROWS") = kSweepRows;
  nb::class_<CorePath>(m, "PathTable");
  nb::class_<Codes>(m, "Codes").def_ro("n_rows", &Codes::n_rows);
  nb::class_<CoreShuffle>(m, "CoreShuffle")
      .def(nb::init<const CoreForest&, In<int32_t>, int>(), nb::keep_alive<1, 2>())
      .def("gather", &CoreShuffle::gather)
      .def("changes", &CoreShuffle::changes);
  nb::class_<CoreForest>(m, "CoreForest")
      .def(nb::init<In<int32_t, 2>, In<int64_t>, In<int64_t>, In<int32_t>, In<double, 2>, In<int32_t>, In<uint64_t>,
                    int, int, int, int, int>())
      .def("set_binning", &CoreForest::set_binning)
      .def("set_shap", &CoreForest::set_shap)
      .def("bin", &CoreForest::bin)
      .def("leaves", &CoreForest::leaves)
      .def("margins", &CoreForest::margins)
      .def("leaf_sums", &CoreForest::leaf_sums)
      .def("path_table", &CoreForest::path_table)
      .def("path", &CoreForest::path, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg())
      .def("boost", &CoreForest::boost, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg())
      .def("push", &CoreForest::push, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
           nb::arg())
      .def("split_scores", &split_scores_of)
      .def("centre_values", &centre_values_of)
      .def("shap", &CoreForest::shap, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg());
}

}  // namespace treeinner
