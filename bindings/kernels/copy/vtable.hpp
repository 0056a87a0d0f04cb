// The vector code of copies: a table of functions for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"

namespace dgo {

// Rows that are more than one axis: row i lies at i / size * step + i % size * (its own stride). Size 0: one axis.
struct CopyFold {
    int64_t size = 0, step = 0;
};

// A two-dimensional block of a copy; strides in elements.
struct CopyBlock {
    int64_t n0, n1;
    int64_t src0, src1;
    int64_t dst0, dst1;
    CopyFold fold0{}, fold1{};  // folds of dst's rows; of src's, where the block is transposed
    bool cached = false;        // both sides are likely to be in the second cache
};
using BlockFn = void (*)(const char* src, char* dst, const CopyBlock& block);

// Properties of blocks that a block function may rely on.
enum class BlockKind {
    rows,        // src1 == dst1 == 1
    transposed,  // src0 == dst1 == 1
    broadcast,   // src1 == 0, dst1 == 1
    strided,     // nothing
};

struct CopyCode {
    // Returns null for a pair of elements that is not converted.
    BlockFn (*block)(BlockKind kind, ElementType src, ElementType dst);
};

// Returns the block function of this CPU.
BlockFn copy_block(BlockKind kind, ElementType src, ElementType dst);

}  // namespace dgo
