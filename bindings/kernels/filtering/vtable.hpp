// The functions of the vector code of f32 products, and the parameters of wgrad: plain data, set by filter_product.cpp.
#pragma once

#include <cstdint>

#include "kernels/product/params.hpp"

namespace dgo {

constexpr int64_t kShortLine = 16;  // positions, for which sums of a line are loaded and stored once

// Wgrad: per plane, U^T V summed over the tiles.
struct GradientParams {
    FilterImage src, diff;  // windows of src have `window` positions, those of diff_dst `points`
    int64_t batch, channel_groups;
    Axes points, window, tiles;
    ShapeIndex window_shape[kFilterAxes], tap_shape[kFilterAxes];
    int planes;
    const uint8_t* zero;  // [plane][segment of diff]; null: never
    int64_t block;  // tiles per step
    int64_t row_parts, column_parts, tile_parts;  // parts of the in channels, of (segment, out channel), of the tiles
    bool in_items;  // all tiles in one step, and what it sums is finished at once
    bool in_lines;  // lines of both tensors are multiplied where they lie
    bool streams;  // taps are written past the caches
    int64_t scratch_per_thread, sums;  // bytes; sums: offset of the accumulators
    int threads;
    TapTable taps;
    Axes kernel;
    ElementType weights_type;
    int64_t weights_item, group_stride, in_stride, out_stride;
    Axes tap_strides;
};

struct FilterCode {
    int64_t panel;  // columns of a packed panel
    int64_t rows;  // rows of a register tile
    int64_t chunk;  // columns of a task step
    const ProductCode& products;
    int64_t (*gradient_scratch)(const GradientParams& params);
    int64_t (*gradient_sums)(const GradientParams& params);  // bytes of all accumulators
    int64_t (*pack_scratch)(const PackParams& params);  // floats per thread
    void (*pack)(const PackParams& params, const char* weights, float* scratch, char* packed);
    void (*gradient)(const GradientParams& params, const char* src, const char* diff, char* scratch, char* weights);
};

}  // namespace dgo
