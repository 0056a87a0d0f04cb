// The vector code of depthwise kernels: a table of functions for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/epilogue/vtable.hpp"

namespace dgo {

// Taps of one kernel row whose sources lie at equal distances: unit u = output * advance + tap is at src + u * unit and
// exists from `begin` to `end`.
struct GatherSegment {
    const char* src;  // the address of unit 0, whether or not it exists
    const float* weights;
    int64_t begin, end;
};

// Segments of equally many taps: 1 to 5 or 7, at most DepthwiseCode::most_taps.
struct GatherPart {
    const GatherSegment* segments;
    int64_t count, taps;
};

// `outputs` results at equal distances, each over all channels: result = bias + the sum over the parts' taps and over
// the channels of a group of source * weights. Steps count elements.
struct GatherRun {
    int64_t channels, readable;  // readable: channels from the first one that a source has
    int64_t head;                // channels before the first aligned one; 0 for groups
    int64_t width;               // channels of a group; 1: depthwise
    bool turned;                 // the weights are, for groups of 4 or 8 channels
    int64_t first;               // channel of the layer: groups wider than a vector begin before a run may
    int64_t outputs;
    int64_t advance;             // 1 or 2
    int64_t unit, dst_step;
    int64_t tap_step, input_step;  // weights between taps; between source channels of a group
    GatherPart parts[2];  // the second part may be empty
    const float* bias;             // null: none
    char* dst;
    FusedActivation activation;
    // 8-bit sources with f32 results: a value is (byte ^ flip) - zero.
    uint32_t flip = 0;
    int32_t zero = 0;
};
constexpr int64_t kMostGathered = 256;  // channels of a run with two parts

// `count` outputs at equal distances, each over all channels: bias + the sum over taps of src[tap] (q steps further).
struct ChannelsRun {
    int64_t channels, count, taps;
    const char* const* src;      // f32
    int64_t src_step, dst_step;  // elements from one output to the next
    const float* bias;           // null: none
    char* dst;
};

// dst[q] = the sum over taps of src[tap][q] * weights[tap], for one channel and neighbouring outputs, f32 in and out.
struct SpaceRun {
    int64_t count, taps;
    const float* const* src;
    const float* weights;
    float bias;
    float* dst;
};

// GatherSegment for a row of diff_dst; `sums` belong to the first tap.
struct GradientSegment {
    const char* diff;
    float* sums;
    int64_t begin, end;  // no less than `begin`; equal where the row of diff_dst does not exist
};

// A row of `count` positions of src and its `number` segments; all rows of a run have the same sums.
struct GradientRow {
    const char* src;
    int64_t count;
    const GradientSegment* segments;
};

// sums[tap][channel] += the sum over rows and positions q < count of src[q] * diff[unit q * advance + tap]. Of groups:
// sums[tap][channel of src][channel of diff], of each channel of src those of the channels of its group.
struct ChannelsGradient {
    int64_t channels;
    int64_t head;  // channels before the first one that is aligned
    int64_t width, first, readable;  // as in GatherRun
    int64_t advance, taps;
    int64_t src_step, unit, sums_step, channel_step;  // elements; of the sums: from tap to tap, from channel to channel
    const GradientRow* rows;
    int64_t row_count, number;
};

// sums[tap] += the sum over neighbouring positions of src * diff[tap], for one channel.
struct SpaceGradient {
    int64_t count, taps;
    const float* src;
    const float* const* diff;
    float* sums;
};

struct DepthwiseCode {
    int64_t min_channels;  // fewest channels of the functions over channels
    int64_t lanes;  // fewest channels of segments with several taps
    int64_t most_taps[2];  // taps of a segment: depthwise; of groups
    void (*gather[4])(const GatherRun&);  // the last function: depthwise, 8 bits
    void (*sum_channels[3])(const ChannelsRun&);
    void (*channels_gradient[3])(const ChannelsGradient&);
    void (*space)(const SpaceRun&);
    void (*space_gradient)(const SpaceGradient&);
};

// Returns the index of a type into the arrays above.
inline int float_index(ElementType type) { return type == ElementType::f32 ? 0 : type == ElementType::bf16 ? 1 : 2; }

}  // namespace dgo
