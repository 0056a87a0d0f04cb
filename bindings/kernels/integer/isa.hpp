// Which instruction set multiplies integers of 8 bits, with exact sums in 32.
#pragma once

#include <string>

#include "kernels/integer/vtable.hpp"

namespace dgo {

// The code for this CPU, chosen at the first call, or null: what DNNL_GRAPH_OPS_INT8 names, or else the first of amxint8,
// avx512vnni, avxvnni and avx2words that the CPU and the operating system have and that ONEDNN_MAX_CPU_ISA and
// DNNL_GRAPH_OPS_ISA allow.
const IntegerCode* integer_code();
// Why no better set is used; empty for amxint8 and where a set was named.
const std::string& integer_reason();
// One that this CPU runs by its name, or the one above without; throws where there is none.
const IntegerCode& integer_code_of(const std::string& name);

}  // namespace dgo
