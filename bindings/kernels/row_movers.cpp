#include "kernels/row_movers.hpp"

#include <algorithm>

#include "kernels/checked.hpp"

namespace dgo {
namespace {

constexpr double kFarFloats = 64 * 1024;  // of rows and tags that the second cache level holds beside others
constexpr int64_t kTagFloats = 6;         // that take as much memory as a tag

}  // namespace

ChannelBlock ChannelBlock::at(int64_t index, int64_t channels, int64_t size, int64_t vector) {
    const int64_t real = std::min(size, channels - index * size);
    return {index * size, real, ceil_div(real, vector) * vector};
}

BlockMover::BlockMover(ElementType type, const RowLayout& layout)
    : size_(type == ElementType::f32 ? 4 : 2), channel_(layout.channel), inner_(layout.inner),
      by_channels_(layout.channel == 1) {
    const BlockKind kind = by_channels_        ? BlockKind::rows
                           : layout.inner == 1 ? BlockKind::transposed
                                               : BlockKind::strided;
    load_ = copy_block(kind, type, ElementType::f32);
    store_ = copy_block(kind, ElementType::f32, type);
}

void BlockMover::load(const char* row, int64_t first, int64_t last, const ChannelBlock& block, float* to) const {
    if (first >= last) return;
    load_(row + (block.first * channel_ + first * inner_) * size_, reinterpret_cast<char*>(to),
          {last - first, block.real, inner_, channel_, block.lanes, 1});
}

void BlockMover::store(const float* from, int64_t first, int64_t last, const ChannelBlock& block, char* row) const {
    if (first >= last) return;
    char* to = row + (block.first * channel_ + first * inner_) * size_;
    const char* at = reinterpret_cast<const char*>(from);
    if (by_channels_) {
        store_(at, to, {last - first, block.real, block.lanes, 1, inner_, channel_});
    } else {
        store_(at, to, {block.real, last - first, 1, block.lanes, channel_, inner_});
    }
}

RowMover::RowMover(ElementType type, int64_t stride, int64_t phases) : stride_(stride), phases_(phases) {
    size_ = type == ElementType::f32 ? 4 : 2;
    const BlockKind whole = stride != 1 ? BlockKind::strided : phases == 1 ? BlockKind::rows : BlockKind::transposed;
    load_whole_ = copy_block(whole, type, ElementType::f32);
    load_rest_ = copy_block(BlockKind::strided, type, ElementType::f32);
    store_whole_ = copy_block(whole, ElementType::f32, type);
    store_rest_ = copy_block(BlockKind::strided, ElementType::f32, type);
}

void RowMover::load(const char* row, int64_t width, int64_t first, int64_t last, float* to, int64_t pitch) const {
    const int64_t elements = std::min(last * phases_, width) - first * phases_;
    if (elements <= 0) return;
    const int64_t groups = elements / phases_, rest = elements % phases_;
    const char* from = row + first * phases_ * stride_ * size_;
    char* at = reinterpret_cast<char*>(to);
    if (groups > 0) load_whole_(from, at, {phases_, groups, stride_, phases_ * stride_, pitch, 1});
    if (rest > 0) {
        load_rest_(from + groups * phases_ * stride_ * size_, at + groups * 4, {rest, 1, stride_, 0, pitch, 1});
    }
}

void RowMover::store(const float* from, int64_t pitch, int64_t first, int64_t last, char* row, int64_t width) const {
    const int64_t elements = std::min(last * phases_, width) - first * phases_;
    if (elements <= 0) return;
    const int64_t groups = elements / phases_, rest = elements % phases_;
    char* to = row + first * phases_ * stride_ * size_;
    const char* at = reinterpret_cast<const char*>(from);
    if (groups > 0) {
        if (phases_ == 1) {
            store_whole_(at, to, {1, groups, 0, 1, 0, stride_});
        } else {
            store_whole_(at, to, {groups, phases_, 1, pitch, phases_ * stride_, stride_});
        }
    }
    if (rest > 0) {
        store_rest_(at + groups * 4, to + groups * phases_ * stride_ * size_, {1, rest, 0, pitch, 0, stride_});
    }
}

RowCache::Layout::Layout(ScratchLayout& scratch, const TapAxes& axes, int64_t row_floats)
    : window_{axes.outer[0].span(), axes.outer[1].span()}, row_floats_(row_floats) {
    // rows of all planes or of those in use are copied once if they fit, else by each row of outputs of another plane
    for (int axis = 1; axis >= 0; --axis) {
        const int64_t every = std::max<int64_t>(axes.outer[static_cast<size_t>(axis)].sources, 1);
        const double floats = static_cast<double>(window_[1 - axis]) * static_cast<double>(every) *
                              static_cast<double>(row_floats + kTagFloats);
        if (window_[0] > 1 && floats <= kFarFloats) window_[axis] = every;
    }
    const int64_t slots = checked_product("depthwise rows", {window_[0], window_[1]});
    rows_ = scratch.add<float>(checked_product("depthwise rows", {slots, row_floats}));
    tags_ = scratch.add<Tag>(slots);
}

RowCache::RowCache(const Layout& layout, char* scratch)
    : layout_(layout), rows_(layout.rows_.in(scratch)), tags_(layout.tags_.in(scratch)) {
    std::fill_n(tags_, layout.window_[0] * layout.window_[1], Layout::Tag{-1, 0, 0});
}

}  // namespace dgo
