// _core.kernels: the Python side of normalisation, softmax and attention.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/rotary.hpp"
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
    m.def("rms_norm", make_rms_norm, "rows"_a, "width"_a, "src_dtype"_a, "src_pitch"_a, "dst_dtype"_a, "dst_pitch"_a,
          "epsilon"_a, "scaled"_a = false,
          "run(src, [scale, f32,] dst): rows divided by the roots of their mean squares plus epsilon, and scaled.");
    m.def(
        "rotary",
        [](const Dims& shape, int64_t half, const std::vector<Dims>& strides, bool interleaved, bool whole) {
            return make_rotary({shape, half, strides, interleaved, whole});
        },
        "shape"_a, "half"_a, "strides"_a, "interleaved"_a = false, "whole"_a = false,
        "run(src, cos, sin, dst), f32: pairs (a, b) of 2 * half neighbours become a cos - b sin and b cos + a sin; "
        "they "
        "are i and half + i, or, interleaved, 2 i and 2 i + 1. whole: cos and sin have further numbers for the second "
        "of each pair. Strides of each operand for the axes of shape.");
    m.def(
        "attention",
        [](const Dims& batch, int64_t rows, int64_t keys, int64_t depth, int64_t width, const Dims& q, const Dims& k,
           const Dims& v, const std::vector<Dims>& masks, const Dims& dst, double scale, bool zeros, const Dims& seen) {
            return make_attention({batch, rows, keys, depth, width, q, k, v, masks, dst, scale, zeros, seen});
        },
        "batch"_a, "rows"_a, "keys"_a, "depth"_a, "width"_a, "q"_a, "k"_a, "v"_a, "masks"_a, "dst"_a, "scale"_a = 1.0,
        "zeros"_a = false, "seen"_a = Dims{},
        "run(q, k, v, masks..., dst), f32: dst = softmax(scale * q k' + the masks) v. Strides of each: the batch's "
        "axes, "
        "then row and depth of q, key and depth of k, key and width of v, row and key of a mask, row and width of dst. "
        "zeros: rows of NaN become zeros; seen: of each row, the keys from the first on that count at all.");
}

}  // namespace dgo
