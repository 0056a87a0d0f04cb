// The parameters of the vector code of dgrad and fprop, and of its packing: plain data, the same for f32, bf16 and 8 bits.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"
#include "kernels/epilogue/call.hpp"
#include "kernels/product/dot.hpp"
#include "kernels/product/problem.hpp"

namespace dgo {

// One axis of a tile: points of a window; taps of a filter, or results of a tile. The first shape is direct convolution.
struct TileShape {
    int points, length;
};
constexpr int kShapes = 8;
constexpr TileShape kShapeSizes[kShapes] = {{1, 1}, {3, 2}, {4, 2}, {4, 3}, {5, 2}, {5, 4}, {6, 3}, {6, 4}};
constexpr int64_t kLargeTile = 3;  // results; larger tiles have coefficients that round, and go with their like only

// One side of a product: `segments` images interleaved in memory by stride, each of `channels` contiguous ones.
// Position i of segment g on axis a is element step[a] * i + first[g][a], absent outside [0, size[a]).
// `fold` segments that follow each other on the last axis and in memory are one run of fold * channels elements.
struct FilterImage {
    ElementType type;
    int64_t item;
    int64_t channels, segments;  // channels of one group
    int64_t fold, run, runs;  // fold * channels, segments / fold
    bool gapless;  // the runs of neighbouring positions follow each other in memory
    int64_t batch_stride;
    Axes strides, step, size;
    const Axes* first;
};

// Segments of dst whose tiles share their windows: `tiles` on each axis from position `base`. Their columns follow each
// other, channels fastest.
struct TargetGroup {
    const int32_t* targets;
    int64_t target_count;
    Axes base, tiles;
    int64_t first_task, blocks, parts;  // with shared tiles the blocks and parts of a plane's products
    int64_t window_blocks, window_parts, result_blocks;  // with shared tiles: of the stages before and after products
    bool folded;  // the targets are whole runs of the destination
    int64_t packed;  // offset of its weights in those of one group of channels
};

constexpr int64_t kKeptRuns = 16;  // runs of lines in scratch memory that further lines of results look for
constexpr int64_t kRunStep = 64;  // parts of a run begin at a multiple: the last vector of a run is stored whole

// Dgrad and fprop: dst tiles = inverse(transform(src windows) * packed).
struct ProductParams {
    const Dot* dot;  // the set that multiplies bf16 or 8 bits; null: f32
    FilterImage src, dst;
    int64_t batch, channel_groups;
    Axes points, outputs;  // per axis
    ShapeIndex filter_shape[kFilterAxes], output_shape[kFilterAxes];
    int planes;
    const uint8_t* zero;  // [plane][source segment][target]: the transformed taps are all zero; null: never
    const TargetGroup* groups;
    int64_t group_count, tasks;  // tasks of one group of channels
    int64_t packed;  // weights of one group of channels
    int64_t block;  // tiles per task
    int64_t unit;  // tiles of which blocks consist, but for the last one
    int64_t tile_rows;  // rows in a tile of a set that multiplies tiles, else kDotRows
    int64_t shared;  // tiles of a group in memory that threads share, who do each stage together; 0: none
    bool strips;  // results are sums of rows a step apart, each of one run
    bool fetches_parts;  // panels of weights that stay near are multiplied by parts of the depth
    int64_t line_rows;  // rows of strips whose runs are copied to scratch memory at once, as f32; 0: runs lie in src
    int64_t scratch_per_thread;  // bytes
    int threads;
    ElementType bias_type;
    bool has_bias;
    FusedActivation activation;  // all of the post-ops, where sums are finished in registers; else nothing
};

struct Int8Params;

// The operands of a run. `integer` and all after it are for 8 bits only: vectors of all channels; points (zero points of
// the weights) may be null.
struct ProductCall {
    const char *src, *packed, *bias;
    EpilogueCall epilogue;
    const Int8Params* integer = nullptr;
    const float* scales = nullptr;
    const int32_t* points = nullptr;
    const char* residual = nullptr;  // laid out as dst; null: none
    const int32_t* totals = nullptr;  // the sum of each column of the packed weights
};

// The products of one type of operands by one algorithm.
struct ProductCode {
    int64_t (*scratch)(const ProductParams& params);  // bytes of a thread
    int64_t (*shared)(const ProductParams& params);  // bytes before those of the threads; null: none
    void (*run)(const ProductParams& params, const ProductCall& call, char* scratch, char* dst);
};

// The tap that position j of a filter holds, or -1: tap[axis][(segment * targets + target) * length + j].
struct TapTable {
    const int16_t* tap[kFilterAxes];
    Axes segments, targets, length;
};

// offset[tap] = the offset of each tap of one filter by the strides of the taps, -1 for an absent tap.
__attribute__((always_inline)) inline void tap_offsets(const TapTable& taps, const Axes& strides, int64_t segment,
                                                       int64_t target, int64_t* offset) {
    const int16_t* at[kFilterAxes];
    for (int a = kFilterAxes - 1; a >= 0; --a) {
        const int64_t s = segment % taps.segments[a], t = target % taps.targets[a];
        at[a] = taps.tap[a] + (s * taps.targets[a] + t) * taps.length[a];
        segment /= taps.segments[a];
        target /= taps.targets[a];
    }
    for (int64_t i = 0; i < taps.length[0]; ++i) {
        for (int64_t j = 0; j < taps.length[1]; ++j) {
            for (int64_t k = 0; k < taps.length[2]; ++k) {
                const bool absent = at[0][i] < 0 || at[1][j] < 0 || at[2][k] < 0;
                *offset++ = absent ? -1 : at[0][i] * strides[0] + at[1][j] * strides[1] + at[2][k] * strides[2];
            }
        }
    }
}

// Packed weights by Winograd: the transform in f32, rounded to bf16, or times `scale`, which makes integers whole words.
enum class PackedAs { f32, bf16, words };

struct PackParams {
    PackedAs as;
    int64_t unit;  // elements of the depth in a unit of bf16 or words
    float scale;  // of words
    const int32_t* points;  // of words: zero points of all out channels; null: 0
    int64_t n, k;  // channels that are columns and rows of a product
    int64_t channel_groups;
    TapTable taps;
    const TargetGroup* groups;
    int64_t group_count, packed;
    ElementType type;
    int64_t item, group_stride, n_stride, k_stride;
    Axes tap_strides;
    ShapeIndex shape[kFilterAxes];
    int planes;
    Axes kernel;
    int threads;
};

}  // namespace dgo
