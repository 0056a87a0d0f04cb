// What one instruction set offers for products of integers of 8 bits, with sums in s32.
#pragma once

#include <cstdint>

#include "kernels/narrow/vtable.hpp"

namespace dgo {

// Activations -> rows of the left factor: dense positions of `pitch` elements.
struct IntegerRows {
    int64_t sizes[4], strides[4];  // of all axes but the channels, which are contiguous; in elements
    int64_t channels, pitch;
    Cell cell;
    int32_t zero;  // is subtracted where elements have 16 bits
    int threads;
};

struct IntegerCode {
    const char* isa;
    int64_t item;   // bytes of an element of rows and packed weights: 2 where both are widened
    int64_t depth;  // panels have multiples of so many elements
    int64_t (*products_scratch)(const ProductParams& params);  // bytes per thread
    void (*products)(const ProductParams& params, const NarrowCall& call, char* scratch, char* dst);
    // points: zero points of all out channels, to be subtracted here where elements have 16 bits, else null
    void (*pack)(const PackParams& params, const char* weights, const int32_t* points, char* packed, int32_t* totals);
    void (*rows)(const IntegerRows& params, const char* src, char* rows);
};

}  // namespace dgo
