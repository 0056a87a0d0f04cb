#include "kernels/few_channels/image.hpp"

#include "kernels/checked.hpp"

namespace dgo {

namespace {

constexpr int64_t kRowFloats = 6 * 1024;  // copied floats that a row of results reads: they stay near the weights
constexpr int64_t kBlockFloats = 32 * 1024;  // copied floats that a block of rows reads
constexpr int64_t kFewestOutputs = 24;  // outputs of a section: two register tiles
// planes: a value that is read takes part in few products, so that rows may lie farther away
constexpr int64_t kPlanarRowFloats = 24 * 1024, kPlanarBlockFloats = 96 * 1024, kPlanarFewestOutputs = 128;
// Layers of a few long rows have sections for so many threads, none of them of fewer outputs.
constexpr int64_t kManyThreads = 64, kThreadOutputs = 256;
constexpr int64_t kMostFloats = 4 * 1024 * 1024;  // floats of all copies
constexpr double kProductsOfByte = 8;  // products that take as long as moving a byte

}  // namespace

FewChannelsAxis::FewChannelsAxis(const LayerSizes& p, int number) {
    const int missing = 3 - static_cast<int>(p.kernel.size());
    if (number < missing) return;
    const auto axis = static_cast<size_t>(number - missing);
    outputs = p.src_spatial[axis];
    size = p.dst_spatial[axis];
    kernel = p.kernel[axis];
    stride = p.strides[axis];
    pad = p.pads_begin[axis];
    dilation = p.dilations[axis];
}

FewChannelsLayout::FewChannelsLayout(const LayerSizes& p, bool planar)
    : planes(p, 0), lines(p, 1), inner(p, 2), position(planar ? 1 : p.c) {
    const int64_t near = planar ? kPlanarRowFloats : kRowFloats, all = planar ? kPlanarBlockFloats : kBlockFloats;
    const int64_t step = std::min(planes.kernel * lines.kernel * inner.stride * p.c, near);
    const int64_t most = std::max(near / step, planar ? kPlanarFewestOutputs : kFewestOutputs);
    const int64_t rows_of_all = std::max<int64_t>(p.n * planes.outputs * lines.outputs, 1);
    sections = std::max<int64_t>(
        {ceil_div(inner.outputs, most), 1, std::min(kManyThreads / rows_of_all, inner.outputs / kThreadOutputs)});
    outputs = ceil_div(inner.outputs, sections);
    channel = planar ? inner.span(outputs) : 1;
    row_floats = inner.span(outputs) * p.c;
    const int64_t rows = all / std::min(row_floats * planes.kernel, all);
    most_rows = std::clamp<int64_t>((rows - lines.span(1)) / lines.stride + 1, 1, std::max<int64_t>(lines.outputs, 1));
    // a layer beyond any bound is refused
    plane_floats = std::min(lines.span(most_rows), kMostFloats) * std::min(row_floats, kMostFloats);
}

bool FewChannelsLayout::too_long() const {
    return row_floats > kMostFloats || plane_floats > kMostFloats / planes.kernel;
}

FewChannelsImage::FewChannelsImage(const LayerSizes& layer, int dtype, const Dims& strides, bool planar)
    : layout(layer, planar), from_(layer.dst_spatial, strides), item_(item_size(dtype)), channels_(layer.c),
      planar_(planar), dense_(!planar && from_.inner == channels_ && (from_.channel == 1 || channels_ == 1)) {
    const bool alike = (planar ? from_.inner : from_.channel) == 1;
    const BlockKind kind = dense_ || alike                          ? BlockKind::rows
                           : from_.inner == 1 || from_.channel == 1 ? BlockKind::transposed
                                                                    : BlockKind::strided;
    load_ = copy_block(kind, float_type(dtype), ElementType::f32);
}

int64_t FewChannelsImage::floats() const {
    return checked_product("few-channel image", {layout.planes.kernel, layout.plane_floats}) + kPlanesSlack;
}

std::vector<FewChannelsStep> FewChannelsImage::steps(int64_t panel) const {
    std::vector<FewChannelsStep> all;
    int64_t weights = 0;
    for (int64_t i = 0; i < layout.planes.kernel; ++i) {
        for (int64_t j = 0; j < layout.lines.kernel; ++j) {
            for (int64_t k = 0; k < layout.inner.kernel; ++k) {
                const int64_t source = i * layout.plane_floats + j * layout.lines.dilation * layout.row_floats +
                                       k * layout.inner.dilation * layout.position;
                for (int64_t c = 0; c < channels_; ++c, weights += panel) {
                    all.push_back({static_cast<int32_t>(source + c * layout.channel), static_cast<int32_t>(weights)});
                }
            }
        }
    }
    return all;
}

void FewChannelsImage::copy(const char* image, const FewChannelsBlock& block, bool follows, int64_t output,
                            int64_t count, float* to) const {
    const int64_t begin = output * layout.inner.stride - layout.inner.pad, end = begin + layout.inner.span(count);
    const int64_t first = follows ? layout.planes.kernel - 1 : 0;
    if (follows) std::copy(to + layout.plane_floats, to + layout.planes.kernel * layout.plane_floats, to);
    to += first * layout.plane_floats;
    for (int64_t i = first; i < layout.planes.kernel; ++i, to += layout.plane_floats) {
        const int64_t at = block.plane * layout.planes.stride - layout.planes.pad + i * layout.planes.dilation;
        float* to_row = to;
        for (int64_t j = 0; j < layout.lines.span(block.rows); ++j, to_row += layout.row_floats) {
            const int64_t row = block.line * layout.lines.stride - layout.lines.pad + j;
            if (at >= 0 && at < layout.planes.size && row >= 0 && row < layout.lines.size) {
                copy_row(image + from_.offset(block.n, 0, at, row) * item_, begin, end, to_row);
            } else {
                std::fill_n(to_row, layout.row_floats, 0.0f);
            }
        }
    }
}

// Copies positions [begin, end) of a row.
void FewChannelsImage::copy_row(const char* row, int64_t begin, int64_t end, float* to) const {
    const int64_t first = std::clamp<int64_t>(0, begin, end), last = std::clamp(layout.inner.size, first, end);
    const int64_t planes = planar_ ? channels_ : 1;
    for (int64_t i = 0; i < planes; ++i) {
        float* const plane = to + i * layout.channel;
        std::fill_n(plane, (first - begin) * layout.position, 0.0f);
        std::fill_n(plane + (last - begin) * layout.position, (end - last) * layout.position, 0.0f);
    }
    if (first == last) return;
    const int64_t count = last - first;
    const CopyBlock block = dense_    ? CopyBlock{1, count * channels_, 0, 1, 0, 1}
                            : planar_ ? CopyBlock{channels_, count, from_.channel, from_.inner, layout.channel, 1}
                                      : CopyBlock{count, channels_, from_.inner, from_.channel, channels_, 1};
    load_(row + first * from_.inner * item_, reinterpret_cast<char*>(to + (first - begin) * layout.position), block);
}

double few_channels_work(const LayerSizes& layer, int64_t channels, int64_t item) {
    const auto results = static_cast<double>(layer.n * product(layer.src_spatial)) * static_cast<double>(channels);
    const auto depth = static_cast<double>(product(layer.kernel) * layer.c);
    return results * (static_cast<double>(item) + depth / kProductsOfByte);
}

}  // namespace dgo
