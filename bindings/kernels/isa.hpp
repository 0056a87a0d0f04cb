// The vector code: functions that exist once per instruction set, and the choice between them.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/attention/vtable.hpp"
#include "kernels/elementwise/vtable.hpp"
#include "kernels/copy/vtable.hpp"
#include "kernels/depthwise/vtable.hpp"
#include "kernels/dot/vtable.hpp"
#include "kernels/filtering/vtable.hpp"
#include "kernels/norm/vtable.hpp"
#include "kernels/col2im/vtable.hpp"
#include "kernels/recurrent/vtable.hpp"
#include "kernels/rows/vtable.hpp"
#include "kernels/few_channels/vtable.hpp"
#include "kernels/epilogue/vtable.hpp"
#include "kernels/window/vtable.hpp"

namespace dgo {

struct VectorCode {
    const char* isa;
    int64_t lanes;  // floats of a vector
    const AttentionCode& attention;
    const ElementwiseCode& chain;
    const CopyCode& copy;
    const DepthwiseCode& depthwise;
    const DotCode& dot;
    const FilterCode& filter;
    const NormCode& norm;
    const Col2imCode& col2im;
    const RecurrentCode& recurrent;
    const RowCode& rows;
    const FewChannelsCode& few_channels;
    const EpilogueCode& epilogue;
    const WindowCode& window;
};

// Returns the code for this CPU, chosen at the first call: the set that DNNL_GRAPH_OPS_ISA names (avx2, avx512), or
// else the widest one that ONEDNN_MAX_CPU_ISA allows the library, too. Throws if the CPU lacks the named set, or AVX2,
// FMA and F16C.
const VectorCode& vector_code();
// For example 'conv_fprop_f32_avx512_12x32': operation, type, instruction set, rows and columns of registers that hold sums.
std::string code_name(const std::string& operation, const char* isa, int64_t rows, int64_t columns);
// Returns the code of a set by its name, or vector_code() for an empty name; only to be read: this CPU may lack its
// instructions.
const VectorCode& vector_code_of(const std::string& isa);

}  // namespace dgo
