// The parameters of depthwise sums of 8 bits: plain data, set by kernels/depthwise/int8.cpp.
#pragma once

#include <cstdint>

namespace dgo {

// Channels of a block, in vectors, and outputs that are summed at once: memory has room for all of them. Rows of the
// kernel in a step: as many as an instruction sums up.
constexpr int64_t kDepthwiseVectors = 4, kDepthwiseOutputs = 4, kDepthwiseRows = 4;

// mixed[position][step][channel of the block][row of the step] = rows of src. Positions outside of [begin, end) and rows
// that are null have the filling.
struct DepthwiseMix {
    const char* const* rows;  // addresses of position 0
    int64_t row_count, pitch;  // bytes from one position to the next
    int64_t positions, begin, end;
    int64_t readable;  // bytes of the last position that may be read
    uint8_t flip, filling;  // flip: bits of src
    int64_t fetched, ahead;  // the last `fetched` rows are prefetched `ahead` bytes further
    char* mixed;
};

// sums[output][channel] = start[channel] + the sum over taps of mixed, `taps` bytes from the output's first, times weights
// [tap][step][channel][row of the step]; `advance`: bytes of mixed from one output to the next.
struct DepthwiseSum {
    const char *mixed, *weights;
    const int64_t* taps;
    int64_t tap_count, steps, advance, outputs, channels;
    const int32_t* start;
    int32_t* sums;
};

struct DotDepthwise {
    int64_t lanes;
    void (*mix)(const DepthwiseMix&);
    void (*sum)(const DepthwiseSum&);
};

}  // namespace dgo
