// The last step of wgrad: sums -> transform -> taps, written to diff_weights as it lies in memory.
#pragma once

#include "kernels/isa/copy/across.hpp"
#include "kernels/isa/filtering/gradient_scratch.hpp"
#include "kernels/isa/product/tiles.hpp"
#include "kernels/isa/vector/convert.hpp"

namespace dgo::DGO_ISA {

constexpr int64_t kLine = 64;  // bytes of a cache line: parts of one that are written past the caches take far longer

// sums of part 0 += sums of each other part of the tiles.
inline void add_parts(const GradientParams& params, int64_t panel, float* sums) {
    const Sizes s = sizes_of(params);
    for (int p = 0; p < params.planes; ++p) {
        if (unused(params, p, panel)) continue;
        for (int64_t part = 1; part < params.tile_parts; ++part) {
            float* to = sums + p * s.plane;
            const float* other = to + part * params.planes * s.plane;
            for (int64_t c = 0; c < kPanel; ++c) to[c] += other[c];
        }
    }
}

// The address and strides of sums, [plane][panel][in channel], from in channel `row` on.
struct Sums {
    float* at;
    int64_t plane, panel, row;
};

// Writes one tap of in channels [row, row + rows) and out channels [channel, channel + count). column: the first column
// of the item.
inline void write_tap(const GradientParams& params, const float* values, int64_t tap, int64_t row, int64_t rows,
                      int64_t channel, int64_t column, int64_t count, char* weights, const GradientScratch& scratch) {
    const Order order = order_of(params);
    char* out = weights + (row * params.in_stride + channel * params.out_stride + tap) * params.weights_item;
    if (order == Order::rows) {
        NarrowAcross(params.weights_type)(values, kPanel, count, rows, params.out_stride, out);
        return;
    }
    const int64_t columns = item_columns(params), together = tap_count(params) * columns;
    for (int64_t r = 0; r < rows; ++r, values += kPanel, out += params.in_stride * params.weights_item) {
        if (order == Order::taps) {
            float* to = scratch.taps + r * together + tap * columns + column;
            for (int64_t c = 0; c < count; ++c) to[c] = values[c];
        } else if (params.streams && reinterpret_cast<uintptr_t>(out) % kLine == 0 && count % kPanel == 0) {
            stream(values, count, reinterpret_cast<float*>(out));
        } else if (order == Order::columns) {
            narrow(params.weights_type, values, count, out);
        } else {
            narrow_apart(params.weights_type, values, count, params.out_stride, out);
        }
    }
}

// diff_weights = the taps of in channels [row, row_end) and of the item's panels. own: `sums` holds only the item's.
inline void finish(const GradientParams& params, int64_t row, int64_t row_end, int64_t first, const Sums& sums,
                   bool own, char* weights, const GradientScratch& scratch) {
    const Sizes s = sizes_of(params);
    const GatherFn transform = output_transform(params.tap_shape);
    const int64_t length = params.taps.length[0] * params.taps.length[1] * params.taps.length[2];
    const int64_t rows = row_end - row, channels = params.diff.channels;
    float* to[kMaxLength];
    int64_t offset[kMaxLength];
    for (int64_t i = 0; i < item_panels(params); ++i) {
        const int64_t panel = item_panel(params, first, i);
        float* from = sums.at + (own ? i : panel) * sums.panel + (row - sums.row) * kPanel;
        for (int64_t r = 0; r < rows; ++r, from += kPanel) {
            if (!own && params.tile_parts > 1) add_parts(params, panel, from);
            for (int64_t j = 0; j < kMaxLength; ++j) {
                to[j] = scratch.values + (j < length ? j * rows + r : length * rows) * kPanel;
            }
            transform(from, sums.plane, kPanel, scratch.zeros, to);
        }
        const int64_t begin = panel * kPanel, end = smaller(begin + kPanel, s.columns);
        for (int64_t column = begin; column < end;) {
            const int64_t channel = column % channels, count = smaller(channels - channel, end - column);
            tap_offsets(params.taps, params.tap_strides, column / channels, 0, offset);
            for (int64_t j = 0; j < length; ++j) {
                if (offset[j] < 0) continue;
                write_tap(params, scratch.values + j * rows * kPanel + column - begin, offset[j], row, rows, channel,
                          channel - first, count, weights, scratch);
            }
            column += count;
        }
    }
    if (order_of(params) != Order::taps) return;
    const NarrowAcross narrow_across(params.weights_type);
    const int64_t taps = tap_count(params), columns = item_columns(params);
    for (int64_t r = 0; r < rows; ++r) {
        char* to_row = weights + ((row + r) * params.in_stride + first * params.out_stride) * params.weights_item;
        narrow_across(scratch.taps + r * taps * columns, columns, smaller(columns, channels - first), taps,
                      params.out_stride, to_row);
    }
}

}  // namespace dgo::DGO_ISA
