// What the vector code of minimal filtering is given: plain data, laid out by minimal_filter.cpp.
#pragma once

#include <cstdint>

#include "cell.hpp"
#include "minimal_filter.hpp"

namespace dgo {

// Index of (point count, filter length or output count) of one axis: plain, (3, 2), (4, 2), (4, 3).
using ShapeCode = int;
constexpr int kShapeCodes = 4;

// One side of a product: `segments` images interleaved in memory by stride, each of `channels` contiguous ones.
// Position i of segment g on axis a is element step[a] * i + first[g][a], absent outside [0, size[a]).
struct FilterImage {
        Cell cell;
        int64_t item;
        int64_t channels, segments;
        int64_t batch_stride;
        Axes strides, step, size;
        const Axes* first;
};

// Segments of the destination whose tiles share their windows: `tiles` per axis from position `base`.
struct TileGroup {
        const int32_t* targets;
        int64_t target_count;
        Axes base, tiles;
        int64_t first_task, blocks, parts;
};

// Forward and backward data: dst tiles = inverse(transform(src windows) * packed).
struct ProductPlan {
        FilterImage src, dst;
        int64_t batch;
        Axes points, outputs;  // per axis
        ShapeCode filter_shape[kFilterAxes], output_shape[kFilterAxes];
        int planes;
        const uint8_t* zero;  // [plane][phase]: the transformed taps are all zero
        bool zero_by_target;  // the phase is that of the target (forward), else that of the source segment
        const TileGroup* groups;
        int64_t group_count, tasks;
        int64_t block;  // tiles per task
        int64_t scratch_per_thread;  // bytes
        int threads;
        Cell bias_cell;
        bool has_bias;
};

struct PreparePlan {
        int64_t n, k;  // columns and rows of one product
        int64_t segments, targets;
        Cell cell;
        int64_t item, n_stride, k_stride;
        Axes tap_strides, taps;  // taps: the longest phase
        const Axes* first_tap;   // per phase
        const Axes* tap_count;   // per phase
        Axes stride;             // taps of one phase are this far apart
        bool flip;               // windows run against the taps
        ShapeCode shape[kFilterAxes];
        int planes;
};

// Backward weights: per plane, U^T V summed over the tiles.
struct GradientPlan {
        FilterImage src, diff;  // windows of src have `filter` positions, those of diff_dst `points`
        int64_t batch;
        Axes points, window, taps, tiles;
        ShapeCode window_shape[kFilterAxes], tap_shape[kFilterAxes];
        int planes;
        const uint8_t* zero;
        int64_t block;                           // tiles per step
        int64_t row_parts, column_parts, tile_parts;  // of in channels, of (phase, out channel), of tiles
        int64_t scratch_per_thread, sums;        // bytes; sums: offset of the accumulators
        int threads;
        Cell weights_cell;
        int64_t weights_item, in_stride, out_stride;
        Axes tap_strides, stride;
        const Axes* first_tap;
        const Axes* tap_count;
};

struct MinimalFilterCode {
        int64_t panel;  // columns of a packed panel
        int64_t rows;   // rows of a register tile
        int64_t chunk;  // columns of a task step
        int64_t (*products_scratch)(const ProductPlan& plan);  // bytes per thread
    int64_t (*gradient_scratch)(const GradientPlan& plan);
    int64_t (*gradient_sums)(const GradientPlan& plan);  // bytes of all accumulators
    void (*products)(const ProductPlan& plan, const char* src, const float* packed, const char* bias, char* scratch,
                                      char* dst);
        void (*prepare)(const PreparePlan& plan, const char* weights, float* packed);
        void (*gradient)(const GradientPlan& plan, const char* src, const char* diff, char* scratch, char* weights);
};

}  // namespace dgo
