// The parts of minimal filtering's vector code, and the sizes that they agree on.
#pragma once

#include "../minimal_filter_code.hpp"
#include "gemm_tile.hpp"

namespace dgo::DGO_ISA {

constexpr int64_t kFilterChunk = 64;  // columns multiplied and transformed back together

struct WindowCode {
        ShapeCode code[kFilterAxes];
};

// Windows of four points have one transform, whatever the filter's length.
inline WindowCode window_code(const ShapeCode* shape) {
        WindowCode w;
        for (int a = 0; a < kFilterAxes; ++a) w.code[a] = shape[a] == 3 ? 2 : shape[a];
        return w;
}

// Rows of the left factor: whole vectors, and not a multiple of 4 KB apart, which would share one cache set.
inline int64_t left_stride(const ProductPlan& plan) {
        const int64_t spill = plan.src.channels % kLanes == 0 ? 0 : kLanes;  // the last vector of a segment is stored whole
    const int64_t depth = (plan.src.segments * plan.src.channels + spill + kLanes - 1) / kLanes * kLanes;
        return depth % 512 == 0 ? depth + 16 : depth;
}

int64_t products_scratch(const ProductPlan& plan);
int64_t gradient_scratch(const GradientPlan& plan);
int64_t gradient_sums(const GradientPlan& plan);
void run_products(const ProductPlan& plan, const char* src, const float* packed, const char* bias, char* scratch,
                                    char* dst);
void run_prepare(const PreparePlan& plan, const char* weights, float* packed);
void run_gradient(const GradientPlan& plan, const char* src, const char* diff, char* scratch, char* weights);

}  // namespace dgo::DGO_ISA
