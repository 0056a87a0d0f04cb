// Layer norm and RMS norm of rows, for the table of the same instruction set.
#pragma once

#include "kernels/isa/vector/integer.hpp"
#include "kernels/norm/vtable.hpp"

namespace dgo::DGO_ISA {

void row_norm(const RowNorm& block);

}  // namespace dgo::DGO_ISA
