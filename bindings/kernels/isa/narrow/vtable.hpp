// The parts of narrow products' vector code.
#pragma once

#include "kernels/isa/narrow/block.hpp"
#include "kernels/narrow/vtable.hpp"

namespace dgo::DGO_ISA {

int64_t narrow_products_scratch(const ProductParams& params);
void run_narrow_products(const ProductParams& params, const char* src, const char* packed, const char* bias,
                         TailCall tail, char* scratch, char* dst);
void run_narrow_pack(const PackParams& params, const char* weights, char* packed);

}  // namespace dgo::DGO_ISA
