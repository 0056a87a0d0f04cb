// Integers of 8 bits -> integers of another scale, alone or as the sum or product of two.
#pragma once

#include "kernels/epilogue/vtable.hpp"
#include "kernels/quotient.hpp"

namespace dgo::DGO_ISA {

// (x - zero) * scale for each of some integers, s8 or u8.
struct Dequantized {
    const char* at;
    bool is_signed;
    float zero, scale;
};

// Quotients of `left`, or of op(left, right), which is a sum or a product; each operation is rounded to f32.
void requantize(EpilogueOp op, const Dequantized& left, const Dequantized& right, const Quotient& by, bool signs,
                int64_t count, char* to);

// Quotients of x > 0 ? x : x * slopes[i * step], of dequantized x; step: 1, or 0 where all lanes hold one slope.
// gentle: no slope is above 1 or below -1.
void requantize_prelu(const Dequantized& of, const float* slopes, int64_t step, bool gentle, const Quotient& by,
                      bool signs, int64_t count, char* to);

}  // namespace dgo::DGO_ISA
