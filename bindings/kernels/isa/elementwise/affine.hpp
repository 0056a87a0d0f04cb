// x * factor + term and an activation in one pass, as batch norms and residual sums are.
#pragma once

#include "kernels/elementwise/vtable.hpp"

namespace dgo::DGO_ISA {

void run_affine(const ElementwiseBlock& block, const ElementwiseAffine& affine);

}  // namespace dgo::DGO_ISA
