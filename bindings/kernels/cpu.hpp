// What this CPU has, and what the environment allows of it: asked here, for all own kernels.
#pragma once

#include <string>

namespace dgo {

// A group of instructions that some set of own kernels is made of.
enum class Needs { avx2, avx512, bf16_pairs, bf16_tiles, byte_quads, short_byte_quads, byte_tiles, test_sets };

// Why such code does not run here, for want of instructions, of registers that the operating system saves or, of sets
// that only tests use, of this build; empty: it does.
std::string refusal(Needs needs);
// What keeps the library from such instructions, and these kernels, too: ONEDNN_MAX_CPU_ISA, DNNL_MAX_CPU_ISA or, of all
// beside `avx512`, DNNL_GRAPH_OPS_ISA, as "<variable> is <value>"; empty: nothing.
std::string limit(Needs needs);
// An environment variable, or empty.
std::string variable(const char* name);

}  // namespace dgo
