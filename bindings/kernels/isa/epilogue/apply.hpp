// Post-ops on a register tile's results, for the kernels of the same instruction set.
#pragma once

#include "kernels/isa/vector/integer.hpp"
#include "kernels/epilogue/vtable.hpp"

namespace dgo::DGO_ISA {

// The addresses of the operands are those of the program, in its order.
void apply_epilogue(const EpilogueParams& params, const char* const* operands, const EpilogueTile& tile);

}  // namespace dgo::DGO_ISA
