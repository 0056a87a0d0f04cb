// Sums in s32 -> results of 8 bits, scaled in f32 as Dequantize and Quantize do it one after the other: for units compiled
// without contraction.
#pragma once

#include "kernels/isa/dot/products.hpp"
#include "kernels/isa/epilogue/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

// So many results of 8 bits are found at once; what is read may go as far beyond the last one.
constexpr int kByteVectors = 32 / kLanes;
constexpr int64_t kBytesAtOnce = 32;

// The compiler makes comparisons and blends of what is written with operators.
template <int L = kLanes>
DGO_INLINE Lanes lesser(Lanes a, Lanes b) {
    if constexpr (L == 16) return bits<Lanes>(_mm512_min_ps(bits<__m512>(a), bits<__m512>(b)));
    if constexpr (L == 8) return bits<Lanes>(_mm256_min_ps(bits<__m256>(a), bits<__m256>(b)));
}
template <int L = kLanes>
DGO_INLINE Lanes greater(Lanes a, Lanes b) {
    if constexpr (L == 16) return bits<Lanes>(_mm512_max_ps(bits<__m512>(a), bits<__m512>(b)));
    if constexpr (L == 8) return bits<Lanes>(_mm256_max_ps(bits<__m256>(a), bits<__m256>(b)));
}
template <int L = kLanes>
DGO_INLINE bool any_above(Lanes v, float limit) {
    const Lanes all = limit - Lanes{};
    if constexpr (L == 16) return _mm512_cmp_ps_mask(bits<__m512>(v), bits<__m512>(all), _CMP_GT_OQ) != 0;
    if constexpr (L == 8) {
        return _mm256_movemask_ps(_mm256_cmp_ps(bits<__m256>(v), bits<__m256>(all), _CMP_GT_OQ)) != 0;
    }
}
// Words in two halves; gives the order of fours of their bytes.
template <int kCount>
DGO_INLINE __m256i words_of(const Lanes (&v)[kCount], __m256i& left, __m256i& right) {
    if constexpr (kCount == 2) {
        const __m512i all = _mm512_packs_epi32(bits<__m512i>(to_integers(v[0])), bits<__m512i>(to_integers(v[1])));
        left = _mm512_castsi512_si256(all);
        right = _mm512_extracti64x4_epi64(all, 1);
        return _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7);
    } else {
        left = _mm256_packs_epi32(bits<__m256i>(to_integers(v[0])), bits<__m256i>(to_integers(v[1])));
        right = _mm256_packs_epi32(bits<__m256i>(to_integers(v[2])), bits<__m256i>(to_integers(v[3])));
        return _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    }
}

// Whole numbers below 2^31 -> bytes, as far as they go, then from low to high.
DGO_INLINE void store_whole(const Lanes (&v)[kByteVectors], bool signs, int low, int high, char* to) {
    __m256i left, right;
    const __m256i order = words_of(v, left, right);
    __m256i bytes = signs ? _mm256_packs_epi16(left, right) : _mm256_packus_epi16(left, right);
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    const __m256i least = _mm256_set1_epi8(static_cast<char>(low)), most = _mm256_set1_epi8(static_cast<char>(high));
    bytes = signs ? _mm256_min_epi8(_mm256_max_epi8(bytes, least), most)
                  : _mm256_min_epu8(_mm256_max_epu8(bytes, least), most);
    store_bytes(to, bytes);
}

// The first bytes of some vectors.
DGO_INLINE void store_first(char* to, const char* from, int64_t count) {
    const auto put = [&](auto part) __attribute__((always_inline)) {
        if ((count & static_cast<int64_t>(sizeof(part))) == 0) return;
        store_bytes(to, load_bytes<decltype(part)>(from));
        to += sizeof(part);
        from += sizeof(part);
    };
    put(__m128i{});
    put(uint64_t{});
    put(uint32_t{});
    put(uint16_t{});
    put(uint8_t{});
}

// Sums of neighbouring channels -> results. Of what is read by channel, there are kBytesAtOnce more.
struct Int8Values {
    Int8Params params;
    float *scales, *bias;
    int32_t* points;  // null: none

    // To floats in place, from channel `first` on; read: the sum of what the position read.
    void scale(int32_t* row, int64_t first, int64_t count, int32_t read) const {
        auto* floats = reinterpret_cast<float*>(row);
        for (int64_t c = 0; c < count; c += kLanes) {
            store_some(floats + c, scaled(row + c, first + c, read), smaller(kLanes, count - c));
        }
    }

    void round(ElementType type, const int32_t* row, int64_t count, char* to) const {
        if (type == ElementType::s8 || type == ElementType::u8) {
            to_bytes(type, count, to,
                     [&](int64_t c) __attribute__((always_inline)) { return load_bytes<Lanes>(row + c); });
        } else {
            narrow(type, reinterpret_cast<const float*>(row), count, to);
        }
    }

    // Both at once.
    void scale_and_round(ElementType type, int32_t* row, int64_t first, int64_t count, int32_t read, char* to) const {
        if (type != ElementType::s8 && type != ElementType::u8) {
            scale(row, first, count, read);
            round(type, row, count, to);
        } else if (points == nullptr) {
            scale_to_bytes<false>(type, row, first, count, 0, to);
        } else {
            scale_to_bytes<true>(type, row, first, count, read, to);
        }
    }
    template <bool kPoints>
    DGO_INLINE void scale_to_bytes(ElementType type, const int32_t* row, int64_t first, int64_t count, int32_t read,
                                   char* to) const {
        to_bytes(type, count, to, [&](int64_t c) __attribute__((always_inline)) {
            return scaled<kPoints>(row + c, first + c, read);
        });
    }

private:
    template <bool kPoints>
    DGO_INLINE Lanes scaled(const int32_t* row, int64_t at, int32_t read) const {
        auto sum = load_bytes<Integers>(row);
        if constexpr (kPoints) sum -= load_bytes<Integers>(points + at) * read;
        return __builtin_convertvector(sum, Lanes) * load_bytes<Lanes>(scales + at) + load_bytes<Lanes>(bias + at);
    }
    DGO_INLINE Lanes scaled(const int32_t* row, int64_t at, int32_t read) const {
        return points == nullptr ? scaled<false>(row, at, read) : scaled<true>(row, at, read);
    }

    template <class Values>
    DGO_INLINE void to_bytes(ElementType type, int64_t count, char* to, Values values) const {
        // integers of 16 bits, past all of 8 bits
        const Lanes most = 32767.0f - Lanes{};
        const Int8Params to_int = params;
        for (int64_t c = 0; c < count; c += kBytesAtOnce) {
            Lanes value[kByteVectors], whole[kByteVectors], farthest = {};
            for (int j = 0; j < kByteVectors; ++j) {
                value[j] = values(c + j * kLanes);
                const Lanes v = lesser(value[j] * to_int.inverse, most);
                whole[j] = rounded(v);
                farthest = greater(absolute(v - whole[j]), farthest);
            }
            if (any_above(farthest, to_int.doubtful)) {
                for (int j = 0; j < kByteVectors; ++j) {
                    whole[j] = rounded(lesser(value[j] / to_int.scale, most));
                }
            }
            for (Lanes& one : whole) one += to_int.zero;
            char some[kBytesAtOnce];
            const int64_t left = count - c;
            char* at = left < kBytesAtOnce ? some : to + c;
            store_whole(whole, type == ElementType::s8, to_int.low, to_int.high, at);
            if (left < kBytesAtOnce) store_first(to + c, some, left);
        }
    }
};

struct Int8Finish {
    using Sum = int32_t;

    int filling = 0;
    int64_t group = 0;

    Int8Finish(const Dot&, const ProductParams& of, const DotCall& operands, const char* to)
        : params(of), call(operands), dst(to) {}

    void carve(ScratchCarver& carver) {
        const int64_t count = params.channel_groups * run + kBytesAtOnce;
        values.scales = carver.take(count);
        values.bias = carver.take(count);
        values.points = carver.take<int32_t>(count);
    }

    void prepare() {
        values.params = *call.integer;
        group_totals = params.packed / values.params.panel_depth;
        filling = values.params.src_zero;
        const int64_t channels = params.dst.channels;
        for (int64_t i = 0; i < params.channel_groups * run && !values.params.sums; ++i) {
            const int64_t channel = i / run * channels + i % run % channels;
            values.scales[i] = call.scales[channel];
            values.bias[i] = params.has_bias ? load_bytes<float>(call.bias + channel * 4) : 0.0f;
            if (call.points != nullptr) values.points[i] = call.points[channel];
        }
        if (call.points == nullptr) values.points = nullptr;
    }

    // The contribution of the left factor's zero point to each column.
    void start(const TargetGroup& targets, const FilterImage&, int64_t column, int64_t count, int32_t* to) const {
        const int32_t* totals =
            call.totals + group * group_totals + targets.packed / values.params.panel_depth + column;
        const auto zero = static_cast<uint32_t>(values.params.src_zero);
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<int32_t>(0u - zero * static_cast<uint32_t>(totals[c]));
    }

    // A row's sums, from element `low` of its run on, to floats.
    void scale(int32_t* row, const char* to, int64_t low, int64_t count) const {
        if (!values.params.sums) values.scale(row, group * run + low, count, sum_read(to));
    }

    bool round_rows(ElementType, const int32_t*, const DotTarget*, int64_t, int64_t, int64_t) const { return true; }

    void round(ElementType type, const int32_t* row, int64_t count, char* to) const {
        if (type == ElementType::s32) {
            __builtin_memcpy(to, row, static_cast<size_t>(count) * 4);
        } else {
            values.round(type, row, count, to);
        }
    }

    void scale_and_round(ElementType type, int32_t* row, char* to, int64_t low, int64_t count) const {
        if (type == ElementType::s32) return round(type, row, count, to);
        values.scale_and_round(type, row, group * run + low, count, sum_read(to), to);
    }

private:
    // The sum of what the position read that is written at `to`.
    int32_t sum_read(const char* to) const {
        return values.points == nullptr ? 0
                                        : call.sums[(to - dst) / values.params.pitch * params.channel_groups + group];
    }

    const ProductParams& params;
    const DotCall& call;
    const char* dst;
    int64_t run = params.dst.run, group_totals = 0;
    Int8Values values;  // [group][run]
};

}  // namespace
}  // namespace dgo::DGO_ISA
