// The sizes of bf16 wgrad, for packing, products and the writing of taps.
#pragma once

#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/vector/scratch_carver.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kHalf = 16;        // channels that are packed together
constexpr int64_t kPairBytes = 64;   // a pair of positions of them
constexpr int64_t kUnitPairs = kBf16Unit / 2;
constexpr int64_t kBlock = kDotColumns * kDotColumns + 16;  // floats; not a multiple of 4 KB, a cache set's step

// A thread's part of the sums: a tap of the first axis and some taps of the others, for in channels [in, in_end) and
// out channels [out, out_end) of a group, over steps [step, step_end).
struct GradientTask {
    int64_t group, plane, in, in_end, out, out_end, step, step_end;
    GradientTaps taps;
    GradientRange columns;  // taps of the last axis
    float* sums;  // [tap][unit of out channels][unit of in channels][kBlock]; rows: in channels
};

struct GradientSizes {
    int64_t taps, pairs, units;  // pairs, units: of a step, the most
    int64_t in_units;  // units of in channels whose sums are kept
    int64_t in_halves, out_halves;  // the most halves of a task; of in channels those that are packed
    int64_t pitch, panel;  // bytes of a row of the left factor, of 16 columns of the right one
    int64_t tap, task;  // floats of the sums
};

// Whether a row is read a whole unit at a time, not pair by pair.
bool reads_units(const Bf16GradientParams& params) { return params.dot->step > 2; }

GradientSizes sizes_of(const Bf16GradientParams& params) {
    GradientSizes s;
    s.taps = params.most_rows * params.row_taps;
    const int64_t line = ceil_div(params.width, 2);
    s.pairs = params.lines * line;
    s.units = ceil_div(s.pairs, kUnitPairs);
    s.in_units = params.at_once ? 1 : params.in_units;
    s.in_halves = smaller(2 * s.in_units, ceil_div(params.in_channels, kHalf));
    s.out_halves = smaller(2 * params.out_units, ceil_div(params.out_channels, kHalf));
    s.pitch = s.units * 64 + 64;
    const int64_t epilogues = reads_units(params) ? params.most_rows * kUnitPairs : 0;
    s.panel = (params.slot_count * line + epilogues + 1) * kPairBytes;
    s.tap = s.in_units * params.out_units * kBlock;
    s.task = s.taps * s.tap;
    return s;
}

// The order in which taps are put together, by their strides in diff_weights. lines: of the last axis.
enum class TapOrder { columns, rows, taps, lines, none };

TapOrder order_of(const Bf16GradientParams& params) {
    const FilterWeights& w = params.weights;
    if (w.out_stride == 1) return TapOrder::columns;
    if (w.in_stride == 1) return TapOrder::rows;
    if (params.kernel[2] > 1 && w.tap_strides[2] != 1) return TapOrder::none;
    const bool all = params.tap_parts == 1 && params.row_parts == 1;
    return all && (params.kernel[1] == 1 || w.tap_strides[1] == params.kernel[2]) ? TapOrder::taps : TapOrder::lines;
}

// A line of src that meets a tap of the first axis: where it begins, and its image and place on the middle axis.
struct SrcLine {
    int64_t offset, image, z, y;
};

struct GradientMemory {
    int64_t bytes;
    SrcLine* places;
    char *lines, *left, *right;
    float *zeros, *sums;
};

GradientMemory divide(const Bf16GradientParams& params, char* memory) {
    const GradientSizes s = sizes_of(params);
    ScratchCarver carver(memory);
    GradientMemory m;
    m.places = carver.take<SrcLine>(params.lines);
    m.lines = carver.take<char>(s.units * kUnitPairs * kPairBytes);
    m.left = carver.take<char>(s.in_halves * kHalf * s.pitch);
    m.right = carver.take<char>(params.row_taps * s.out_halves * s.panel);
    m.zeros = carver.take(kDotColumns);
    m.sums = carver.take(params.step_parts == 1 ? s.task : 0);
    m.bytes = carver.bytes;
    return m;
}

}  // namespace
}  // namespace dgo::DGO_ISA
