// The parameters of the vector code of bf16 wgrad: plain data, set by gradient.cpp.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"
#include "kernels/product/dot.hpp"
#include "kernels/product/problem.hpp"

namespace dgo {

struct GradientRange {
    int64_t first, end;

    int64_t count() const { return end - first; }
};

// Taps of the middle axis that are summed together, in order, and the lines of diff_dst that they share.
struct GradientTaps {
    GradientRange rows, runs;
};

// Lines of diff_dst that some taps of the middle axis share: the first is line stride * i + shift for line i of src.
struct GradientLines {
    int64_t shift;
    int64_t more;  // lines beyond those of a step
    int64_t slot;
};

// Wgrad as sums over positions of src, a line of the last axis after the other: src put across is the left
// factor, diff_dst, a copy of its lines for each tap of the last axis, the right one. Strides count elements.
struct Bf16GradientParams {
    const Dot* dot;
    int64_t batch, groups;
    int64_t in_channels, out_channels;  // channels of one group
    Axes in, out, kernel, stride, pad, dilation;
    FilterTensor src, diff;
    const GradientRange *planes,
        *columns;  // positions of src that meet diff_dst, for each tap of the first and last axis
    const GradientTaps* taps;
    int64_t tap_parts;
    const int64_t *rows, *slots;  // for each of `taps`: the tap; its first line
    const GradientLines* runs;
    int64_t most_rows, slot_count;  // the most rows of one of `taps`; slots of all
    int64_t row_taps, row_parts;  // taps of the last axis in a pass; passes
    // A step: `lines` lines of src of `width` positions; `across` planes, or within one plane.
    int64_t lines, width, line_steps, width_steps;
    bool across;
    // Blocks of 32 channels of a task, which has one tap of the first axis; the number of parts of in channels, of out
    // channels and of steps.
    int64_t in_units, out_units, in_parts, out_parts, step_parts;
    bool at_once;  // all positions are one step: sums of 32 in channels are written before the next begin
    int64_t scratch_per_thread, sums;  // bytes; sums: offset of those of parts of the steps
    int threads;
    ElementType weights_type;
    int64_t weights_item;
    FilterWeights weights;
};

}  // namespace dgo
