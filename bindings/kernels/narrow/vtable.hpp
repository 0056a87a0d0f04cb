// What one instruction set offers for narrow products: operands in bf16, sums in f32.
#pragma once

#include <cstdint>

#include "kernels/filtering/vtable.hpp"
#include "kernels/narrow/call.hpp"

namespace dgo {

// Of the packed weights, the same for all sets: columns of a panel, and what the channels of a segment are rounded up to.
constexpr int64_t kNarrowPanel = 32, kNarrowDepth = 32;
constexpr int64_t kNarrowBlockRows = 32;  // of a block in registers

struct NarrowGradientParams;

// A tap of the weights: where its channels begin, where they go in the first panel (below zero: nowhere), and the column
// of the first of them.
struct NarrowTap {
    int64_t from, to, column;
};

struct NarrowPackParams {
    PackParams weights;
    const NarrowTap* taps;
    int64_t tap_count, run;  // run: so many lie side by side in memory and are packed together; 0: channels do
};

// The params of products are those of the direct form; src and the weights are bf16.
struct NarrowCode {
    const char* isa;
    int64_t (*products_scratch)(const ProductParams& params);  // bytes per thread
    void (*products)(const ProductParams& params, const NarrowCall& call, char* scratch, char* dst);
    void (*pack)(const NarrowPackParams& params, const char* weights, char* packed);
    int64_t (*gradient_scratch)(const NarrowGradientParams& params);  // bytes per thread
    int64_t (*gradient_sums)(const NarrowGradientParams& params);  // bytes of all sums, where the steps have parts
    void (*gradient)(const NarrowGradientParams& params, const char* src, const char* diff, char* scratch,
                     char* weights);
};

}  // namespace dgo
