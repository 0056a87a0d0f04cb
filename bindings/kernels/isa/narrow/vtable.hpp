// The parts of narrow products' vector code.
#pragma once

#include "kernels/isa/narrow/block.hpp"
#include "kernels/narrow/gradient_params.hpp"
#include "kernels/narrow/vtable.hpp"

namespace dgo::DGO_ISA {

int64_t narrow_products_scratch(const ProductParams& params);
void run_narrow_products(const ProductParams& params, const NarrowCall& call, char* scratch, char* dst);
void run_narrow_pack(const NarrowPackParams& params, const char* weights, char* packed);
int64_t narrow_gradient_scratch(const NarrowGradientParams& params);
int64_t narrow_gradient_sums(const NarrowGradientParams& params);
void run_narrow_gradient(const NarrowGradientParams& params, const char* src, const char* diff, char* scratch,
                         char* weights);

}  // namespace dgo::DGO_ISA
