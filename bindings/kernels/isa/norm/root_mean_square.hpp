// Rows divided by the roots of their mean squares, for the table of the same instruction set.
#pragma once

#include "kernels/isa/integer.hpp"
#include "kernels/norm/vtable.hpp"

namespace dgo::DGO_ISA {

void root_mean_square(const RootMeanSquare& block);

}  // namespace dgo::DGO_ISA
