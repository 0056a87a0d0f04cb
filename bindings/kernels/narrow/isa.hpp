// Which instruction set multiplies bf16 in narrow products: operands in bf16, sums in f32.
#pragma once

#include "kernels/narrow/vtable.hpp"
#include "kernels/sets.hpp"

namespace dgo {

const Sets<NarrowCode>& narrow_sets();

}  // namespace dgo
