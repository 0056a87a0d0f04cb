#include "kernels/depthwise/problem.hpp"

#include <algorithm>

#include "kernels/checked.hpp"

namespace dgo {

double work_of(const DepthwiseProblem& p) {
    const auto images = static_cast<double>(p.n * p.c), sources = static_cast<double>(product(p.src_spatial));
    const double bytes =
        (sources + static_cast<double>(product(p.dst_spatial))) * static_cast<double>(item_size(p.dtype));
    return images * std::max(bytes, sources * static_cast<double>(product(p.kernel)) / 2);
}

void check_depthwise(const std::string& what, const DepthwiseProblem& p) {
    check_layer(what, p);
    check_strides(what, "src_strides", p, p.src_spatial, p.src_strides);
    check_strides(what, "dst_strides", p, p.dst_spatial, p.dst_strides);
    check_list(what, "weights_strides", p.weights_strides, p.kernel.size() + 1, 0, INT64_MAX);
    Dims weights = {p.c};
    weights.insert(weights.end(), p.kernel.begin(), p.kernel.end());
    check_extent(what, "weights_strides", weights, p.weights_strides);
    float_cell(p.dtype);
}

Path choose_path(const RowLayout& src, const RowLayout& dst, int64_t channels) {
    const int64_t vector = vector_code().depthwise.min_channels;
    if (src.channel == 1 && dst.channel == 1 && channels >= vector) return Path::channels;
    return channels >= vector || src.inner != 1 || dst.inner != 1 ? Path::blocks : Path::space;
}

PackedWeights::PackedWeights(const DepthwiseProblem& p, Path path)
    : block(ChannelBlock::size_for(std::max(p.src_spatial.back(), p.dst_spatial.back()))),
      channels(ChannelBlock::number(p.c, block) * block), floats(product(p.kernel) * channels) {
    shape = {p.c};
    strides = {path == Path::space ? product(p.kernel) : 1};
    int64_t step = path == Path::space ? 1 : channels;
    for (size_t axis = p.kernel.size(); axis-- > 0;) {
        shape.insert(shape.begin() + 1, p.kernel[axis]);
        strides.insert(strides.begin() + 1, step);
        step *= p.kernel[axis];
    }
}

}  // namespace dgo
