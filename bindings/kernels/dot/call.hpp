// The operands of a run of bf16 or 8-bit products.
#pragma once

#include <cstdint>

#include "kernels/epilogue/call.hpp"
#include "kernels/quotient.hpp"

namespace dgo {

// How sums in s32 become results. An element of the left factor stands for itself less `src_zero`.
struct Int8Params {
    int32_t src_zero = 0;
    float src_scale = 1;   // a factor of all scales
    bool sums = false;     // results are the sums, in s32
    int shift = 0;         // sums transformed back are 2^shift times those of the layer
    Quotient quotient;     // integer results are those of it
    int64_t panel_depth = 0;  // elements of the packed weights for each column
    int64_t pitch = 1;     // bytes of dst from one position to the next
};

// Scales and what follows them are of integers only: vectors of all channels, and the sums of what each position reads,
// for each group of channels; points (zero points of the weights) and sums may be null.
struct DotCall {
    const char *src, *packed, *bias;
    EpilogueCall epilogue;
    const Int8Params* integer = nullptr;
    const float* scales = nullptr;
    const int32_t* points = nullptr;
    const int32_t* sums = nullptr;
    const int32_t* totals = nullptr;  // of the columns of the packed weights
};

}  // namespace dgo
