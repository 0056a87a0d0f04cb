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

// The code for this CPU, chosen at the first call: what DNNL_GRAPH_OPS_ISA names (avx2, avx512), or else the widest
// that ONEDNN_MAX_CPU_ISA allows the library, too. An error where the CPU lacks what is asked for, or AVX2, FMA and F16C.
const VectorCode& vector_code();
// For example 'conv_fprop_f32_avx512_12x32': operation, type, instruction set, rows and columns of registers that hold sums.
std::string code_name(const std::string& operation, const char* isa, int64_t rows, int64_t columns);
// One by its name, or the one above without; to be read and never run: this CPU may lack what it is made of.
const VectorCode& vector_code_of(const std::string& isa);

}  // namespace dgo
