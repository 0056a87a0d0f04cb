// The CPU's instruction sets and the limits of environment variables; no other file asks for them.
#pragma once

#include <string>

namespace dgo {

// A group of instructions that some set of builtin kernels is made of.
enum class Needs { avx2, avx512, bf16_pairs, bf16_tiles, byte_quads, short_byte_quads, byte_tiles, test_sets };

// Returns why such code does not run here: missing instructions, registers that the operating system does not save or,
// for sets that only tests use, this build; empty if it runs.
std::string refusal(Needs needs);
// The environment variable that forbids such instructions, as "<variable> is <value>"; empty: none does.
// ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA limit all sets, DNNL_GRAPH_OPS_ISA all but `avx512`.
std::string limit(Needs needs);
// Returns the value of an environment variable, or empty.
std::string variable(const char* name);

}  // namespace dgo
