// How each axis of a transposed convolution becomes windows, filters and results; the geometry of products.
#pragma once

#include <string>
#include <vector>

#include "kernels/division.hpp"
#include "kernels/epilogue/fitted.hpp"
#include "kernels/product/params.hpp"

namespace dgo {

// filter_length: the taps of one filter of a tiled axis, all taps of a phase or, of more than three, as many as the
// tile is for. filters: the number of filters that hold the taps of a phase.
int64_t filter_length(const FilterProblem& problem, int axis);
int64_t filters(const FilterProblem& problem, int axis);

// One axis. On a direct axis every tap, or every distinct shift of one, is a segment of the window; under minimal
// filtering the taps of a phase are one filter.
struct FilterAxis {
    int64_t length = 1, tile = 1, points = 1;  // taps of a filter, results of a tile, points of a window
    int64_t src_step = 1, dst_step = 1, dst_size = 1;
    std::vector<int64_t> src_first;  // per segment
    std::vector<int64_t> dst_first;  // per target
    std::vector<int16_t> tap;        // see TapTable

    int64_t segments() const { return static_cast<int64_t>(src_first.size()); }
    int64_t targets() const { return static_cast<int64_t>(dst_first.size()); }
    bool zero(int64_t point, int64_t segment, int64_t target) const;
};

// A group of targets of one axis whose tiles begin at the same position.
struct AxisGroup {
    std::vector<int64_t> targets;
    int64_t base = 0, tiles = 0;
};

// Returns one group of all targets with the same windows, or groups by first positions, which may take fewer tiles.
std::vector<AxisGroup> axis_groups(const FilterAxis& axis, bool apart);

// The axes together; combined indices run with the last axis fastest.
struct FilterLayout {
    FilterAxis axes[kFilterAxes];
    int64_t planes = 1, segments = 1, targets = 1;
    Axes points, tile, src_step, dst_step;
    ShapeIndex filter_shape[kFilterAxes], output_shape[kFilterAxes];
    std::vector<Axes> src_first, dst_first;
    std::vector<uint8_t> zero;  // [plane][segment][target]; empty if never

    int64_t target(int64_t i, int64_t j, int64_t k) const {
        return (i * axes[1].targets() + j) * axes[2].targets() + k;
    }
    TapTable taps() const;
};

// Returns why no kernel here takes the problem: an axis without such a kernel, stride or tile, or sizes beyond any
// array; empty if one does.
std::string axes_refusal(const FilterProblem& problem);
// Throws the text of axes_refusal unless it is empty.
void check_axes(const FilterProblem& problem);

// Returns an epilogue for results of this shape.
FittedEpilogue fitted_epilogue(const Epilogue& epilogue, int64_t batch, int64_t channels, const Axes& size,
                               const FilterTensor& dst);

FilterLayout dgrad_layout(const FilterProblem& problem);
FilterLayout fprop_layout(const FilterProblem& problem);

}  // namespace dgo
