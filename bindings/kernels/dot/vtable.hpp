// Functions of the vector code for products of bf16 and 8 bits, the same for all sets that multiply.
#pragma once

#include <cstdint>

#include "kernels/dot/call.hpp"
#include "kernels/product/dot.hpp"
#include "kernels/product/params.hpp"

namespace dgo {

struct Bf16GradientParams;

// A tap of the weights: the element where its channels begin (from), the byte of the first panel that takes them (to;
// below zero: none), and the column of the first of them.
struct DotTap {
    int64_t from, to, column;
};

struct DotPackParams {
    PackParams weights;
    const DotTap* taps;
    int64_t tap_count, run;  // run: so many lie side by side in memory and are packed together; 0: channels do
};

// rows[position][before + c] = src[position][c]: activations of 8 bits as rows of the left factor, dense positions of
// `pitch` elements. The first `before` elements and those after the channels are the zero point.
struct Int8Rows {
    int64_t sizes[4], strides[4];  // all axes but the contiguous channels; in elements
    int64_t channels, pitch, before;
    ElementType type;
    int32_t zero;  // the zero point that words lose
    int threads;
};

// Sums of some channels of neighbouring positions, and their results. Scales, bias and sums have 32 more readable
// elements.
struct Int8Positions {
    const Int8Params* integer;
    const float *scales, *bias;
    ElementType type;
    int64_t count, channels;
    int32_t* sums;
    int64_t step, pitch;  // between positions: elements of sums; bytes of dst
    char* dst;
    bool floats = false;  // sums are whole numbers in f32
    bool joined = false;  // positions follow each other, in sums and in dst; scales and bias begin again after the last
};

struct DotGradient {
    int64_t (*scratch)(const Bf16GradientParams& params);  // bytes per thread
    int64_t (*sums)(const Bf16GradientParams& params);  // bytes of all sums, where the steps have parts
    void (*run)(const Bf16GradientParams& params, const char* src, const char* diff, char* scratch, char* weights);
};

struct DotCode {
    const ProductCode &bf16, &int8, &int8_filtering;
    const DotGradient& gradient;
    // Packs weights. points: zero points of all out channels, subtracted here where 8 bits become 16, else null;
    // totals: the sum of each column of 8 bits.
    void (*pack)(const Dot& dot, const DotPackParams& params, const char* weights, const int32_t* points, char* packed,
                 int32_t* totals);
    void (*int8_rows)(const Dot& dot, const Int8Rows& params, const char* src, char* rows);
    // Makes floats of sums in place (scale), results of floats (round), or both.
    void (*int8_positions)(const Int8Positions& positions, bool scale, bool round);
};

}  // namespace dgo
