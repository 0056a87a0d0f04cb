#include "kernels/few_channels/image.hpp"

#include "kernels/checked.hpp"

namespace dgo {

namespace {

constexpr int64_t kRowFloats = 6 * 1024;  // copied floats that a row of results reads: they stay near the weights
constexpr int64_t kBlockFloats = 32 * 1024;  // copied floats that a block of rows reads
constexpr int64_t kFewestOutputs = 24;  // outputs of a section: two register tiles
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

FewChannelsLayout::FewChannelsLayout(const LayerSizes& p) : planes(p, 0), lines(p, 1), inner(p, 2) {
    const int64_t step = std::min(planes.kernel * lines.kernel * inner.stride * p.c, kRowFloats);
    const int64_t most = std::max(kRowFloats / step, kFewestOutputs);
    sections = std::max<int64_t>(ceil_div(inner.outputs, most), 1);
    outputs = ceil_div(inner.outputs, sections);
    row_floats = inner.span(outputs) * p.c;
    const int64_t rows = kBlockFloats / std::min(row_floats * planes.kernel, kBlockFloats);
    block = std::clamp<int64_t>((rows - lines.span(1)) / lines.stride + 1, 1, std::max<int64_t>(lines.outputs, 1));
    // a layer beyond any bound is refused
    plane_floats = std::min(lines.span(block), kMostFloats) * std::min(row_floats, kMostFloats);
}

bool FewChannelsLayout::too_long() const {
    return row_floats > kMostFloats || plane_floats > kMostFloats / planes.kernel;
}

FewChannelsImage::FewChannelsImage(const LayerSizes& layer, int dtype, const Dims& strides)
    : layout(layer), from_(layer.dst_spatial, strides), item_(item_size(dtype)), channels_(layer.c),
      dense_(from_.inner == channels_ && (from_.channel == 1 || channels_ == 1)) {
    const BlockKind kind = dense_ || from_.channel == 1 ? BlockKind::rows
                           : from_.inner == 1           ? BlockKind::transposed
                                                        : BlockKind::strided;
    load_ = copy_block(kind, float_type(dtype), ElementType::f32);
}

int64_t FewChannelsImage::floats() const {
    return checked_product("few-channel image", {layout.planes.kernel, layout.plane_floats});
}

std::vector<FewChannelsStep> FewChannelsImage::steps(int64_t panel) const {
    std::vector<FewChannelsStep> all;
    int64_t weights = 0;
    for (int64_t i = 0; i < layout.planes.kernel; ++i) {
        for (int64_t j = 0; j < layout.lines.kernel; ++j) {
            for (int64_t k = 0; k < layout.inner.kernel; ++k) {
                const int64_t source = i * layout.plane_floats + j * layout.lines.dilation * layout.row_floats +
                                       k * layout.inner.dilation * channels_;
                for (int64_t c = 0; c < channels_; ++c, weights += panel) {
                    all.push_back({static_cast<int32_t>(source + c), static_cast<int32_t>(weights)});
                }
            }
        }
    }
    return all;
}

void FewChannelsImage::copy(const char* image, int64_t n, int64_t plane, int64_t line, int64_t rows, int64_t output,
                            int64_t count, float* to) const {
    const int64_t begin = output * layout.inner.stride - layout.inner.pad, end = begin + layout.inner.span(count);
    for (int64_t i = 0; i < layout.planes.kernel; ++i, to += layout.plane_floats) {
        const int64_t at = plane * layout.planes.stride - layout.planes.pad + i * layout.planes.dilation;
        float* to_row = to;
        for (int64_t j = 0; j < layout.lines.span(rows); ++j, to_row += layout.row_floats) {
            const int64_t row = line * layout.lines.stride - layout.lines.pad + j;
            if (at >= 0 && at < layout.planes.size && row >= 0 && row < layout.lines.size) {
                copy_row(image + from_.offset(n, 0, at, row) * item_, begin, end, to_row);
            } else {
                std::fill_n(to_row, layout.row_floats, 0.0f);
            }
        }
    }
}

// Copies positions [begin, end) of a row.
void FewChannelsImage::copy_row(const char* row, int64_t begin, int64_t end, float* to) const {
    const int64_t first = std::clamp<int64_t>(0, begin, end), last = std::clamp(layout.inner.size, first, end);
    std::fill_n(to, (first - begin) * channels_, 0.0f);
    std::fill_n(to + (last - begin) * channels_, (end - last) * channels_, 0.0f);
    if (first == last) return;
    const int64_t count = last - first;
    const CopyBlock block = dense_ ? CopyBlock{1, count * channels_, 0, 1, 0, 1}
                                   : CopyBlock{count, channels_, from_.inner, from_.channel, channels_, 1};
    load_(row + first * from_.inner * item_, reinterpret_cast<char*>(to + (first - begin) * channels_), block);
}

double few_channels_work(const LayerSizes& layer, int64_t channels, int64_t item) {
    const auto results = static_cast<double>(layer.n * product(layer.src_spatial)) * static_cast<double>(channels);
    const auto depth = static_cast<double>(product(layer.kernel) * layer.c);
    return results * (static_cast<double>(item) + depth / kProductsOfByte);
}

}  // namespace dgo
