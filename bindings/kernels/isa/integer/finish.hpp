// Sums in s32 -> results: scaled in f32 as Dequantize and Quantize do it one after the other, without contraction.
#pragma once

namespace dgo::DGO_ISA {

typedef int32_t IntegerLanes __attribute__((vector_size(4 * kLanes)));

// Rounded to nearest, ties to even.
DGO_INLINE IntegerLanes rounded(Lanes v) {
#ifdef DGO_WIDE
    return bits<IntegerLanes>(_mm512_cvtps_epi32(bits<__m512>(v)));
#else
    return bits<IntegerLanes>(_mm256_cvtps_epi32(bits<__m256>(v)));
#endif
}

DGO_INLINE Lanes clamped(Lanes v, float low, float high) {
    v = v < low ? low - Lanes{} : v;
    return v > high ? high - Lanes{} : v;
}

struct NarrowFinish {
    int filling = 0;
    int64_t group = 0, run = 0;
    float *scales, *bias;  // [group][run]
    int32_t* points;       // [group][run]

    void carve(const ProductParams& params, ScratchCarver& carver) {
        run = params.dst.run;
        scales = carver.take(params.channel_groups * run);
        bias = carver.take(params.channel_groups * run);
        points = carver.take<int32_t>(params.channel_groups * run);
    }

    void prepare(const ProductParams& params, const NarrowCall& with, const char* to) {
        call = &with;
        dst = to;
        group_count = params.channel_groups;
        group_totals = params.packed / with.integer->panel_depth;
        filling = kNarrowItem == 1 ? with.integer->src_zero : 0;
        const int64_t channels = params.dst.channels;
        for (int64_t i = 0; i < group_count * run && !with.integer->sums; ++i) {
            const int64_t channel = i / run * channels + i % run % channels;
            scales[i] = with.scales[channel];
            bias[i] = params.has_bias ? load_bytes<float>(with.bias + channel * 4) : 0.0f;
            points[i] = with.points == nullptr ? 0 : with.points[channel];
        }
    }

    // What the left factor's zero contributes to each column.
    void start(const TargetGroup& targets, const FilterImage&, int64_t column, int64_t count, int32_t* to) const {
        const int32_t* totals =
            call->totals + group * group_totals + targets.packed / call->integer->panel_depth + column;
        const auto zero = static_cast<uint32_t>(call->integer->src_zero);
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<int32_t>(0u - zero * static_cast<uint32_t>(totals[c]));
    }

    // A row's sums, from element `low` of its run on, to floats.
    void scale(int32_t* row, const char* to, int64_t low, int64_t count) const {
        if (call->integer->sums) return;
        const int64_t first = group * run + low;
        int32_t read = 0;
        if (call->points != nullptr) read = call->sums[(to - dst) / call->integer->pitch * group_count + group];
        auto* floats = reinterpret_cast<float*>(row);
        for (int64_t c = 0; c < count; c += kLanes) {
            const int64_t n = smaller(kLanes, count - c);
            const auto sum = bits<IntegerLanes>(load_some(floats + c, n));
            const auto point = bits<IntegerLanes>(load_some(reinterpret_cast<const float*>(points) + first + c, n));
            const Lanes exact = __builtin_convertvector(sum - point * read, Lanes);
            store_some(floats + c, exact * load_some(scales + first + c, n) + load_some(bias + first + c, n), n);
        }
    }

    void round(Cell cell, const int32_t* row, int64_t count, char* to) const {
        const auto* from = reinterpret_cast<const float*>(row);
        if (cell == Cell::s32) {
            __builtin_memcpy(to, row, static_cast<size_t>(count) * 4);
            return;
        }
        if (cell != Cell::s8 && cell != Cell::u8) {
            narrow(cell, from, count, to);
            return;
        }
        const IntegerParams& params = *call->integer;
        const float low = cell == Cell::s8 ? -128.0f : 0.0f, high = cell == Cell::s8 ? 127.0f : 255.0f;
        for (int64_t c = 0; c < count; c += kLanes) {
            const int64_t n = smaller(kLanes, count - c);
            const Lanes v = load_some(from + c, n);
            const Lanes scaled = params.inverse != 0 ? v * params.inverse : v / params.scale;
            const auto whole = bits<Vec<kLanes>::u32>(rounded(clamped(scaled + params.zero, low, high))) & 0xffu;
            char bytes[kLanes];
            char* at = n == kLanes ? to + c : bytes;
            store_words<1, kLanes>(at, whole);
            if (n < kLanes) __builtin_memcpy(to + c, bytes, static_cast<size_t>(n));
        }
    }

private:
    const NarrowCall* call;
    const char* dst;
    int64_t group_count, group_totals;
};

}  // namespace dgo::DGO_ISA
