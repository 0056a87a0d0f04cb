// The code around products of bf16 and of 8 bits that all sets share.
#pragma once

#include "kernels/dot/gradient_params.hpp"
#include "kernels/dot/vtable.hpp"
#include "kernels/isa/product/thread.hpp"

namespace dgo::DGO_ISA {

DGO_INLINE int64_t unit_bytes(const Dot& dot) { return kDotColumns * dot.unit * dot.item; }

extern const ProductCode kBf16Products, kInt8Products, kInt8Filtering;
extern const DotGradient kBf16Gradient;
void run_dot_pack(const Dot& dot, const DotPackParams& params, const char* weights, const int32_t* points, char* packed,
                  int32_t* totals);
void run_int8_positions(const Int8Positions& positions, bool scale, bool round);
void run_int8_rows(const Dot& dot, const Int8Rows& params, const char* src, char* rows);

}  // namespace dgo::DGO_ISA
