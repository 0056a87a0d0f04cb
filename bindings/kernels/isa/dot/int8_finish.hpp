// Sums in s32 -> results of 8 bits, scaled in f32 as Dequantize and Quantize do it one after the other: for units compiled
// without contraction.
#pragma once

#include "kernels/isa/dot/products.hpp"
#include "kernels/isa/quotient.hpp"

namespace dgo::DGO_ISA {
namespace {

struct Int8Finish {
    using Sum = int32_t;

    int filling = 0;
    int64_t group = 0;

    Int8Finish(const Dot&, const ProductParams& of, const DotCall& operands, const char* to)
        : params(of), call(operands), dst(to) {}

    void carve(ScratchCarver& carver) {
        const int64_t count = params.channel_groups * run + kBytesAtOnce;
        scales = carver.take(count);
        bias = carver.take(count);
        points = carver.take<int32_t>(count);
    }

    void prepare() {
        group_totals = params.packed / call.integer->panel_depth;
        filling = call.integer->src_zero;
        const int64_t channels = params.dst.channels;
        for (int64_t i = 0; i < params.channel_groups * run && !call.integer->sums; ++i) {
            const int64_t channel = i / run * channels + i % run % channels;
            scales[i] = call.scales[channel];
            bias[i] = params.has_bias ? load_bytes<float>(call.bias + channel * 4) : 0.0f;
            points[i] = call.points == nullptr ? 0 : call.points[channel];
        }
    }

    // The contribution of the left factor's zero point to each column.
    void start(const TargetGroup& targets, const FilterImage&, int64_t column, int64_t count, int32_t* to) const {
        const int32_t* totals =
            call.totals + group * group_totals + targets.packed / call.integer->panel_depth + column;
        const auto zero = static_cast<uint32_t>(call.integer->src_zero);
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<int32_t>(0u - zero * static_cast<uint32_t>(totals[c]));
    }

    // A row's sums, from element `low` of its run on, to floats.
    void scale(int32_t* row, const char* to, int64_t low, int64_t count) const {
        if (call.integer->sums) return;
        const int32_t read = sum_read(to);
        auto* floats = reinterpret_cast<float*>(row);
        for (int64_t c = 0; c < count; c += kLanes) {
            store_some(floats + c, scaled<true>(row + c, group * run + low + c, read), smaller(kLanes, count - c));
        }
    }

    bool round_rows(ElementType, const int32_t*, const DotTarget*, int64_t, int64_t, int64_t) const { return true; }

    void round(ElementType type, const int32_t* row, int64_t count, char* to) const {
        if (type == ElementType::s32) {
            __builtin_memcpy(to, row, static_cast<size_t>(count) * 4);
        } else if (type == ElementType::s8 || type == ElementType::u8) {
            to_bytes(type, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return load_bytes<Lanes>(row + c); });
        } else {
            narrow(type, reinterpret_cast<const float*>(row), count, to);
        }
    }

    // Both at once.
    void scale_and_round(ElementType type, int32_t* row, char* to, int64_t low, int64_t count) const {
        const int64_t first = group * run + low;
        if (type != ElementType::s8 && type != ElementType::u8) {
            scale(row, to, low, count);
            round(type, row, count, to);
        } else if (call.points == nullptr) {
            to_bytes(type, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return scaled<false>(row + c, first + c, 0); });
        } else {
            const int32_t read = sum_read(to);
            to_bytes(type, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return scaled<true>(row + c, first + c, read); });
        }
    }

private:
    // The sum of what the position read that is written at `to`.
    int32_t sum_read(const char* to) const {
        return call.points == nullptr ? 0 : call.sums[(to - dst) / call.integer->pitch * params.channel_groups + group];
    }

    template <bool kPoints>
    DGO_INLINE Lanes scaled(const int32_t* row, int64_t at, int32_t read) const {
        auto sum = load_bytes<Integers>(row);
        if constexpr (kPoints) sum -= load_bytes<Integers>(points + at) * read;
        return __builtin_convertvector(sum, Lanes) * load_bytes<Lanes>(scales + at) + load_bytes<Lanes>(bias + at);
    }

    template <class Values>
    DGO_INLINE void to_bytes(ElementType type, int64_t count, char* to, Values&& values) const {
        store_quotients<true, false>(call.integer->quotient, type == ElementType::s8, count, to, values);
    }

    const ProductParams& params;
    const DotCall& call;
    const char* dst;
    int64_t run = params.dst.run, group_totals = 0;
    float *scales, *bias;  // [group][run]
    int32_t* points;  // [group][run]
};

}  // namespace
}  // namespace dgo::DGO_ISA
