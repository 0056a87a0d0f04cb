// The transforms of Winograd on vectors of channels, for up to three axes.
#pragma once

#include "kernels/isa/product/sizes.hpp"

namespace dgo::DGO_ISA {

// to[i][c] = bias[c] + the transform of from[p * plane + c].
using GatherFn = void (*)(const float* from, int64_t plane, int64_t channels, const float* bias, float* const* to);

// By the shape of every axis; null for a combination that is not compiled, which axes_refusal refuses beforehand.
SpreadFn<float> window_transform(const ShapeIndex* shape);
SpreadFn<float> filter_transform(const ShapeIndex* shape);
GatherFn output_transform(const ShapeIndex* shape);

}  // namespace dgo::DGO_ISA
