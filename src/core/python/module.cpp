// The names that Python sees. Python never sees a pointer and a kernel never sees Python.
#include "shuffle.h"

namespace treeinner {
namespace {

using Limbs = std::optional<Out<int64_t, 2>>;

// sums, squares: limbs, (columns, 5), or None; counts: (columns, 2 x sizes), or None. Returns whether all numbers fit.
bool add_exact(In<double, 2> values, double scale, const Limbs& sums, const Limbs& squares, const Limbs& counts) {
  for (const Limbs* limbs : {&sums, &squares})
    require(!*limbs || has_shape(**limbs, values.shape(1), kLimbs), "limbs are (columns, 5)");
  require(!counts || has_shape(*counts, values.shape(1), kCounts), "counts are (columns, 2 x sizes)");
  bool fits = false;
  Job job;
  job.n_rows = static_cast<int64_t>(values.shape(0));
  run(&Kernels::exact, job,
      ExactArgs{values.data(), static_cast<int64_t>(values.shape(1)), scale, data_of(sums), data_of(squares),
                data_of(counts), &fits});
  return fits;
}
}  // namespace

NB_MODULE(_core, m) {
  using nb::arg;
  m.doc() = "Compiled core of treeinner; use treeinner.compiled.";
  m.def("instruction_sets", &instruction_sets, "Those that this machine can run, slowest first.");
  m.def("instruction_set", [] { return std::string(active->name); }, "The one in use.");
  m.def("use_instruction_set", &use_instruction_set, "An unknown name changes nothing.");
  m.def("add_exact", &add_exact);
  m.attr("SIZES") = nb::make_tuple(kSizeBits, kOffsetBits, kLeastSize, kMostSize);
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
      .def("share_table", &CoreForest::share_table, nb::keep_alive<0, 1>())
      .def("path", &CoreForest::path)
      .def("shap_table", &CoreForest::shap_table, nb::keep_alive<0, 1>())
      .def("shap", &CoreForest::shap)
      .def("residuals", &CoreForest::residuals)
      .def("boost", &CoreForest::boost, arg(), arg(), arg(), arg(), arg(), arg().none(), arg(), arg(), arg().none(),
           arg(), arg().none(), arg().none(), arg().none(), arg(), arg().none(), arg().none(), arg().none())
      .def("redraw", &CoreForest::redraw, arg(), arg(), arg(), arg(), arg(), arg(), arg().none(), arg(), arg(), arg(),
           arg(), arg(), arg())
      .def("split_scores", &CoreForest::split_scores)
      .def("centre_values", &CoreForest::centre_values);
  nb::class_<CoreShuffle>(m, "Shuffle")
      .def(nb::init<const CoreForest&, In<int32_t>, int>(), nb::keep_alive<1, 2>())
      .def("changes", &CoreShuffle::changes);
}
}  // namespace treeinner
