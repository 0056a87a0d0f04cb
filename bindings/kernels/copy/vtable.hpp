// What the copies ask of the vector code.
#pragma once

#include <cstdint>

#include "kernels/cell.hpp"

namespace dgo {

// A two-dimensional block of a copy; strides in elements.
struct CopyBlock {
    int64_t n0, n1;
    int64_t src0, src1;
    int64_t dst0, dst1;
};
using BlockFn = void (*)(const char* src, char* dst, const CopyBlock& block);

// What a block function may rely on.
enum class BlockKind {
    rows,        // src1 == dst1 == 1
    transposed,  // src0 == dst1 == 1
    broadcast,   // src1 == 0, dst1 == 1
    strided,     // nothing
};

// Null for a pair of cells that is not converted. One function for all instruction sets, of AVX2 alone: blocks are
// moved by eight lanes.
BlockFn copy_block(BlockKind kind, Cell src, Cell dst);

}  // namespace dgo
