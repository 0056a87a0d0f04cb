// A tail as the vector code of other kernels gets it.
#pragma once

#include "kernels/tail/vtable.hpp"

namespace dgo {

// params null: no tail; operands: addresses, in the order of the params.
struct TailCall {
    const TailParams* params;
    const char* const* operands;
};

}  // namespace dgo
