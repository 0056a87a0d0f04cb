#pragma once

#include "kernels/depthwise/vtable.hpp"

namespace dgo::DGO_ISA {

extern const DepthwiseCode kDepthwiseCode;

}  // namespace dgo::DGO_ISA
