// Which instruction set multiplies integers of 8 bits, with exact sums in 32.
#pragma once

#include "kernels/integer/vtable.hpp"
#include "kernels/sets.hpp"

namespace dgo {

const Sets<IntegerCode>& integer_sets();

}  // namespace dgo
