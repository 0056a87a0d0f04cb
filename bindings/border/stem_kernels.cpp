// _core.kernels.stem_*: the Python side of layers of few channels.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "kernels/factories.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

void bind_stem_kernels(py::module_& m) {
    m.def("stem_refusal", stem_refusal, "layer"_a,
          "Why stem_product does not compute a layer whose dst has c channels; empty if it does.");
    m.def("stem_packed_size", stem_packed_size, "layer"_a, "channels"_a, "f32 elements of the packed weights.");
    m.def("stem_pack", make_stem_pack, "layer"_a, "channels"_a, "weights_dtype"_a, "weights_strides"_a,
          "run(weights, packed). Strides: channel of src, channel of dst, kernel.");
    m.def(
        "stem_product",
        [](const LayerSizes& layer, int64_t channels, int diff_dst_dtype, const Dims& diff_dst_strides,
           int diff_src_dtype, const Dims& diff_src_strides, int bias_dtype, const Tail& tail) {
            return make_stem_product(
                {layer, channels, diff_dst_dtype, diff_dst_strides, diff_src_dtype, diff_src_strides}, bias_dtype != 0,
                bias_dtype != 0 ? bias_dtype : kF32, tail);
        },
        "layer"_a, "channels"_a, "diff_dst_dtype"_a, "diff_dst_strides"_a, "diff_src_dtype"_a, "diff_src_strides"_a,
        "bias_dtype"_a = 0, "tail"_a = Tail(),
        "run(diff_dst, packed, [bias,] the tail's, diff_src): backward data of a layer whose dst has c channels, few, "
        "and src so "
        "many. Strides: n, channel, spatial; bias_dtype 0 means none. Sums are f32.");
    m.def(
        "stem_gradient",
        [](const LayerSizes& layer, int64_t channels, int src_dtype, const Dims& src_strides, int diff_dst_dtype,
           const Dims& diff_dst_strides, int weights_dtype, const Dims& weights_strides) {
            return make_stem_gradient({layer, channels, diff_dst_dtype, diff_dst_strides, src_dtype, src_strides},
                                      weights_dtype, weights_strides);
        },
        "layer"_a, "channels"_a, "src_dtype"_a, "src_strides"_a, "diff_dst_dtype"_a, "diff_dst_strides"_a,
        "weights_dtype"_a, "weights_strides"_a,
        "run(src, diff_dst, diff_weights): backward weights of the same layers; the same sums for the same number of "
        "threads.");
}

}  // namespace dgo
