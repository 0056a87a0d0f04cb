// Softmax of a block and its gradient, for the table of the same instruction set.
#pragma once

#include "kernels/isa/vector/integer.hpp"
#include "kernels/norm/vtable.hpp"

namespace dgo::DGO_ISA {

void softmax(const SoftmaxBlock& block);
void softmax_gradient(const SoftmaxGradientBlock& block);

}  // namespace dgo::DGO_ISA
