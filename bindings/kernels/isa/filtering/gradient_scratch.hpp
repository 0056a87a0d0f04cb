// Sizes, items and a thread's scratch memory of wgrad: for its sums and for the writing of its taps.
#pragma once

#include "kernels/isa/filtering/gradient_in_place.hpp"
#include "kernels/isa/vector/scratch_carver.hpp"

namespace dgo::DGO_ISA {

// In channels of an item: whole cache lines of weights where in channels are contiguous, whole register tiles.
constexpr int64_t kRowBlock = 48;
constexpr int64_t kTapFloats = 65536;  // floats of the taps that a task writes, if that is free

// The sizes of the products. Columns are (segment of diff_dst, out channel), channels fastest, in panels.
struct Sizes {
    int64_t rows, strips, columns, panels, plane;  // plane: accumulators of one plane, [panel][row][kPanel]
};

inline Sizes sizes_of(const GradientParams& params) {
    Sizes s;
    s.strips = ceil_div(params.src.channels, kStrip);
    s.rows = round_up(params.src.channels, kTileRows);
    s.columns = params.diff.segments * params.diff.channels;
    s.panels = ceil_div(s.columns, kPanel);
    s.plane = s.rows * s.panels * kPanel;
    return s;
}

inline int64_t tap_count(const GradientParams& params) {
    return params.kernel[0] * params.kernel[1] * params.kernel[2];
}

// The order in which taps are put together, by their strides in diff_weights.
enum class Order { rows, columns, taps, none };

inline Order order_of(const GradientParams& params) {
    if (params.out_stride == 1) return Order::columns;
    if (params.in_stride == 1) return Order::rows;
    const int64_t dense[] = {params.kernel[1] * params.kernel[2], params.kernel[2], 1};
    for (int a = 0; a < kFilterAxes; ++a) {
        if (params.kernel[a] > 1 && params.tap_strides[a] != dense[a]) return Order::none;
    }
    return Order::taps;
}

// Whether an item of the last step is a block of in channels and all taps of kPanel out channels; else it has all out
// channels, as panels straddle the taps.
inline bool aligned(const GradientParams& params) { return params.diff.channels % kPanel == 0; }
inline int64_t item_columns(const GradientParams& params) { return aligned(params) ? kPanel : params.diff.channels; }
inline int64_t item_panels(const GradientParams& params) {
    return aligned(params) ? params.diff.segments : sizes_of(params).panels;
}
inline int64_t item_panel(const GradientParams& params, int64_t column, int64_t i) {
    return aligned(params) ? (i * params.diff.channels + column) / kPanel : i;
}
inline int64_t item_rows(const GradientParams& params) {
    if (order_of(params) != Order::taps) return kRowBlock;
    const int64_t rows = kTapFloats / (tap_count(params) * item_columns(params)) / kTileRows * kTileRows;
    return larger(kTileRows, smaller(rows, kRowBlock));
}

struct GradientScratch {
    int64_t bytes;
    float *zeros, *wide, *line, *left, *right, *values, *taps, *sums, *lines;
};

// Returns the elements of the widest row of a window; no fewer than a panel's, which taps begin with.
inline int64_t widest_row(const GradientParams& params) {
    return larger(larger(params.src.channels, params.diff.run) + kLanes, kPanel);
}

inline GradientScratch divide(const GradientParams& params, char* memory) {
    const Sizes s = sizes_of(params);
    ScratchCarver carver(memory);
    GradientScratch scratch;
    const int64_t widest = widest_row(params);
    const int64_t panels = ceil_div(s.panels, params.column_parts);
    scratch.zeros = carver.take(widest);
    scratch.wide = carver.take(widest * params.planes);
    scratch.line = carver.take(params.planes * (panels * kPanel + kLanes));
    const int64_t block = params.in_lines ? 0 : params.block;
    scratch.left = carver.take(params.planes * ceil_div(s.strips, params.row_parts) * block * kStrip);
    scratch.right = carver.take(params.planes * panels * block * kPanel);
    const int64_t length = params.taps.length[0] * params.taps.length[1] * params.taps.length[2];
    const int64_t rows = item_rows(params), together = tap_count(params) * item_columns(params);
    scratch.values = carver.take((length * rows + kMaxLength) * kPanel);
    scratch.taps = carver.take(order_of(params) == Order::taps ? rows * together : 0);
    scratch.sums = carver.take(params.in_items ? params.planes * item_panels(params) * rows * kPanel : 0);
    scratch.lines = carver.take(params.in_lines ? line_sums(params) : 0);
    scratch.bytes = carver.bytes;
    return scratch;
}

inline bool unused(const GradientParams& params, int plane, int64_t panel) {
    if (params.zero == nullptr) return false;
    const int64_t first = panel * kPanel / params.diff.channels;
    const int64_t last = smaller(((panel + 1) * kPanel - 1) / params.diff.channels, params.diff.segments - 1);
    bool all = true;
    for (int64_t s = first; s <= last; ++s) all = all && params.zero[plane * params.diff.segments + s];
    return all;
}

}  // namespace dgo::DGO_ISA
