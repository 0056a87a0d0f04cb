// Makers of kernels. Data types are numbers of dnnl_data_type_t, strides count elements; bad arguments raise
// NativeError. The comment of each names the operands of run().
#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/tail/tail.hpp"
#include "kernels/window/fold.hpp"

namespace dgo {

using Dims = std::vector<int64_t>;

// src, dst
std::shared_ptr<Kernel> make_copy(const Dims& shape, int src_dtype, const Dims& src_strides, int dst_dtype,
                                  const Dims& dst_strides);

// dst
std::shared_ptr<Kernel> make_fill(const Dims& shape, int dtype, const Dims& strides, double value);

// bias, dst: dst[...] = bias[index on `axis`]
std::shared_ptr<Kernel> make_fill_channel(const Dims& shape, int dtype, const Dims& dst_strides, int axis,
                                          int bias_dtype);

// shape, data type (f32, bf16 or f16), strides
using ScanItem = std::tuple<Dims, int, Dims>;

// one source for each item, then one s32: 1 if any element is Inf or NaN, else 0
std::shared_ptr<Kernel> make_scan(const std::vector<ScanItem>& items);

// shape, source offset, source strides, destination offset, destination strides
using CopyItem = std::tuple<Dims, int64_t, Dims, int64_t, Dims>;

// src, dst: dst[0:zero_elements] = 0, then every item in order
std::shared_ptr<Kernel> make_copy_list(const std::vector<CopyItem>& items, int src_dtype, int dst_dtype,
                                       int64_t zero_elements);

// The sizes of a layer that treats its channels alike; src and dst are those of the transposed convolution in all
// directions.
struct LayerSizes {
    int64_t n, c;
    Dims src_spatial, dst_spatial, kernel, strides, pads_begin, dilations;
};

// A depthwise layer: every channel has its own kernel. Element strides in the order n, c, spatial for src and
// dst, c, kernel for the weights.
struct DepthwiseProblem : LayerSizes {
    int dtype;  // of all tensors: f32, bf16 or f16; sums are f32
    Dims src_strides, weights_strides, dst_strides;
    // channels of a group, as many in as out; above 1 src and dst must be channels last, and the weights' strides are
    // those of group, in channel, out channel, kernel
    int64_t width = 1;
};

// Whether groups of so many of all channels have kernels here.
bool gathers_groups(int64_t channels, int64_t width);

struct GatherOptions {
    bool has_bias;
    int bias_dtype;
    bool packed;  // the weights are what the kernel of make_depthwise_packing wrote
    Tail tail;    // f32 only
};

// src, weights, [bias,] the tail's, dst
std::shared_ptr<Kernel> make_depthwise_forward(const DepthwiseProblem& problem, const GatherOptions& options);

// diff_dst, weights, [bias,] the tail's, diff_src; bias and tail are those of an ordinary convolution
std::shared_ptr<Kernel> make_depthwise_backward_data(const DepthwiseProblem& problem, const GatherOptions& options);

// weights, packed weights (f32) for one of the directions above; how many floats these are, the shape and strides of
// what is copied there
std::tuple<std::shared_ptr<Kernel>, int64_t, Dims, Dims> make_depthwise_packing(const DepthwiseProblem& problem,
                                                                                bool forward);

// src, diff_dst, diff_weights
std::shared_ptr<Kernel> make_depthwise_backward_weights(const DepthwiseProblem& problem);

// The first layer of a network, or any ordinary convolution of few channels: the backward data of a transposed one. dst is
// its image of c channels, which are few, src its results, of `channels`. Strides: n, channel, spatial for src and dst.
struct StemProblem : LayerSizes {
    int64_t channels;
    int dst_dtype;
    Dims dst_strides;
    int src_dtype;
    Dims src_strides;
};

// Why stem_product does not compute a layer of c channels, or empty.
std::string stem_refusal(const LayerSizes& layer);

// Elements (f32) of the packed weights.
int64_t stem_packed_size(const LayerSizes& layer, int64_t channels);

// weights, packed. Strides: channel of src, channel of dst, kernel.
std::shared_ptr<Kernel> make_stem_pack(const LayerSizes& layer, int64_t channels, int dtype, const Dims& strides);

// diff_dst, packed, [bias,] the tail's, diff_src; bias and tail are those of an ordinary convolution
std::shared_ptr<Kernel> make_stem_product(const StemProblem& problem, bool has_bias, int bias_dtype, const Tail& tail);

// src, diff_dst, diff_weights. Strides as of make_stem_pack.
std::shared_ptr<Kernel> make_stem_gradient(const StemProblem& problem, int weights_dtype, const Dims& weights_strides);

// The columns of a transposed convolution: col[n, source position, kernel position, c], with strides in the
// order n, source axes, kernel axes, c. Strides of dst: n, c, spatial.
struct ColumnsProblem : LayerSizes {
    int col_dtype;
    Dims col_strides;
    int dst_dtype;
    Dims dst_strides;
};

// dst, col: col = the positions of dst that every source position meets, zero where there is none
std::shared_ptr<Kernel> make_im2col(const ColumnsProblem& problem);

// col, [bias,] the tail's, dst: dst = bias + the sum of all columns that meet a position; col is f32
std::shared_ptr<Kernel> make_overlap_add(const ColumnsProblem& problem, bool has_bias, int bias_dtype,
                                         const Tail& tail);

// Whether make_overlap_add takes a tail for so many channels and these strides of dst.
bool overlap_add_takes_tail(int64_t channels, const Dims& dst_strides);

// A matrix of a product in each image: f32, bf16 or f16, strides in the order image, and two that `RowProductProblem`
// names.
struct ProductOperand {
    int dtype;
    Dims strides;
};

// c[n, i, j] = bias[i or j] + sum over k of a[n, i, k] * b[n, j, k]. Where c's images have the stride 0, they are summed.
struct RowProductProblem {
    int64_t images, rows, columns, depth;
    ProductOperand a, b, c;
    int bias_dtype;  // 0: none
    int bias_axis;   // 0: of c's rows, 1: of its columns
};

// A tail on results whose channels lie side by side; the sizes and strides of their other axes, images first.
struct PositionsTail {
    Tail tail;
    int64_t channels = 0;
    Dims sizes, strides;
};

// a, b, [bias,] the tail's, c; sums are f32, and rounded once. With a tail the rows of c are contiguous, and whole
// positions.
std::shared_ptr<Kernel> make_row_product(const RowProductProblem& problem, const PositionsTail& after);

// Strides: n, channel, spatial. Channels or the positions of a row are neighbours, and the same ones in src and dst.
struct GroupNormProblem {
    int64_t n, channels, groups;
    Dims spatial;
    int src_dtype;
    Dims src_strides;
    int dst_dtype;
    Dims dst_strides;
    bool affine;  // scale and shift by channel, f32
    double epsilon;
    Tail tail;  // channels last only
};

// src, [scale, shift,] the tail's operands, dst
std::shared_ptr<Kernel> make_group_norm(const GroupNormProblem& problem);

// src, [scale, f32,] dst: rows of neighbours, pitches apart, divided by the roots of their mean squares, and scaled
std::shared_ptr<Kernel> make_rms_norm(int64_t rows, int64_t width, int src_dtype, int64_t src_pitch, int dst_dtype,
                                      int64_t dst_pitch, double epsilon, bool scaled);

// src, dst: softmax, or its logarithm, over an axis. Either its elements are neighbours in both, or those of another axis.
std::shared_ptr<Kernel> make_softmax(const Dims& shape, int64_t axis, int src_dtype, const Dims& src_strides,
                                     int dst_dtype, const Dims& dst_strides, bool logarithm);

// src, input weights, input bias, weights, bias, h, c, rows, last h, last c: one direction of a recurrent layer
std::shared_ptr<Kernel> make_recurrent(const std::string& cell, int64_t steps, int64_t batch, int64_t width,
                                       int64_t size, bool backwards, int64_t row_step, bool packed);
// input weights, weights, and both packed, which take so many floats
std::shared_ptr<Kernel> make_recurrent_pack(const std::string& cell, int64_t width, int64_t size);
std::vector<int64_t> recurrent_packed(const std::string& cell, int64_t width, int64_t size);

// the tail's operands, dst: post-ops on dst itself (f32), whose channels lie side by side; the sizes and strides of its
// other axes, images first
std::shared_ptr<Kernel> make_tail(const Tail& tail, const Dims& positions, int64_t channels, const Dims& strides);

// operands, dst: element-wise steps on tensors of one shape, whose strides may be 0. Nothing is in the registers at first,
// and the last step, no other, writes register 0. dst may be an operand of the same strides and item size. Each operand is
// its data type and its strides.
std::shared_ptr<Kernel> make_chain(const Dims& shape, const std::vector<TailStepSpec>& steps,
                                   const std::vector<std::pair<int, Dims>>& operands, int dst_dtype,
                                   const Dims& dst_strides);

// Windows over 1 to 3 spatial axes: the largest element of each, or the mean. Strides count elements in the order n, c,
// spatial; channels lie side by side. An end of padding may be negative; an average counts only what the explicit
// padding reaches, or with exclude_pad the source, and has no dilations.
struct PoolProblem {
    int64_t n, c;
    Dims src_spatial, dst_spatial, kernel, strides, pads_begin, pads_end, dilations;
    int dtype;
    Dims src_strides, dst_strides;
    bool average, exclude_pad;
};

// src, dst
std::shared_ptr<Kernel> make_pool(const PoolProblem& problem);

// Each result from the nearest element, or linearly from those around it: at (index + 0.5) * size / results - 0.5, or
// with align_corners at index * (size - 1) / (results - 1). Strides as of PoolProblem.
struct ResampleProblem {
    int64_t n, c;
    Dims src_spatial, dst_spatial;
    int dtype;
    Dims src_strides, dst_strides;
    bool linear, align_corners;
};

// src, dst
std::shared_ptr<Kernel> make_resample(const ResampleProblem& problem);

// Over the axes that are `reduced`; the strides of dst on these do not count.
struct ReduceProblem {
    Dims shape;
    std::vector<bool> reduced;
    int dtype;
    Dims src_strides, dst_strides;
    Fold fold;
    bool mean;
};

// src, dst
std::shared_ptr<Kernel> make_reduce(const ReduceProblem& problem);

}  // namespace dgo
