// The vector code of element-wise groups: a table of functions for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/epilogue/vtable.hpp"
#include "kernels/quotient.hpp"

namespace dgo {

constexpr int kElementwiseOperands = 32;

// A tensor's part in a block: the address of its first element, and strides in elements.
struct ElementwiseSide {
    char* at;
    ElementType
        type;  // f32, bf16 or f16, or u8 or s8: whole numbers, of results the nearest (ties to even) that there is
    int64_t row, column;
};

// Steps that are one function of rows of f32: y = activation(x * factor + term).
struct ElementwiseAffine {
    int x = -1, factor = -1, term = -1;  // numbers of operands; -1: there is none
    FusedActivation activation{};
};

struct ElementwiseBlock {
    const EpilogueStep* steps;  // only the last one writes register 0, where nothing is at first
    int64_t count;
    const ElementwiseSide* operands;
    int64_t operand_count;
    ElementwiseSide dst;
    int64_t rows, columns;
    bool joined;  // rows of dst follow each other in memory, and are too short to be taken one by one
    bool vast;    // dst is written past the caches
    const ElementwiseAffine* affine;  // all steps at once, or null
    const Quotient* proven;  // of the scale of a Quantize at the end of the steps, without its zero point; null: none
    float* scratch;
};

struct ElementwiseCode {
    int64_t most_joined;  // columns of rows that are joined
    // Returns the scratch floats of a block of `operands` operands.
    int64_t (*scratch)(int64_t operands);
    void (*run)(const ElementwiseBlock& block);
    // to[i] = table[from[i]] of bytes in rows, a table of 256; both may be the same place.
    void (*look_up)(const uint8_t* table, const char* from, int64_t from_row, int64_t rows, int64_t columns, char* to,
                    int64_t to_row);
};

}  // namespace dgo
