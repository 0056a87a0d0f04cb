#include "kernels/product/described.hpp"

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/product/axis.hpp"

namespace dgo {
namespace {

// Returns three axes: fewer become the last ones.
Axes axes(const Dims& values, size_t rank, int64_t missing, const char* name) {
    if (values.size() != rank || rank < 1 || rank > kFilterAxes) {
        fail(ErrorKind::invalid_argument, std::string("filter product: ") + name + " has " +
                                              std::to_string(values.size()) + " values for " + std::to_string(rank) +
                                              " spatial axes; give one per axis, for 1 to 3 axes");
    }
    Axes result{{missing, missing, missing}};
    std::copy(values.begin(), values.end(), result.axis + (kFilterAxes - rank));
    return result;
}

FilterProblem make_problem(int64_t batch, int64_t in_channels, int64_t out_channels, const Dims& in, const Dims& out,
                           const Dims& kernel, const Dims& strides, const Dims& pads_begin, const Dims& tile,
                           const Dims& dilations, int64_t groups, bool any_size) {
    const size_t rank = in.size();
    FilterProblem p;
    p.any_size = any_size;
    p.spatial_rank = static_cast<int>(rank);
    p.batch = batch;
    if (groups < 1 || in_channels < 1 || out_channels < 1 || in_channels % groups != 0 || out_channels % groups != 0) {
        fail(ErrorKind::invalid_argument, "filter product: " + std::to_string(in_channels) + " and " +
                                              std::to_string(out_channels) + " channels do not divide into " +
                                              std::to_string(groups) + " groups");
    }
    p.groups = groups;
    p.in_channels = in_channels / groups;
    p.out_channels = out_channels / groups;
    p.in = axes(in, rank, 1, "in_spatial");
    p.out = axes(out, rank, 1, "out_spatial");
    p.kernel = axes(kernel, rank, 1, "kernel");
    p.stride = axes(strides, rank, 1, "strides");
    p.pad = axes(pads_begin, rank, 0, "pads_begin");
    p.tile = axes(tile, rank, 1, "tile");
    p.dilation = dilations.empty() ? Axes{{1, 1, 1}} : axes(dilations, rank, 1, "dilations");
    return p;
}

// Throws unless the sizes with these strides lie within an array; the strides of the last three axes are in order.
void check_reach(const char* name, Dims sizes, const Axes& spatial, Dims strides, const Axes& spatial_strides) {
    sizes.insert(sizes.end(), spatial.axis, spatial.axis + kFilterAxes);
    strides.insert(strides.end(), spatial_strides.axis, spatial_strides.axis + kFilterAxes);
    check_extent("filter product", name, sizes, strides);
}

}  // namespace

FilterTensor filter_tensor(const FilterProblem& p, int dtype, const Dims& strides, const char* name,
                           const Axes& spatial) {
    FilterTensor t;
    t.dtype = dtype;
    if (strides.empty()) fail(ErrorKind::invalid_argument, std::string("filter product: ") + name + " is empty");
    t.batch_stride = strides[0];
    t.strides = axes(Dims(strides.begin() + 1, strides.end()), static_cast<size_t>(p.spatial_rank), 0, name);
    check_axes(p);
    check_reach(name, {p.batch}, spatial, {t.batch_stride}, t.strides);
    return t;
}

FilterWeights filter_weights(const FilterProblem& p, int dtype, const Dims& strides) {
    if (strides.size() < 2) {
        fail(ErrorKind::invalid_argument, "filter product: weights_strides has fewer than 3 values");
    }
    FilterWeights w;
    w.dtype = dtype;
    w.in_stride = strides[0];
    w.out_stride = strides[1];
    w.tap_strides =
        axes(Dims(strides.begin() + 2, strides.end()), static_cast<size_t>(p.spatial_rank), 0, "weights_strides");
    check_axes(p);
    const int64_t in_channels = p.groups * p.in_channels;
    check_reach("weights", {in_channels, p.out_channels}, p.kernel, {w.in_stride, w.out_stride}, w.tap_strides);
    // with one group the stride of groups may be any number
    w.group_stride = p.groups == 1 ? 0 : p.in_channels * w.in_stride;
    return w;
}

FilterDirection filter_direction(const std::string& name) {
    if (name == "dgrad") return FilterDirection::dgrad;
    if (name == "fprop") return FilterDirection::fprop;
    fail(ErrorKind::invalid_argument, "filter product: direction '" + name + "' is neither dgrad nor fprop");
}

FilterSides::FilterSides(const FilterProblem& p, FilterDirection direction, int src_dtype, const Dims& src_strides,
                         int dst_dtype, const Dims& dst_strides, const char* src_name)
    : src(filter_tensor(p, src_dtype, src_strides, src_name, direction == FilterDirection::dgrad ? p.in : p.out)),
      dst(filter_tensor(p, dst_dtype, dst_strides, "dst_strides", direction == FilterDirection::dgrad ? p.out : p.in)) {
}

const Declaration kFilterProblem{
    "FilterProblem(batch, in_channels, out_channels, in_spatial, out_spatial, kernel, strides, pads_begin, tile, "
    "dilations=(), groups=1, any_size=False)",
    make_problem,
    "A transposed convolution, channels last. tile: results of a tile on each axis; 1 is the direct form of that axis, "
    "for any kernel; Winograd has 2, 3 and 4 for two taps per phase, 2 and 4 for three, without dilation; 4 on the "
    "last two axes only if both have it. any_size: weights are packed as for large sizes, whatever the sizes are."};

}  // namespace dgo
