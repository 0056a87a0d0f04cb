// What the depthwise kernels ask of the vector code.
#pragma once

#include <cstdint>

#include "kernels/cell.hpp"

namespace dgo {

// `count` outputs at equal distances, each over all channels: output q = bias + the sum over taps of
// src[tap] (q steps further) * weights[tap].
struct ChannelsRun {
    int64_t channels, count, taps;
    const char* const* src;
    const float* const* weights;
    int64_t src_step, dst_step;  // elements from one output to the next
    const float* bias;           // null: none
    char* dst;
};

// The same for one channel and neighbouring outputs, f32 in and out.
struct SpaceRun {
    int64_t count, taps;
    const float* const* src;
    const float* weights;
    float bias;
    float* dst;
};

// sums[tap][channel] += the sum over q of src[q] * diff[tap][q].
struct ChannelsGradient {
    int64_t channels, count, taps;
    const char* src;
    const char* const* diff;
    int64_t src_step, diff_step;
    float* sums;
    int64_t sums_step;
};

// The same for one channel and neighbouring positions.
struct SpaceGradient {
    int64_t count, taps;
    const float* src;
    const float* const* diff;
    float* sums;
};

struct DepthwiseCode {
    int64_t min_channels;  // of the functions over channels
    void (*channels[3])(const ChannelsRun&);
    // Without weights (null), the sources f32.
    void (*sum_channels[3])(const ChannelsRun&);
    void (*channels_gradient[3])(const ChannelsGradient&);
    void (*space)(const SpaceRun&);
    void (*space_gradient)(const SpaceGradient&);
};

// Index into the arrays above.
inline int float_index(Cell cell) { return cell == Cell::f32 ? 0 : cell == Cell::bf16 ? 1 : 2; }

}  // namespace dgo
