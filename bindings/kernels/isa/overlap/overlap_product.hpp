#pragma once

#include "kernels/overlap/vtable.hpp"

namespace dgo::DGO_ISA {

extern const OverlapCode kOverlapCode;

}  // namespace dgo::DGO_ISA
