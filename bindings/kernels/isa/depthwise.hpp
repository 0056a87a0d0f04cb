#pragma once

#include "../depthwise_code.hpp"

namespace dgo::DGO_ISA {

extern const DepthwiseCode kDepthwiseCode;

}  // namespace dgo::DGO_ISA
