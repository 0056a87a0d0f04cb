// Post-ops on a register tile's results, for the kernels of the same instruction set.
#pragma once

#include "kernels/isa/integer.hpp"
#include "kernels/tail/vtable.hpp"

namespace dgo::DGO_ISA {

// The addresses of the operands are those of the program, in its order.
void apply_tail(const TailParams& params, const char* const* operands, const TailTile& tile);

}  // namespace dgo::DGO_ISA
