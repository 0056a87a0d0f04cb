// _core.kernels.*_norm: the Python side of normalisation.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "kernels/factories.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

void bind_norm_kernels(py::module_& m) {
    m.def(
        "group_norm",
        [](int64_t n, int64_t channels, int64_t groups, const Dims& spatial, int src_dtype, const Dims& src_strides,
           int dst_dtype, const Dims& dst_strides, double epsilon, bool affine, const Tail& tail) {
            return make_group_norm(
                {n, channels, groups, spatial, src_dtype, src_strides, dst_dtype, dst_strides, affine, epsilon, tail});
        },
        "n"_a, "channels"_a, "groups"_a, "spatial"_a, "src_dtype"_a, "src_strides"_a, "dst_dtype"_a, "dst_strides"_a,
        "epsilon"_a, "affine"_a = false, "tail"_a = Tail(),
        "run(src, [scale, shift,] the tail's operands, dst): each group of channels of each image to mean 0 and "
        "variance 1, then scaled and "
        "shifted by channel (f32). Strides: n, channel, spatial; src and dst are both channels last or both channels "
        "first, with a tail channels last. The same bits for any number of threads.");
    m.def("softmax", make_softmax, "shape"_a, "axis"_a, "src_dtype"_a, "src_strides"_a, "dst_dtype"_a, "dst_strides"_a,
          "logarithm"_a = false,
          "run(src, dst): softmax over an axis, or its logarithm. In both src and dst the elements of the axis are "
          "neighbours, or those of another axis.");
}

}  // namespace dgo
