// The parts of the vector code of f32 products.
#pragma once

#include "kernels/filtering/vtable.hpp"
#include "kernels/isa/product/sizes.hpp"

namespace dgo::DGO_ISA {

extern const ProductCode kFloatProducts;
int64_t gradient_scratch(const GradientParams& params);
int64_t gradient_sums(const GradientParams& params);
int64_t pack_scratch(const PackParams& params);
void run_pack(const PackParams& params, const char* weights, float* scratch, char* packed);
void run_gradient(const GradientParams& params, const char* src, const char* diff, char* scratch, char* weights);

}  // namespace dgo::DGO_ISA
