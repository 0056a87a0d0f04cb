// Sums in s32 -> results: scaled in f32 as Dequantize and Quantize do it one after the other, without contraction.
#pragma once

#include "kernels/isa/tail/functions.hpp"

namespace dgo::DGO_ISA {

typedef int32_t IntegerLanes __attribute__((vector_size(4 * kLanes)));

// So many results of 8 bits are found at once; what is read may go as far beyond the last one.
constexpr int kByteVectors = 32 / kLanes;
constexpr int64_t kBytesAtOnce = 32;

// The compiler makes comparisons and blends of what is written with operators.
DGO_INLINE Lanes lesser(Lanes a, Lanes b) {
#ifdef DGO_WIDE
    return bits<Lanes>(_mm512_min_ps(bits<__m512>(a), bits<__m512>(b)));
#else
    return bits<Lanes>(_mm256_min_ps(bits<__m256>(a), bits<__m256>(b)));
#endif
}

DGO_INLINE Lanes greater(Lanes a, Lanes b) {
#ifdef DGO_WIDE
    return bits<Lanes>(_mm512_max_ps(bits<__m512>(a), bits<__m512>(b)));
#else
    return bits<Lanes>(_mm256_max_ps(bits<__m256>(a), bits<__m256>(b)));
#endif
}

DGO_INLINE bool any_above(Lanes v, float limit) {
#ifdef DGO_WIDE
    return _mm512_cmp_ps_mask(bits<__m512>(v), _mm512_set1_ps(limit), _CMP_GT_OQ) != 0;
#else
    return _mm256_movemask_ps(_mm256_cmp_ps(bits<__m256>(v), _mm256_set1_ps(limit), _CMP_GT_OQ)) != 0;
#endif
}

// Whole numbers below 2^31 -> bytes, as far as they go, then from low to high.
DGO_INLINE void store_whole(const Lanes (&v)[kByteVectors], bool signs, int low, int high, char* to) {
#ifdef DGO_WIDE
    const __m512i left = _mm512_cvtps_epi32(bits<__m512>(v[0])), right = _mm512_cvtps_epi32(bits<__m512>(v[1]));
    const __m512i zero = _mm512_setzero_si512();
    const __m128i first = signs ? _mm512_cvtsepi32_epi8(left) : _mm512_cvtusepi32_epi8(_mm512_max_epi32(left, zero));
    const __m128i second = signs ? _mm512_cvtsepi32_epi8(right) : _mm512_cvtusepi32_epi8(_mm512_max_epi32(right, zero));
    __m256i bytes = _mm256_set_m128i(second, first);
#else
    __m256i whole[kByteVectors];
    for (int j = 0; j < kByteVectors; ++j) whole[j] = _mm256_cvtps_epi32(bits<__m256>(v[j]));
    const __m256i left = _mm256_packs_epi32(whole[0], whole[1]), right = _mm256_packs_epi32(whole[2], whole[3]);
    __m256i bytes = signs ? _mm256_packs_epi16(left, right) : _mm256_packus_epi16(left, right);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
#endif
    const __m256i least = _mm256_set1_epi8(static_cast<char>(low)), most = _mm256_set1_epi8(static_cast<char>(high));
    bytes = signs ? _mm256_min_epi8(_mm256_max_epi8(bytes, least), most)
                  : _mm256_min_epu8(_mm256_max_epu8(bytes, least), most);
    store_bytes(to, bytes);
}

struct NarrowFinish {
    int filling = 0;
    int64_t group = 0, run = 0;
    float *scales, *bias;  // [group][run]
    int32_t* points;       // [group][run]

    void carve(const ProductParams& params, ScratchCarver& carver) {
        run = params.dst.run;
        const int64_t count = params.channel_groups * run + kBytesAtOnce;
        scales = carver.take(count);
        bias = carver.take(count);
        points = carver.take<int32_t>(count);
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
        const int32_t read = sum_read(to);
        auto* floats = reinterpret_cast<float*>(row);
        for (int64_t c = 0; c < count; c += kLanes) {
            store_some(floats + c, scaled<true>(row + c, group * run + low + c, read), smaller(kLanes, count - c));
        }
    }

    void round(Cell cell, const int32_t* row, int64_t count, char* to) const {
        if (cell == Cell::s32) {
            __builtin_memcpy(to, row, static_cast<size_t>(count) * 4);
        } else if (cell == Cell::s8 || cell == Cell::u8) {
            to_bytes(cell, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return load_bytes<Lanes>(row + c); });
        } else {
            narrow(cell, reinterpret_cast<const float*>(row), count, to);
        }
    }

    // Both at once.
    void scale_and_round(Cell cell, int32_t* row, char* to, int64_t low, int64_t count) const {
        const int64_t first = group * run + low;
        if (cell != Cell::s8 && cell != Cell::u8) {
            scale(row, to, low, count);
            round(cell, row, count, to);
        } else if (call->points == nullptr) {
            to_bytes(cell, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return scaled<false>(row + c, first + c, 0); });
        } else {
            const int32_t read = sum_read(to);
            to_bytes(cell, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return scaled<true>(row + c, first + c, read); });
        }
    }

private:
    // The sum of what the position read that is written at `to`.
    int32_t sum_read(const char* to) const {
        return call->points == nullptr ? 0 : call->sums[(to - dst) / call->integer->pitch * group_count + group];
    }

    template <bool kPoints>
    DGO_INLINE Lanes scaled(const int32_t* row, int64_t at, int32_t read) const {
        auto sum = load_bytes<IntegerLanes>(row);
        if constexpr (kPoints) sum -= load_bytes<IntegerLanes>(points + at) * read;
        return __builtin_convertvector(sum, Lanes) * load_bytes<Lanes>(scales + at) + load_bytes<Lanes>(bias + at);
    }

    template <class Values>
    DGO_INLINE void to_bytes(Cell cell, int64_t count, char* to, Values values) const {
        // integers of 16 bits, past all of 8 bits
        const Lanes most = 32767.0f - Lanes{};
        const IntegerParams params = *call->integer;
        for (int64_t c = 0; c < count; c += kBytesAtOnce) {
            Lanes value[kByteVectors], whole[kByteVectors], farthest = {};
            for (int j = 0; j < kByteVectors; ++j) {
                value[j] = values(c + j * kLanes);
                const Lanes v = lesser(value[j] * params.inverse, most);
                whole[j] = rounded(v);
                farthest = greater(absolute(v - whole[j]), farthest);
            }
            if (any_above(farthest, params.doubtful)) {
                for (int j = 0; j < kByteVectors; ++j) {
                    whole[j] = rounded(lesser(value[j] / params.scale, most));
                }
            }
            for (Lanes& one : whole) one += params.zero;
            char some[kBytesAtOnce];
            const int64_t left = count - c;
            char* at = left < kBytesAtOnce ? some : to + c;
            store_whole(whole, cell == Cell::s8, params.low, params.high, at);
            if (left < kBytesAtOnce) __builtin_memcpy(to + c, some, static_cast<size_t>(left));
        }
    }

    const NarrowCall* call;
    const char* dst;
    int64_t group_count, group_totals;
};

}  // namespace dgo::DGO_ISA
