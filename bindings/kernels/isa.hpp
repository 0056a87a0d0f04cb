// The vector code: functions that exist once per instruction set, and the choice between them.
#pragma once

#include <cstdint>

#include "kernels/cell.hpp"
#include "kernels/depthwise/vtable.hpp"
#include "kernels/filtering/vtable.hpp"
#include "kernels/overlap/vtable.hpp"
#include "kernels/rows/vtable.hpp"

namespace dgo {

// A two-dimensional piece of a copy; strides in elements.
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

struct VectorCode {
    const char* isa;
    BlockFn (*block)(BlockKind kind, Cell src, Cell dst);
    const DepthwiseCode& depthwise;
    const MinimalFilterCode& minimal_filter;
    const OverlapCode& overlap;
    int64_t (*row_product_room)();
    RowProductFn row_product;
};

// The code for this CPU, chosen at the first call: what DNNL_GRAPH_OPS_ISA names (avx2, avx512), or else the widest
// that ONEDNN_MAX_CPU_ISA allows the library, too. An error where the CPU lacks what is asked for, or AVX2, FMA and F16C.
const VectorCode& vector_code();

}  // namespace dgo
