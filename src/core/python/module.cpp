// The names that Python sees. Python never sees a pointer and a kernel never sees Python.
#include "shuffle.h"

namespace treeinner {
namespace {

using Sums = std::optional<nb::ndarray<int64_t, nb::c_contig, nb::device::cpu>>;

// Adds the columns of values times scale, and their powers, to limbs or None: (columns, 3 to 10), of fourth powers 10;
// with the cluster of each row, (clusters, columns, ...). order: which rows of the values. Returns whether all fit.
bool add_exact(In<double, 2> values, double scale, const Sums& sums, const Sums& squares, const Sums& fourths,
               const Maybe<int64_t>& cluster, const Maybe<int64_t>& order) {
  const auto n_rows = static_cast<int64_t>(order ? order->size() : values.shape(0));
  const auto n_columns = static_cast<int64_t>(values.shape(1));
  for (int64_t row = 0; order && row < n_rows; ++row)
    require(static_cast<uint64_t>(order->data()[row]) < values.shape(0), "an order is of rows");
  require(!cluster || has_shape(*cluster, n_rows), "clusters are (rows,)");
  const auto limbs_of = [&](const Sums& a, size_t least) {
    if (!a) return Limbs{};
    const size_t axis = cluster ? 1 : 0;
    require(a->ndim() == axis + 2 && static_cast<int64_t>(a->shape(axis)) == n_columns,
            "limbs are (columns, limbs), of clusters (clusters, columns, limbs)");
    for (int64_t row = 0; cluster && row < n_rows; ++row)
      require(static_cast<uint64_t>(cluster->data()[row]) < a->shape(0), "every cluster has limbs");
    const size_t n = a->shape(axis + 1);
    require(n >= least && n <= kMostLimbs, "numbers and squares have 3 to 10 limbs, fourth powers 10");
    return Limbs{a->data(), static_cast<int>(n)};
  };
  bool fits = false;
  Job job;
  job.n_rows = n_rows;
  run(&Kernels::exact, job,
      ExactArgs{values.data(), n_columns, scale, limbs_of(sums, kLeastLimbs), limbs_of(squares, kLeastLimbs),
                limbs_of(fourths, kMostLimbs), data_of(cluster), data_of(order), &fits});
  return fits;
}
}  // namespace

NB_MODULE(_core, m) {
  using nb::arg;
  nb::set_leak_warnings(false);  // threads of Dask that outlive the interpreter keep objects: no leak of ours
  m.doc() = "Compiled core of treeinner; use treeinner.kernels.";
  m.def("instruction_sets", &instruction_sets, "Those that this machine can run, slowest first.");
  m.def("instruction_set", [] { return std::string(active->name); }, "The one in use.");
  m.def("use_instruction_set", &use_instruction_set, "An unknown name changes nothing.");
  // Not into a converted copy.
  m.def("add_exact", &add_exact, arg(), arg(), arg().noconvert(), arg().noconvert(),
        arg("fourths").noconvert() = nb::none(), arg("cluster") = nb::none(), arg("order") = nb::none());
  m.attr("FOURTH_SCALE") = kFourthScale;
  m.attr("SLICE_ROWS") = kSlice;
  nb::class_<Paths>(m, "PathTable");
  nb::class_<Shares, Paths>(m, "ShareTable");
  nb::class_<ShapArrays>(m, "ShapTable");
  nb::class_<Codes>(m, "Codes").def_ro("n_rows", &Codes::n_rows).def("bytes", [](nb::handle self) {
    Buffer& data = nb::cast<Codes&>(self).data;
    return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(data.data(), {data.size()}, self);
  });
  nb::class_<CoreForest>(m, "Forest")
      .def(nb::init<const nb::object&, const nb::object&, In<int32_t, 2>, int>())
      .def("numbered", &CoreForest::numbered)
      .def("new_codes", &CoreForest::new_codes)
      .def("bin", &CoreForest::bin)
      .def("leaves", &CoreForest::leaves)
      .def("margins", &CoreForest::margins)
      .def("leaf_sums", &CoreForest::leaf_sums)
      .def("path_table", &CoreForest::path_table, nb::keep_alive<0, 1>())
      .def("share_table", &CoreForest::share_table, nb::keep_alive<0, 1>(), arg(), arg(), arg(), arg(), arg().none())
      .def("squares", &CoreForest::squares)
      .def("path", &CoreForest::path)
      .def("shap_table", &CoreForest::shap_table, nb::keep_alive<0, 1>())
      .def("shap", &CoreForest::shap)
      .def("residuals", &CoreForest::residuals)
      .def("boost", &CoreForest::boost, arg(), arg(), arg(), arg(), arg(), arg().none(), arg(), arg(), arg().none(),
           arg(), arg().none(), arg().none(), arg().none(), arg(), arg().none(), arg().none(), arg().none(),
           arg().none(), arg().none())
      .def("redraw", &CoreForest::redraw, arg(), arg(), arg(), arg(), arg(), arg(), arg().none(), arg(), arg(), arg(),
           arg(), arg(), arg())
      .def("split_scores", &CoreForest::split_scores)
      .def("centre_values", &CoreForest::centre_values);
  nb::class_<CoreShuffle>(m, "Shuffle")
      .def(nb::init<const CoreForest&, In<int32_t>, int>(), nb::keep_alive<1, 2>())
      .def("changes", &CoreShuffle::changes);
}
}  // namespace treeinner
