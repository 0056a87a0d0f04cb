// Which instruction set multiplies integers of 8 bits, with exact sums in 32.
#pragma once

#include <string>

#include "kernels/integer/vtable.hpp"

namespace dgo {

// The code for this CPU, chosen at the first call, or null: what DNNL_GRAPH_OPS_INT8 names (avx512vnni, avx2words,
// emulatedint8 or none), or else avx512vnni before avx2words, as far as the CPU has it and ONEDNN_MAX_CPU_ISA and
// DNNL_GRAPH_OPS_ISA allow it.
const IntegerCode* integer_code();
// Why no better set is used; empty for avx512vnni and where a set was named.
const std::string& integer_reason();
// One that this CPU runs by its name, or the one above without; throws where there is none.
const IntegerCode& integer_code_of(const std::string& name);

}  // namespace dgo
