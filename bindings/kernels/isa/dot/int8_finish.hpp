// Sums in s32 -> results of 8 bits, scaled in f32 as Dequantize and Quantize do it one after the other: for units compiled
// without contraction.
#pragma once

#include "kernels/isa/dot/products.hpp"
#include "kernels/isa/vector/quotient.hpp"

namespace dgo::DGO_ISA {
namespace {

// Makes results of the sums of neighbouring channels. Arrays by channel have kBytesAtOnce more elements.
struct Int8Values {
    Int8Params params;
    const float *scales, *bias;

    // floats = those of sums, from channel `first` on.
    void scale(const int32_t* row, int64_t first, int64_t count, float* floats, bool is_float = false) const {
        for (int64_t c = 0; c < count; c += kLanes) {
            const Lanes value = is_float ? scaled<true>(row + c, first + c) : scaled(row + c, first + c);
            store_some(floats + c, value, smaller(kLanes, count - c));
        }
    }

    void round(ElementType type, const int32_t* row, int64_t count, char* to) const {
        if (is_byte(type)) {
            to_bytes(type, count, to,
                     [&](int64_t c, int64_t) __attribute__((always_inline)) { return load_bytes<Lanes>(row + c); });
        } else {
            narrow(type, reinterpret_cast<const float*>(row), count, to);
        }
    }

    // Scales and rounds to 8 bits in one pass. other: another tensor's integers, whose floats are added; null: none.
    DGO_INLINE void scale_and_round(ElementType type, const int32_t* row, int64_t first, int64_t count,
                                    const char* other, char* to) const {
        if (other == nullptr) return scale_to_bytes(type, row, first, count, to);
        to_bytes(type, count, to, [&](int64_t c, int64_t left) __attribute__((always_inline)) {
            Lanes value[] = {scaled(row + c, first + c)};
            add_residual<Division::checked>(
                value, [&](int) __attribute__((always_inline)) { return load_first(other + c, left); });
            return value[0];
        });
    }

    // Scales and bias of kVectors of columns from channel `first` on, in registers.
    template <int kVectors>
    struct Columns {
        Lanes factor[kVectors], add[kVectors];

        DGO_INLINE Columns(const Int8Values& values, int64_t first) {
            for (int j = 0; j < kVectors; ++j) {
                factor[j] = load_bytes<Lanes>(values.scales + first + j * kLanes);
                add[j] = load_bytes<Lanes>(values.bias + first + j * kLanes);
            }
        }

        DGO_INLINE void scale_to(Lanes* floats, const int32_t* row) const {
            for (int j = 0; j < kVectors; ++j) {
                floats[j] = to_floats(load_bytes<Integers>(row + j * kLanes)) * factor[j] + add[j];
            }
        }
    };

    // Writes `count` columns of rows, up to kVectors, from channel `first` on, with scales and bias in registers. Few
    // columns are those of several rows at once, which fill the bytes that are written at once. Rows of sums are `step`
    // apart, results of a target begin at element `begin`. other: bytes from a result to what is added to it.
    template <int kVectors, bool kResidual, bool kSmall, Division kBy>
    DGO_INLINE void columns_to_bytes(ElementType type, const int32_t* row, int64_t step, const DotTarget* targets,
                                     int64_t rows, int64_t begin, int64_t first, int64_t count, int64_t other) const {
        constexpr int64_t kRows = larger(kByteVectors / kVectors, 1), kWidth = kVectors * kLanes;
        constexpr int kCount = kRows * kVectors;
        const Quotient quotient = params.quotient;
        const bool signs = type == ElementType::s8;
        const Columns<kVectors> columns(*this, first);
        for (int64_t i = 0; i < rows; i += kRows) {
            const int64_t last = kRows == 1 ? 0 : smaller(kRows, rows - i) - 1;
            const DotTarget* target = targets + i;
            Lanes value[kCount], v[kCount];
            for (int64_t r = 0; r < kRows; ++r) {
                columns.scale_to(value + r * kVectors, row + (i + smaller(r, last)) * step);
            }
            if (kResidual) {
                add_residual<kBy>(value, [&](int j) __attribute__((always_inline)) {
                    const int64_t c = j % kVectors * kLanes;
                    return load_first(target[smaller(j / kVectors, last)].at + begin + other + c,
                                      kRows == 1 ? kLanes : count - c);
                });
            }
            quotients_of<kSmall, kBy>(quotient, value, v);
            if constexpr (kRows == 1) {
                store_integers<true>(v, quotient, signs, target->at + begin);
            } else {
                char bytes[kBytesAtOnce];
                store_integers<true>(v, quotient, signs, bytes);
                for (int64_t r = 0; r <= last; ++r) {
                    if (count == kWidth) {
                        __builtin_memcpy(target[r].at + begin, bytes + r * kWidth, kWidth);
                    } else {
                        store_first(target[r].at + begin, bytes + r * kWidth, count);
                    }
                }
            }
        }
    }

    template <bool kFloats = false>
    DGO_INLINE void scale_to_bytes(ElementType type, const int32_t* row, int64_t first, int64_t count, char* to) const {
        to_bytes(type, count, to, [&](int64_t c, int64_t) __attribute__((always_inline)) {
            return scaled<kFloats>(row + c, first + c);
        });
    }

private:
    // Rounds values to the integers of their own scale, and adds those of a residual to their floats: of(j) returns the
    // bytes of vector j as words.
    template <Division kBy, int kCount, class Residual>
    DGO_INLINE void add_residual(Lanes (&value)[kCount], Residual&& of) const {
        const Int8Residual by = params.residual;
        const uint32_t flip = by.is_signed ? 0x80 : 0;
        // integers less their zero point
        const auto low = static_cast<float>(by.inner.low - by.inner.zero),
                   high = static_cast<float>(by.inner.high - by.inner.zero);
        const auto zero = static_cast<int32_t>(by.zero);
        Lanes v[kCount];
        quotients_of<true, kBy>(by.inner, value, v);  // bounded as floats
        for (int j = 0; j < kCount; ++j) {
            const Lanes whole_number = larger_number(lanes_of(low), at_most(rounded(v[j]), high));
            value[j] = whole_number * by.inner.scale + to_floats(bits<Integers>(of(j) ^ flip) - zero) * by.scale;
        }
    }

    template <bool kFloats = false>
    DGO_INLINE Lanes scaled(const int32_t* row, int64_t at) const {
        const Lanes sum = kFloats ? load_bytes<Lanes>(row) : to_floats(load_bytes<Integers>(row));
        return sum * load_bytes<Lanes>(scales + at) + load_bytes<Lanes>(bias + at);
    }

    template <class Values>
    DGO_INLINE void to_bytes(ElementType type, int64_t count, char* to, Values values) const {
        store_quotients<true, false>(params.quotient, type == ElementType::s8, count, to, values);
    }
};

struct Int8Finish {
    using Sum = int32_t;
    static constexpr bool kIntegers = true;

    // Sums of the bytes of a tile's rows, each a sum of eight in every lane.
    class Read {
    public:
        // Adds `count` bytes of each row, which are readable to the end of a step of four.
        template <bool kNative = kWide>
        void add(const char* at, int64_t pitch, int64_t rows, int64_t count) {
            const auto each = [&](auto sum_at) __attribute__((always_inline)) {
                for (int64_t i = 0; i < rows; ++i) sums_[i] += bits<Sums>(sum_at(at + i * pitch));
            };
            if constexpr (kNative) {
                const auto sum_of = [](__m512i bytes) { return _mm512_sad_epu8(bytes, _mm512_setzero_si512()); };
                for (; count >= 256; count -= 256, at += 256) {
                    each([&](const char* from) __attribute__((always_inline)) {
                        __m512i sum = _mm512_setzero_si512();
                        for (int c = 0; c < 256; c += 64) sum += sum_of(load_bytes<__m512i>(from + c));
                        return sum;
                    });
                }
                for (; count > 0; count -= 64, at += 64) {
                    const uint64_t some = ~uint64_t{0} >> (64 - smaller(count, 64));
                    each([&](const char* from)
                             __attribute__((always_inline)) { return sum_of(_mm512_maskz_loadu_epi8(some, from)); });
                }
            } else {
                int8_t kept[64] = {};
                __builtin_memset(kept, -1, 32);
                for (; count > 0; count -= 32, at += 32) {
                    const __m256i bytes = load_bytes<__m256i>(kept + 32 - smaller(count, 32)),
                                  steps = load_bytes<__m256i>(kept + 32 - smaller(round_up(count, 4), 32));
                    each([&](const char* from) __attribute__((always_inline)) {
                        const __m256i some = _mm256_maskload_epi32(reinterpret_cast<const int*>(from), steps);
                        return _mm256_sad_epu8(_mm256_and_si256(some, bytes), _mm256_setzero_si256());
                    });
                }
            }
        }

        // to[row] = the sum of the row minus `less`.
        void put(int64_t rows, int64_t less, int32_t* to) const {
            for (int64_t i = 0; i < rows; ++i) {
                int64_t all = -less;
                for (int lane = 0; lane < kLanes / 2; ++lane) all += sums_[i][lane];
                to[i] = static_cast<int32_t>(all);
            }
        }

    private:
        typedef int64_t Sums __attribute__((vector_size(kLanes * 4)));

        Sums sums_[kDotRows] = {};
    };

    int filling = 0;
    int64_t group = 0;

    Int8Finish(const ProductParams& of, const ProductCall& operands, const char* to)
        : params(of), call(operands), dst(to) {}

    static constexpr bool activates() { return false; }

    void carve(ScratchCarver& carver) {
        const int64_t count = params.channel_groups * run + kBytesAtOnce;
        scales_ = carver.take(count);
        bias_ = carver.take(count);
    }

    void prepare() {
        values = {*call.integer, scales_, bias_};
        group_totals = params.packed / values.params.panel_depth;
        filling = values.params.src_zero;
        if (values.params.sums) return;
        const int64_t channels = params.dst.channels, count = params.channel_groups * run;
        for (int64_t i = 0; i < count; i += channels) {
            const int64_t first = i / run * channels;
            for (int64_t c = 0; c < channels; ++c) scales_[i + c] = call.scales[first + c] * values.params.src_scale;
            for (int64_t c = 0; c < channels; ++c) {
                bias_[i + c] = params.has_bias ? load_bytes<float>(call.bias + (first + c) * 4) : 0.0f;
            }
        }
        float most = 0;
        for (int64_t i = 0; i < count; ++i) {
            const float reach = 0x1p31f * __builtin_fabsf(scales_[i]) + __builtin_fabsf(bias_[i]);
            most = reach < most ? most : reach;  // a NaN stays
        }
        const Int8Residual& added = values.params.residual;
        if (call.residual != nullptr) most = 512 * (added.inner.scale + __builtin_fabsf(added.scale));
        small_ = most * __builtin_fabsf(values.params.quotient.inverse) < 0x1p30f;
        // uninitialised memory may hold denormal numbers, which take long
        __builtin_memset(scales_ + count, 0, kBytesAtOnce * sizeof(float));
        __builtin_memset(bias_ + count, 0, kBytesAtOnce * sizeof(float));
    }

    // Computes the contribution of the left factor's zero point to each column.
    void start(const TargetGroup& targets, const FilterImage&, int64_t column, int64_t count, int32_t* to) const {
        const int32_t* totals =
            call.totals + group * group_totals + targets.packed / values.params.panel_depth + column;
        const auto zero = static_cast<uint32_t>(values.params.src_zero);
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<int32_t>(0u - zero * static_cast<uint32_t>(totals[c]));
    }

    // Whether zero points of weights are to be taken from sums.
    bool corrects() const { return call.points != nullptr; }

    // Returns the channels of src that weights are for.
    int64_t channels() const { return values.params.channels; }

    // sums[row][c] -= points[c] * read[row], of `count` channels from `first` on.
    void correct(const int32_t* read, int64_t rows, int64_t first, int64_t count, int32_t* __restrict sums) const {
        const int32_t* points = call.points + group * params.dst.channels + first;
        for (int64_t i = 0; i < rows; ++i, sums += kSumsPitch) {
            const auto factor = static_cast<uint32_t>(read[i]);
            for (int64_t c = 0; c < count; ++c) {
                // without a sign, as zero points of s32 may wrap
                sums[c] =
                    static_cast<int32_t>(static_cast<uint32_t>(sums[c]) - static_cast<uint32_t>(points[c]) * factor);
            }
        }
    }

    // Makes floats of a row's sums, from element `low` of its run on.
    void scale(int32_t* row, int64_t low, int64_t count) const {
        if (!values.params.sums) values.scale(row, group * run + low, count, reinterpret_cast<float*>(row));
    }

    // Scales of chunks are read in longer rows than a panel's.
    static bool rounds_panels(ElementType) { return false; }
    void round_panel(const int32_t*, const DotTarget*, int64_t, int64_t, int64_t) const {}

    // Writes results of 8 bits of rows that no post-op changes; returns whether rows are left.
    bool round_rows(ElementType type, int32_t* from, const DotTarget* targets, int64_t rows, int64_t begin,
                    int64_t end) const {
        if (!is_byte(type) || call.epilogue.params != nullptr) return true;
        const Int8Values some = values;
        const int64_t first = group * run, there = call.residual == nullptr ? 0 : call.residual - dst;
        Division division = division_of(some.params.quotient);
        if (call.residual != nullptr && division != division_of(some.params.residual.inner)) {
            division = Division::checked;
        }
        bool whole = true;
        for (int64_t i = 0; i < rows; ++i) whole &= targets[i].low <= begin && targets[i].high >= end;
        const auto columns = [&](auto vectors) __attribute__((always_inline)) {
            const int64_t count = smaller(vectors * kLanes, end - begin);
            by_division(division, [&](auto by) __attribute__((always_inline)) {
                by_flag(call.residual != nullptr, [&](auto residual) __attribute__((always_inline)) {
                    by_flag(small_, [&](auto small) __attribute__((always_inline)) {
                        some.columns_to_bytes<vectors, residual, small, by>(type, from, kSumsPitch, targets, rows,
                                                                            begin, first + begin, count, there);
                    });
                });
            });
            begin += count;
            from += count;
        };
        while (whole && begin + kMostBytes <= end) columns(std::integral_constant<int, kMostByteVectors>{});
        while (whole && begin + kBytesAtOnce <= end) columns(std::integral_constant<int, kByteVectors>{});
        while (whole && begin + kLanes < end) columns(std::integral_constant<int, kByteVectors / 2>{});
        while (whole && begin < end) columns(std::integral_constant<int, 1>{});
        if (begin == end) return false;
        const char* other = call.residual;
        visit_targets(targets, rows, begin, end, 1, from, kSumsPitch,
                      [&](const int32_t* row, char* to, int64_t low, int64_t count) __attribute__((always_inline)) {
                          some.scale_and_round(type, row, first + low, count, other == nullptr ? nullptr : to + there,
                                               to);
                      });
        return false;
    }

    void round(ElementType type, const int32_t* row, int64_t count, char* to) const {
        if (type == ElementType::s32) {
            __builtin_memcpy(to, row, static_cast<size_t>(count) * 4);
        } else {
            values.round(type, row, count, to);
        }
    }

    void scale_and_round(ElementType type, int32_t* row, char* to, int64_t low, int64_t count) const {
        if (type == ElementType::f32) {
            return values.scale(row, group * run + low, count, reinterpret_cast<float*>(to));
        }
        if (!is_byte(type)) {
            scale(row, low, count);
            return round(type, row, count, to);
        }
        const char* other = call.residual == nullptr ? nullptr : call.residual + (to - dst);
        values.scale_and_round(type, row, group * run + low, count, other, to);
    }

private:
    const ProductParams& params;
    const ProductCall& call;
    const char* dst;
    int64_t run = params.dst.run, group_totals = 0;
    float *scales_, *bias_;  // [group][run]
    Int8Values values;
    bool small_ = false;  // quotients of all sums are below 2^31
};

}  // namespace
}  // namespace dgo::DGO_ISA
