// The sizes on which packing, products and transforms agree.
#pragma once

#include "kernels/isa/product/gemm_tile.hpp"
#include "kernels/product/params.hpp"

namespace dgo::DGO_ISA {

constexpr int64_t kFilterChunk = 64;  // columns multiplied and transformed back together

constexpr int kMaxLength = 27;  // taps of a filter, outputs of a tile: three per axis, or four on two

inline int64_t segment_count(const PackParams& params) {
    return params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
}

// Returns the channels of a segment in a row of the left factor; where words are multiplied, rounded up to whole
// vectors and units of the depth.
inline int64_t left_depth(const ProductParams& params) {
    return params.dot != nullptr ? round_up(params.src.channels, kBf16Unit) : params.src.channels;
}

// Returns the elements between rows of the left factor: whole vectors, and not a multiple of 4 KB, at which rows would
// share one set of the cache.
inline int64_t left_stride(const ProductParams& params) {
    if (params.dot != nullptr) {
        const int64_t depth = params.src.segments * left_depth(params);
        return depth % 512 == 0 ? depth + 32 : depth;
    }
    // The last vector of a segment is stored whole.
    const int64_t spill = params.src.channels % kLanes == 0 ? 0 : kLanes;
    const int64_t depth = round_up(params.src.segments * params.src.channels + spill, kLanes);
    return depth % 512 == 0 ? depth + 16 : depth;
}

// Returns the floats from one plane to the next: the values of an element in all planes lie in different sets of the
// cache.
constexpr int64_t plane_stride(int64_t floats) { return round_up(floats, 1024) + 64; }

}  // namespace dgo::DGO_ISA
