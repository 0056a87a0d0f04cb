#pragma once

#include "kernels/rows/vtable.hpp"

namespace dgo::DGO_ISA {

int64_t row_product_room();
void row_product(const RowProduct& p, const float* a, const float* b, float* c, float* room);

}  // namespace dgo::DGO_ISA
