// Which instruction set multiplies bf16 in narrow products: operands in bf16, sums in f32.
#pragma once

#include <string>

#include "kernels/narrow/vtable.hpp"

namespace dgo {

// What the library's instruction sets are limited to holds here, too.
struct IsaLimit {
    std::string said;  // what limits, empty: nothing
    // of bf16, in tiles, of 8 bits, of 8 bits without AVX-512
    bool pairs = true, tiles = true, quads = true, short_quads = true;
};
IsaLimit isa_limit();
// Empty: the CPU and the operating system let this process, all of its threads included, use tiles.
const std::string& tiles_refusal();
// Builds with test sets: the process runs what this CPU lacks of AMX, AVX512-BF16 and VNNI by a handler of signals.
bool trapped();
// What sets with registers of 512 bits need beside their own instructions.
bool avx512_is_whole();
// Empty: this build has the emulated sets.
std::string test_sets_refusal();
// An environment variable, or empty.
std::string variable(const char* name);

// The code for this CPU, chosen at the first call, or null: what DNNL_GRAPH_OPS_NARROW names (amx, avx512bf16, emulated
// or none), or else amx before avx512bf16, as far as the CPU and the operating system have them and ONEDNN_MAX_CPU_ISA
// and DNNL_GRAPH_OPS_ISA allow them.
const NarrowCode* narrow_code();
// Why no better set is used; empty for amx and where a set was named.
const std::string& narrow_reason();
// One that this CPU runs by its name, or the one above without; throws where there is none.
const NarrowCode& narrow_code_of(const std::string& name);

}  // namespace dgo
