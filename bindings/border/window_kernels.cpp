// _core.kernels.pool, resample and reduce.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "common/error.hpp"
#include "kernels/factories.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {
namespace {

Fold fold_of(const std::string& name) {
    if (name == "sum" || name == "mean") return Fold::sum;
    if (name == "max") return Fold::max;
    if (name == "min") return Fold::min;
    fail(ErrorKind::invalid_argument, "reduce: '" + name + "' is none of sum, mean, max and min");
}

}  // namespace

void bind_window_kernels(py::module_& m) {
    m.def(
        "pool",
        [](int64_t n, int64_t c, const Dims& src_spatial, const Dims& dst_spatial, const Dims& kernel,
           const Dims& strides, const Dims& pads_begin, const Dims& pads_end, const Dims& dilations, int dtype,
           const Dims& src_strides, const Dims& dst_strides, bool average, bool exclude_pad) {
            return make_pool({n, c, src_spatial, dst_spatial, kernel, strides, pads_begin, pads_end, dilations, dtype,
                              src_strides, dst_strides, average, exclude_pad});
        },
        "n"_a, "c"_a, "src_spatial"_a, "dst_spatial"_a, "kernel"_a, "strides"_a, "pads_begin"_a, "pads_end"_a,
        "dilations"_a, "dtype"_a, "src_strides"_a, "dst_strides"_a, "average"_a, "exclude_pad"_a,
        "run(src, dst): the largest of each window, or the mean. Strides: n, c, spatial; channels lie side by side.");
    m.def(
        "resample",
        [](int64_t n, int64_t c, const Dims& src_spatial, const Dims& dst_spatial, int dtype, const Dims& src_strides,
           const Dims& dst_strides, bool linear, bool align_corners) {
            return make_resample(
                {n, c, src_spatial, dst_spatial, dtype, src_strides, dst_strides, linear, align_corners});
        },
        "n"_a, "c"_a, "src_spatial"_a, "dst_spatial"_a, "dtype"_a, "src_strides"_a, "dst_strides"_a, "linear"_a,
        "align_corners"_a,
        "run(src, dst): linear between, or the nearest of, the elements. Strides: n, c, spatial; channels lie side by "
        "side.");
    m.def(
        "reduce",
        [](const std::string& kind, const Dims& shape, const std::vector<bool>& reduced, int dtype,
           const Dims& src_strides, const Dims& dst_strides) {
            return make_reduce({shape, reduced, dtype, src_strides, dst_strides, fold_of(kind), kind == "mean"});
        },
        "kind"_a, "shape"_a, "reduced"_a, "dtype"_a, "src_strides"_a, "dst_strides"_a,
        "run(src, dst): sum, mean, max or min over the axes that are `reduced`, none of size 0. The strides of dst on "
        "these do not count.");
}

}  // namespace dgo
