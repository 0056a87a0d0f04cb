// Sums in s32 -> results of 8 bits, scaled in f32 as Dequantize and Quantize do it one after the other: for units compiled
// without contraction.
#pragma once

#include "kernels/isa/dot/products.hpp"
#include "kernels/isa/epilogue/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

// Results of 8 bits are found by so many vectors; what is read may go as far beyond the last result.
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
// The larger of `farthest` and of what v is away from the nearest whole number.
DGO_INLINE Lanes farther_from_whole(Lanes v, Lanes farthest) {
    if constexpr (kWide) {
        constexpr int kNearest = 0, kLargerWithoutSign = 0b1011;
        const __m512 rest = _mm512_reduce_ps(bits<__m512>(v), kNearest);
        return bits<Lanes>(_mm512_range_ps(rest, bits<__m512>(farthest), kLargerWithoutSign));
    } else {
        return greater(absolute(v - rounded(v)), farthest);
    }
}

// Whole numbers -> bytes, plus zero, as far as they go, then from low to high: what has 32 bits may have 16 first.
template <int kCount>
DGO_INLINE void store_whole(const Integers (&v)[kCount], bool signs, const Int8Params& to_int, char* to) {
    const auto zero = static_cast<int16_t>(to_int.zero);
    const auto low = static_cast<char>(to_int.low), high = static_cast<char>(to_int.high);
    if constexpr (kCount == 4 && kLanes == 16) {
        const __m512i zeros = _mm512_set1_epi16(zero), least = _mm512_set1_epi8(low), most = _mm512_set1_epi8(high);
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        const __m512i left = _mm512_adds_epi16(_mm512_packs_epi32(bits<__m512i>(v[0]), bits<__m512i>(v[1])), zeros);
        const __m512i right = _mm512_adds_epi16(_mm512_packs_epi32(bits<__m512i>(v[2]), bits<__m512i>(v[3])), zeros);
        __m512i bytes = signs ? _mm512_packs_epi16(left, right) : _mm512_packus_epi16(left, right);
        bytes = _mm512_permutexvar_epi32(order, bytes);
        bytes = signs ? _mm512_min_epi8(_mm512_max_epi8(bytes, least), most)
                      : _mm512_min_epu8(_mm512_max_epu8(bytes, least), most);
        store_bytes(to, bytes);
    } else {
        __m256i left, right, order;
        if constexpr (kCount == 2) {
            const __m512i all = _mm512_packs_epi32(bits<__m512i>(v[0]), bits<__m512i>(v[1]));
            left = _mm512_castsi512_si256(all);
            right = _mm512_extracti64x4_epi64(all, 1);
            order = _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7);
        } else {
            left = _mm256_packs_epi32(bits<__m256i>(v[0]), bits<__m256i>(v[1]));
            right = _mm256_packs_epi32(bits<__m256i>(v[2]), bits<__m256i>(v[3]));
            order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        }
        const __m256i zeros = _mm256_set1_epi16(zero), least = _mm256_set1_epi8(low), most = _mm256_set1_epi8(high);
        left = _mm256_adds_epi16(left, zeros);
        right = _mm256_adds_epi16(right, zeros);
        __m256i bytes = signs ? _mm256_packs_epi16(left, right) : _mm256_packus_epi16(left, right);
        bytes = _mm256_permutevar8x32_epi32(bytes, order);
        bytes = signs ? _mm256_min_epi8(_mm256_max_epi8(bytes, least), most)
                      : _mm256_min_epu8(_mm256_max_epu8(bytes, least), most);
        store_bytes(to, bytes);
    }
}

// The first bytes of some vectors.
DGO_INLINE void store_first(char* to, const char* from, int64_t count) {
    const auto put = [&](auto part) __attribute__((always_inline)) {
        if ((count & static_cast<int64_t>(sizeof(part))) == 0) return;
        store_bytes(to, load_bytes<decltype(part)>(from));
        to += sizeof(part);
        from += sizeof(part);
    };
    if constexpr (kWide) put(__m256i{});
    put(__m128i{});
    put(uint64_t{});
    put(uint32_t{});
    put(uint16_t{});
    put(uint8_t{});
}

// Sums of neighbouring channels -> results. Of what is read by channel, there are kBytesAtOnce more.
struct Int8Values {
    Int8Params params;
    const float *scales, *bias;
    const int32_t* points;  // null: none

    // To floats in place, from channel `first` on; read: the sum of what the position read.
    void scale(int32_t* row, int64_t first, int64_t count, int32_t read, bool is_float = false) const {
        auto* floats = reinterpret_cast<float*>(row);
        for (int64_t c = 0; c < count; c += kLanes) {
            store_some(floats + c, scaled_any(row + c, first + c, read, is_float), smaller(kLanes, count - c));
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
    template <bool kPoints, bool kFloats = false>
    DGO_INLINE void scale_to_bytes(ElementType type, const int32_t* row, int64_t first, int64_t count, int32_t read,
                                   char* to) const {
        to_bytes(type, count, to, [&](int64_t c) __attribute__((always_inline)) {
            return scaled<kPoints, kFloats>(row + c, first + c, read);
        });
    }

private:
    template <bool kPoints, bool kFloats = false>
    DGO_INLINE Lanes scaled(const int32_t* row, int64_t at, int32_t read) const {
        Lanes sum;
        if constexpr (kFloats) {
            sum = load_bytes<Lanes>(row);
        } else {
            auto whole = load_bytes<Integers>(row);
            if constexpr (kPoints) whole -= load_bytes<Integers>(points + at) * read;
            sum = __builtin_convertvector(whole, Lanes);
        }
        return sum * load_bytes<Lanes>(scales + at) + load_bytes<Lanes>(bias + at);
    }
    DGO_INLINE Lanes scaled_any(const int32_t* row, int64_t at, int32_t read, bool is_float) const {
        if (is_float) return scaled<false, true>(row, at, read);
        return points == nullptr ? scaled<false>(row, at, read) : scaled<true>(row, at, read);
    }

    // From element c on, as many as kCount vectors have; kExact: products by the inverse are the quotients.
    template <bool kExact, int kCount, class Values>
    DGO_INLINE void to_bytes_at(bool signs, int64_t c, int64_t count, char* to, Values values) const {
        // integers of 16 bits, past all of 8 bits
        const Lanes most = 32767.0f - Lanes{};
        const Int8Params to_int = params;
        Lanes value[kCount], farthest = {};
        Integers whole[kCount];
        for (int j = 0; j < kCount; ++j) {
            value[j] = values(c + j * kLanes);
            const Lanes v = lesser(value[j] * to_int.inverse, most);
            whole[j] = to_integers(v);
            if (!kExact) farthest = farther_from_whole(v, farthest);
        }
        if (!kExact && any_above(farthest, to_int.doubtful)) {
            for (int j = 0; j < kCount; ++j) whole[j] = to_integers(lesser(value[j] / to_int.scale, most));
        }
        char some[kCount * kLanes];
        const int64_t left = count - c;
        char* at = left < kCount * kLanes ? some : to + c;
        store_whole(whole, signs, to_int, at);
        if (left < kCount * kLanes) store_first(to + c, some, left);
    }

    template <bool kExact, class Values>
    DGO_INLINE void to_bytes_by(bool signs, int64_t count, char* to, Values values) const {
        int64_t c = 0;
        if constexpr (kWide) {
            for (; c + kBytesAtOnce < count; c += 2 * kBytesAtOnce) {
                to_bytes_at<kExact, 2 * kByteVectors>(signs, c, count, to, values);
            }
        }
        for (; c < count; c += kBytesAtOnce) to_bytes_at<kExact, kByteVectors>(signs, c, count, to, values);
    }

    template <class Values>
    DGO_INLINE void to_bytes(ElementType type, int64_t count, char* to, Values values) const {
        const bool signs = type == ElementType::s8;
        if (params.doubtful > 1) return to_bytes_by<true>(signs, count, to, values);
        to_bytes_by<false>(signs, count, to, values);
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
        scales_ = carver.take(count);
        bias_ = carver.take(count);
        points_ = carver.take<int32_t>(count);
    }

    void prepare() {
        values = {*call.integer, scales_, bias_, call.points == nullptr ? nullptr : points_};
        group_totals = params.packed / values.params.panel_depth;
        filling = values.params.src_zero;
        if (values.params.sums) return;
        const int64_t channels = params.dst.channels, count = params.channel_groups * run;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t channel = i / run * channels + i % run % channels;
            scales_[i] = call.scales[channel];
            bias_[i] = params.has_bias ? load_bytes<float>(call.bias + channel * 4) : 0.0f;
            if (call.points != nullptr) points_[i] = call.points[channel];
        }
        // what lies in memory may be numbers that take long
        __builtin_memset(scales_ + count, 0, kBytesAtOnce * sizeof(float));
        __builtin_memset(bias_ + count, 0, kBytesAtOnce * sizeof(float));
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
    float *scales_, *bias_;  // [group][run]
    int32_t* points_;
    Int8Values values;
};

}  // namespace
}  // namespace dgo::DGO_ISA
