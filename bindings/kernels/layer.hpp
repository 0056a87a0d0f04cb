// A layer that treats its channels alike, as depthwise, im2col and few-channel kernels see it.
#pragma once

#include "kernels/kernel.hpp"

namespace dgo {

// The sizes of a layer that treats its channels alike; src and dst are those of the transposed convolution in all
// directions.
struct LayerSizes {
    static constexpr const char* kClass = "LayerSizes";
    int64_t n, c;
    Dims src_spatial, dst_spatial, kernel, strides, pads_begin, dilations;
};

}  // namespace dgo
