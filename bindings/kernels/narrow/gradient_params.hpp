// What the vector code of narrow backward weights is given: plain data, laid out by gradient.cpp.
#pragma once

#include <cstdint>

#include "kernels/cell.hpp"
#include "kernels/filtering/filter_product.hpp"

namespace dgo {

struct NarrowRange {
    int64_t first, end;
};

// Lines of diff_dst that some taps of the middle axis share: the first is line stride * i + shift for line i of src.
struct NarrowLines {
    int64_t shift;
    int64_t more;  // beyond those of a step
    int64_t slot;
};

// Backward weights as sums over positions of src, a line of the last axis after the other: src put across is the left
// factor, diff_dst, a copy of its lines for each tap of the last axis, the right one. Strides count elements.
struct NarrowGradientParams {
    int64_t batch, groups;
    int64_t in_channels, out_channels;  // of one group
    Axes in, out, kernel, stride, pad, dilation;
    FilterTensor src, diff;
    const NarrowRange *planes,
        *columns;  // positions of src that meet diff_dst, for each tap of the first and last axis
    const NarrowLines* runs;
    int64_t run_count;
    const int64_t* slots;  // of each tap of the middle axis its first
    int64_t slot_count;
    // A step: so many lines of src, of as many positions; `across` planes, or of one plane.
    int64_t lines, width, line_steps, width_steps;
    bool across;
    // Blocks of 32 channels of a task, of which one takes one tap of the first axis; the parts of the channels and steps.
    int64_t in_units, out_units, in_parts, out_parts, step_parts;
    int64_t scratch_per_thread, sums;  // bytes; sums: offset of those of parts of the steps
    int threads;
    Cell weights_cell;
    int64_t weights_item;
    FilterWeights weights;
};

}  // namespace dgo
