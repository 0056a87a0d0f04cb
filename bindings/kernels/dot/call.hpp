// The parameters of results of 8-bit products.
#pragma once

#include <cstdint>

#include "kernels/quotient.hpp"

namespace dgo {

// A residual: an element x stands for (x - zero) * scale and is read as 0 to 255, an s8 with 128 added. The sum adds it
// to the result, which `inner` has rounded to integers before.
struct Int8Residual {
    Quotient inner;
    bool is_signed = false;
    float zero = 0, scale = 1;
};

// The parameters that make results of sums in s32. An element x of the left factor stands for x - src_zero.
struct Int8Params {
    int32_t src_zero = 0;
    float src_scale = 1;   // a factor of all scales
    bool sums = false;  // results are the sums themselves, in s32
    int shift = 0;         // sums transformed back are 2^shift times those of the layer
    Quotient quotient;  // the quotient that makes results of 8 bits
    Int8Residual residual;
    int64_t panel_depth = 0;  // elements of the packed weights for each column
    int64_t channels = 0;  // channels of src that weights are for
};

}  // namespace dgo
