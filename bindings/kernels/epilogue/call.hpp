// An epilogue as the vector code of other kernels gets it.
#pragma once

#include "kernels/epilogue/vtable.hpp"

namespace dgo {

// params null: no epilogue; operands: addresses, in the order of the params.
struct EpilogueCall {
    const EpilogueParams* params;
    const char* const* operands;
};

}  // namespace dgo
