// What a narrow product's sums begin with, and what becomes of them.
#pragma once

#include "kernels/isa/filtering/product_scratch.hpp"
#include "kernels/isa/narrow/block.hpp"
#include "kernels/narrow/call.hpp"

#ifdef DGO_INTEGER
#include "kernels/isa/integer/finish.hpp"
#else

namespace dgo::DGO_ISA {

DGO_INLINE void round_row(Cell cell, const float* from, int64_t count, char* to) {
    int64_t c = 0;
#if defined(DGO_NARROW_AMX) || defined(DGO_NARROW_DOT)
    for (; cell == Cell::bf16 && c + 2 * kLanes <= count; c += 2 * kLanes) {
        store_bytes(to + 2 * c, _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + c + kLanes), _mm512_loadu_ps(from + c)));
    }
    if (c == count) return;
#endif
    narrow(cell, from + c, count - c, to + c * (cell == Cell::f32 ? 4 : 2));
}

// Sums begin with the bias, and are f32.
struct NarrowFinish {
    static constexpr int filling = 0;
    int64_t group;
    float* bias;  // [group][run]
    int64_t run;

    void carve(const ProductParams& params, ScratchCarver& carver) {
        run = params.dst.run;
        bias = carver.take(params.channel_groups * run);
    }

    void prepare(const ProductParams& params, const NarrowCall& call, const char*) {
        __builtin_memset(bias, 0, static_cast<size_t>(params.channel_groups * run) * sizeof(float));
        for (int64_t i = 0; params.has_bias && i < params.channel_groups * params.dst.fold; ++i) {
            const int64_t channels = params.dst.channels, g = i / params.dst.fold;
            const char* from = call.bias + g * channels * (params.bias_cell == Cell::f32 ? 4 : 2);
            widen(params.bias_cell, from, channels, bias + i * channels);
        }
    }

    void start(const TargetGroup&, const FilterImage& image, int64_t column, int64_t count, float* to) const {
        for (int64_t c = column; c < column + count; ++c) to[c - column] = bias[group * run + c % image.run];
    }

    void scale(float*, const char*, int64_t, int64_t) const {}

    DGO_INLINE void round(Cell cell, const float* from, int64_t count, char* to) const {
        round_row(cell, from, count, to);
    }

    DGO_INLINE void scale_and_round(Cell cell, const float* row, char* to, int64_t, int64_t count) const {
        round(cell, row, count, to);
    }
};

}  // namespace dgo::DGO_ISA

#endif
