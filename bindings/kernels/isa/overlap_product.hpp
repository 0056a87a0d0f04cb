#pragma once

#include "../overlap_product_code.hpp"

namespace dgo::DGO_ISA {

extern const OverlapCode kOverlapCode;

}  // namespace dgo::DGO_ISA
