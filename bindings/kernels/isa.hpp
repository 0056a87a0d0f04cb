// The vector code: functions that exist once per instruction set, and the choice between them.
#pragma once

#include "kernels/depthwise/vtable.hpp"
#include "kernels/filtering/vtable.hpp"
#include "kernels/overlap/vtable.hpp"
#include "kernels/rows/vtable.hpp"

namespace dgo {

struct VectorCode {
    const char* isa;
    const DepthwiseCode& depthwise;
    const FilterCode& filter;
    const OverlapCode& overlap;
    const RowCode& rows;
};

// The code for this CPU, chosen at the first call: what DNNL_GRAPH_OPS_ISA names (avx2, avx512), or else the widest
// that ONEDNN_MAX_CPU_ISA allows the library, too. An error where the CPU lacks what is asked for, or AVX2, FMA and F16C.
const VectorCode& vector_code();

}  // namespace dgo
