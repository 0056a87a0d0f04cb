#include "kernels/depthwise/depthwise.hpp"

#include <algorithm>

#include "kernels/checked.hpp"

namespace dgo {

int64_t product(const Dims& dims) {
    int64_t all = 1;
    for (const int64_t dim : dims) all *= dim;
    return all;
}

double work_of(const DepthwiseProblem& p) {
    const auto images = static_cast<double>(p.n * p.c), sources = static_cast<double>(product(p.src_spatial));
    const double bytes = (sources + static_cast<double>(product(p.dst_spatial))) * static_cast<double>(item_size(p.dtype));
    return images * std::max(bytes, sources * static_cast<double>(product(p.kernel)) / 2);
}

void check_list(const std::string& what, const char* name, const Dims& list, size_t length, int64_t least,
                int64_t most) {
    if (list.size() != length) {
        fail(ErrorKind::invalid_argument, what + ": " + name + " has " + std::to_string(list.size()) +
                                              " entries, " + std::to_string(length) + " are needed");
    }
    for (const int64_t entry : list) {
        check_number(what, name, entry, least, most);
    }
}

void check_depthwise(const std::string& what, const DepthwiseProblem& p) {
    const size_t rank = p.src_spatial.size();
    if (rank < 1 || rank > 3) {
        fail(ErrorKind::invalid_argument,
             what + ": src_spatial has " + std::to_string(rank) + " axes, 1 to 3 are possible");
    }
    const auto check = [&](const char* name, const Dims& list, size_t length, int64_t least, int64_t most) {
        check_list(what, name, list, length, least, most);
    };
    check("src_spatial", p.src_spatial, rank, 0, kMostSize);
    check("dst_spatial", p.dst_spatial, rank, 0, kMostSize);
    check("kernel", p.kernel, rank, 1, kMostSize);
    check("strides", p.strides, rank, 1, kMostSize);
    check("pads_begin", p.pads_begin, rank, -kMostSize, kMostSize);
    check("dilations", p.dilations, rank, 1, kMostSize);
    check("src_strides", p.src_strides, rank + 2, 0, INT64_MAX);
    check("weights_strides", p.weights_strides, rank + 1, 0, INT64_MAX);
    check("dst_strides", p.dst_strides, rank + 2, 0, INT64_MAX);
    check("(n, c)", {p.n, p.c}, 2, 0, kMostSize);
    const auto spatial = [&](const Dims& dims, size_t axis) { return axis < rank ? dims[axis] : 1; };
    for (const Dims* dims : {&p.src_spatial, &p.dst_spatial, &p.kernel}) {
        const int64_t images = dims == &p.kernel ? 1 : p.n;
        checked_product(what, {images, p.c, spatial(*dims, 0), spatial(*dims, 1), spatial(*dims, 2)});
    }
    const auto check_reach = [&](const char* name, Dims sizes, const Dims& spatial_sizes, const Dims& strides) {
        sizes.insert(sizes.end(), spatial_sizes.begin(), spatial_sizes.end());
        check_extent(what, name, sizes, strides);
    };
    check_reach("src", {p.n, p.c}, p.src_spatial, p.src_strides);
    check_reach("weights", {p.c}, p.kernel, p.weights_strides);
    check_reach("dst", {p.n, p.c}, p.dst_spatial, p.dst_strides);
    for (size_t axis = 0; axis < rank; ++axis) {
        const int64_t reach = p.dilations[axis] * (p.kernel[axis] - 1);
        const int64_t span = p.strides[axis] * std::max<int64_t>(p.src_spatial[axis] - 1, 0);
        if (reach > kMostSize || span > kMostSize) {
            fail(ErrorKind::invalid_argument, what + ": axis " + std::to_string(axis) + " spans more than " +
                                                  std::to_string(kMostSize) + " elements");
        }
    }
    float_cell(p.dtype);
}

RowLayout::RowLayout(const Dims& spatial, const Dims& strides)
    : spatial(spatial), batch(strides[0]), channel(strides[1]), outer{0, 0}, inner(strides.back()) {
    const size_t missing = 3 - spatial.size();
    for (size_t axis = missing; axis < 2; ++axis) outer[axis] = strides[2 + axis - missing];
}

int64_t RowLayout::extent(int axis) const {
    const int missing = 3 - static_cast<int>(spatial.size());
    return axis < missing ? 1 : spatial[static_cast<size_t>(axis - missing)];
}

TapAxes::TapAxes(const DepthwiseProblem& p, bool forward) {
    const auto make = forward ? TapAxis::forward : TapAxis::backward;
    for (size_t axis = p.kernel.size(); axis < 3; ++axis) outer.push_back(make(1, 1, 1, 1, 0, 1));
    for (size_t axis = 0; axis < p.kernel.size(); ++axis) {
        outer.push_back(make(p.src_spatial[axis], p.dst_spatial[axis], p.kernel[axis], p.strides[axis],
                             p.pads_begin[axis], p.dilations[axis]));
    }
    inner = std::move(outer.back());
    outer.pop_back();
}

void TapAxes::taps_of_row(int64_t row, std::vector<RowTap>& list) const {
    list.clear();
    outer[0].for_output(row / outer[1].outputs, [&](int64_t k0, int64_t i) {
        outer[1].for_output(row % outer[1].outputs, [&](int64_t k1, int64_t j) {
            list.push_back({{i, j}, k0 * outer[1].kernel + k1});
        });
    });
}

std::vector<Piece> cut_into_pieces(const TapAxis& axis, int64_t outputs) {
    int64_t lowest = 0, highest = -1;
    bool any = false;
    for (const std::vector<Tap>& list : axis.taps) {
        for (const Tap& tap : list) {
            const int64_t group = floor_div(tap.base, axis.advance);
            lowest = any ? std::min(lowest, group) : group;
            highest = any ? std::max(highest, group) : group;
            any = true;
        }
    }
    const std::vector<Segment> segments = axis.segments();
    const int64_t groups = ceil_div(axis.sources, axis.advance);
    std::vector<Piece> pieces;
    for (int64_t begin = 0; begin < axis.count(0); begin += outputs) {
        Piece piece{begin, std::min(begin + outputs, axis.count(0)), 0, 0, {}};
        piece.first_group = std::max<int64_t>(piece.begin + lowest, 0);
        piece.last_group = std::max(std::min(piece.end + highest, groups), piece.first_group);
        for (Segment segment : segments) {
            segment.begin = std::max(segment.begin, piece.begin);
            segment.end = std::min(segment.end, piece.end);
            if (segment.begin < segment.end) piece.segments.push_back(segment);
        }
        pieces.push_back(std::move(piece));
    }
    return pieces;
}

int64_t first_source(const Piece& piece, const TapAxis& axis) { return piece.first_group * axis.advance; }

int64_t end_source(const Piece& piece, const TapAxis& axis) {
    return std::min(piece.last_group * axis.advance, axis.sources);
}

Widest::Widest(const std::vector<Piece>& pieces, const TapAxis& axis) {
    for (const Piece& piece : pieces) {
        outputs = std::max(outputs, piece.end - piece.begin);
        sources = std::max(sources, end_source(piece, axis) - first_source(piece, axis));
        groups = std::max(groups, piece.last_group - piece.first_group);
    }
    split = groups * std::min(axis.advance, axis.sources);
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

ChannelBlock ChannelBlock::at(int64_t index, int64_t channels, int64_t size) {
    const int64_t real = std::min(size, channels - index * size);
    return {index * size, real, (real + 7) / 8 * 8};
}

BlockMover::BlockMover(Cell cell, const RowLayout& layout)
    : size_(cell == Cell::f32 ? 4 : 2), channel_(layout.channel), inner_(layout.inner),
      by_channels_(layout.channel == 1) {
    const BlockKind kind = by_channels_        ? BlockKind::rows
                           : layout.inner == 1 ? BlockKind::transposed
                                               : BlockKind::strided;
    load_ = copy_block(kind, cell, Cell::f32);
    store_ = copy_block(kind, Cell::f32, cell);
}

void BlockMover::load(const char* row, int64_t first, int64_t last, const ChannelBlock& block,
                      float* to) const {
    if (first >= last) return;
    load_(row + (block.first * channel_ + first * inner_) * size_, reinterpret_cast<char*>(to),
          {last - first, block.real, inner_, channel_, block.lanes, 1});
}

void BlockMover::store(const float* from, int64_t first, int64_t last, const ChannelBlock& block,
                       char* row) const {
    if (first >= last) return;
    char* to = row + (block.first * channel_ + first * inner_) * size_;
    const char* at = reinterpret_cast<const char*>(from);
    if (by_channels_) {
        store_(at, to, {last - first, block.real, block.lanes, 1, inner_, channel_});
    } else {
        store_(at, to, {block.real, last - first, 1, block.lanes, channel_, inner_});
    }
}

RowMover::RowMover(Cell cell, int64_t stride, int64_t phases) : stride_(stride), phases_(phases) {
    size_ = cell == Cell::f32 ? 4 : 2;
    const BlockKind whole = stride != 1   ? BlockKind::strided
                            : phases == 1 ? BlockKind::rows
                                          : BlockKind::transposed;
    load_whole_ = copy_block(whole, cell, Cell::f32);
    load_rest_ = copy_block(BlockKind::strided, cell, Cell::f32);
    store_whole_ = copy_block(whole, Cell::f32, cell);
    store_rest_ = copy_block(BlockKind::strided, Cell::f32, cell);
}

void RowMover::load(const char* row, int64_t width, int64_t first, int64_t last, float* to,
                    int64_t pitch) const {
    const int64_t cells = std::min(last * phases_, width) - first * phases_;
    if (cells <= 0) return;
    const int64_t groups = cells / phases_, rest = cells % phases_;
    const char* from = row + first * phases_ * stride_ * size_;
    char* at = reinterpret_cast<char*>(to);
    if (groups > 0) load_whole_(from, at, {phases_, groups, stride_, phases_ * stride_, pitch, 1});
    if (rest > 0) {
        load_rest_(from + groups * phases_ * stride_ * size_, at + groups * 4,
                   {rest, 1, stride_, 0, pitch, 1});
    }
}

void RowMover::store(const float* from, int64_t pitch, int64_t first, int64_t last, char* row,
                     int64_t width) const {
    const int64_t cells = std::min(last * phases_, width) - first * phases_;
    if (cells <= 0) return;
    const int64_t groups = cells / phases_, rest = cells % phases_;
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
        store_rest_(at + groups * 4, to + groups * phases_ * stride_ * size_,
                    {1, rest, 0, pitch, 0, stride_});
    }
}

RowCache::Room::Room(ScratchLayout& scratch, const TapAxes& axes, int64_t row_floats)
    : window_{axes.outer[0].span(), axes.outer[1].span()}, row_floats_(row_floats) {
    const int64_t slots = checked_product("depthwise rows", {window_[0], window_[1]});
    rows_ = scratch.add<float>(checked_product("depthwise rows", {slots, row_floats}));
    tags_ = scratch.add<Tag>(slots);
}

RowCache::RowCache(const Room& room, char* scratch)
    : room_(room), rows_(room.rows_.in(scratch)), tags_(room.tags_.in(scratch)) {
    std::fill_n(tags_, room.window_[0] * room.window_[1], Room::Tag{-1, 0, 0});
}

float* RowCache::find(int64_t image, int64_t i, int64_t j, bool& fresh) {
    const int64_t slot = i % room_.window_[0] * room_.window_[1] + j % room_.window_[1];
    Room::Tag& tag = tags_[slot];
    fresh = tag.image != image || tag.i != i || tag.j != j;
    tag = {image, i, j};
    return rows_ + slot * room_.row_floats_;
}

}  // namespace dgo
