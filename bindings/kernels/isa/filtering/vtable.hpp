// The parts of minimal filtering's vector code, and the sizes that they agree on.
#pragma once

#include "kernels/filtering/vtable.hpp"
#include "kernels/isa/gemm_tile.hpp"

namespace dgo::DGO_ISA {

constexpr int64_t kFilterChunk = 64;  // columns multiplied and transformed back together

constexpr int kMaxLength = 27;  // taps of a filter, outputs of a tile: three per axis, or four on two

// Element offsets of the taps of one filter, -1 for an absent one.
inline void tap_offsets(const TapTable& taps, const Axes& strides, int64_t segment, int64_t target, int64_t* offset) {
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

// Channels of a segment in a row of the left factor: units of the depth where those are multiplied.
inline int64_t left_depth(const ProductParams& params) {
    return params.dot != nullptr ? round_up(params.src.channels, params.dot->unit) : params.src.channels;
}

// Rows of the left factor: whole vectors, and not a multiple of 4 KB apart, which would share one cache set.
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

// From one plane to the next: an element's values in all of them lie in different cache sets.
constexpr int64_t plane_stride(int64_t floats) { return round_up(floats, 1024) + 64; }

int64_t products_scratch(const ProductParams& params);
int64_t gradient_scratch(const GradientParams& params);
int64_t gradient_sums(const GradientParams& params);
void run_products(const ProductParams& params, const char* src, const char* packed, const char* bias, TailCall tail,
                  char* scratch, char* dst);
int64_t pack_scratch(const PackParams& params);
void run_pack(const PackParams& params, const char* weights, float* scratch, char* packed);
void run_gradient(const GradientParams& params, const char* src, const char* diff, char* scratch, char* weights);

}  // namespace dgo::DGO_ISA
