// Depthwise sums of 8 bits: the same channel of some rows of the kernel side by side, as products of a dot expect it.
#pragma once

#include "kernels/dot/depthwise.hpp"
#include "kernels/isa/dot/set.hpp"

namespace dgo::DGO_ISA {

// Halves of each 128 bits, element by element of 1 or 2 bytes in turn.
template <int Size, bool High, int L = kLanes>
DGO_INLINE Lanes zip(Lanes a, Lanes b) {
    if constexpr (L == 16) {
        const __m512i x = bits<__m512i>(a), y = bits<__m512i>(b);
        if constexpr (Size == 1) return bits<Lanes>(High ? _mm512_unpackhi_epi8(x, y) : _mm512_unpacklo_epi8(x, y));
        if constexpr (Size == 2) return bits<Lanes>(High ? _mm512_unpackhi_epi16(x, y) : _mm512_unpacklo_epi16(x, y));
    } else {
        const __m256i x = bits<__m256i>(a), y = bits<__m256i>(b);
        if constexpr (Size == 1) return bits<Lanes>(High ? _mm256_unpackhi_epi8(x, y) : _mm256_unpacklo_epi8(x, y));
        if constexpr (Size == 2) return bits<Lanes>(High ? _mm256_unpackhi_epi16(x, y) : _mm256_unpacklo_epi16(x, y));
    }
}

// Fours of bytes in the order in which store_mixed zips them into vectors of neighbouring channels.
template <int L = kLanes>
DGO_INLINE Lanes in_order(Lanes v) {
    if constexpr (L == 16) {
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return bits<Lanes>(_mm512_permutexvar_epi32(order, bits<__m512i>(v)));
    } else {
        return bits<Lanes>(_mm256_permutevar8x32_epi32(bits<__m256i>(v), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)));
    }
}

template <class Type, class Multiply>
struct Depthwise {
    static constexpr int kRows = 4 / Type::kItem;
    static constexpr int64_t kBytes = 4 * kLanes, kBlock = kDepthwiseVectors * kBytes;
    typedef uint8_t Bytes __attribute__((vector_size(kBytes)));

    // The same channel of some rows side by side.
    static DGO_INLINE void store_mixed(const Lanes (&x)[kRows], char* to) {
        const Lanes low = zip<1, false>(x[0], x[1]), high = zip<1, true>(x[0], x[1]);
        if constexpr (kRows == 4) {
            const Lanes low2 = zip<1, false>(x[2], x[3]), high2 = zip<1, true>(x[2], x[3]);
            store_bytes(to, zip<2, false>(low, low2));
            store_bytes(to + kBytes, zip<2, true>(low, low2));
            store_bytes(to + 2 * kBytes, zip<2, false>(high, high2));
            store_bytes(to + 3 * kBytes, zip<2, true>(high, high2));
        } else {
            const Lanes none{};
            store_bytes(to, zip<1, false>(low, none));
            store_bytes(to + kBytes, zip<1, true>(low, none));
            store_bytes(to + 2 * kBytes, zip<1, false>(high, none));
            store_bytes(to + 3 * kBytes, zip<1, true>(high, none));
        }
    }

    static void mix(const DepthwiseMix& params) {
        const DepthwiseMix of = params;  // which no store changes
        const int64_t steps = ceil_div(of.row_count, kRows), to_next = steps * kBlock;
        const auto flips = bits<Lanes>(of.flip - Bytes{}), filling = bits<Lanes>(of.filling - Bytes{});
        const Bytes absent = bits<Bytes>(flips) ^ bits<Bytes>(filling);
        // positions from which whole vectors may be read
        int64_t whole = of.end;
        while (whole > of.begin && (of.end - whole) * of.pitch + of.readable < kBytes) --whole;
        for (int64_t step = 0; step < steps; ++step) {
            char* to = of.mixed + step * kBlock;
            const char* at[kRows];
            int64_t pitch[kRows];
            for (int64_t i = 0; i < kRows; ++i) {
                const int64_t row = step * kRows + i;
                const bool exists = row < of.row_count && of.rows[row] != nullptr;
                at[i] = exists ? of.rows[row] : reinterpret_cast<const char*>(&absent);
                pitch[i] = exists ? of.pitch : 0;
            }
            Lanes x[kRows];
            for (Lanes& some : x) some = filling;
            for (int64_t p = 0; p < of.begin; ++p) store_mixed(x, to + p * to_next);
            for (int64_t p = of.end; p < of.positions; ++p) store_mixed(x, to + p * to_next);
            for (int64_t p = of.begin; p < whole; ++p) {
#pragma GCC unroll 4
                for (int i = 0; i < kRows; ++i) {
                    const auto row = bits<Bytes>(load_bytes<Lanes>(at[i] + p * pitch[i])) ^ bits<Bytes>(flips);
                    x[i] = in_order(bits<Lanes>(row));
                }
                store_mixed(x, to + p * to_next);
            }
            for (int64_t p = whole; p < of.end; ++p) {
                const auto count = static_cast<size_t>(smaller(kBytes, (of.end - 1 - p) * of.pitch + of.readable));
                for (int i = 0; i < kRows; ++i) {
                    Bytes row{};
                    __builtin_memcpy(&row, at[i] + p * pitch[i], count);
                    x[i] = in_order(bits<Lanes>(row ^ bits<Bytes>(flips)));
                }
                store_mixed(x, to + p * to_next);
            }
        }
    }

    // kCount vectors of channels from the first one on.
    template <int kCount>
    static void sum_vectors(const DepthwiseSum& of, int64_t first) {
        constexpr int kOutputs = kDepthwiseOutputs;
        const int64_t tap_count = of.tap_count, steps = of.steps, advance = of.advance;
        const int64_t* taps = of.taps;
        Lanes start[kCount];
        for (int v = 0; v < kCount; ++v) start[v] = load_bytes<Lanes>(of.start + (first + v) * kLanes);
        for (int64_t q = 0; q < of.outputs; q += kOutputs) {
            const char *mixed = of.mixed + q * advance + first * kBytes, *w = of.weights + first * kBytes;
            Lanes sum[kOutputs][kCount];
#pragma GCC unroll 4
            for (int j = 0; j < kOutputs; ++j) {
#pragma GCC unroll 4
                for (int v = 0; v < kCount; ++v) sum[j][v] = start[v];
            }
            for (int64_t t = 0; t < tap_count; ++t) {
                const char* x = mixed + taps[t];
                for (int64_t step = 0; step < steps; ++step, x += kBlock, w += kBlock) {
#pragma GCC unroll 4
                    for (int v = 0; v < kCount; ++v) {
                        const auto weights = load_bytes<Lanes>(w + v * kBytes);
#pragma GCC unroll 4
                        for (int j = 0; j < kOutputs; ++j) {
                            Multiply::add(sum[j][v], load_bytes<Lanes>(x + j * advance + v * kBytes), weights);
                        }
                    }
                }
            }
            int32_t* to = of.sums + (q * kDepthwiseVectors + first) * kLanes;
#pragma GCC unroll 4
            for (int j = 0; j < kOutputs; ++j) {
#pragma GCC unroll 4
                for (int v = 0; v < kCount; ++v) {
                    store_bytes(to + (j * kDepthwiseVectors + v) * kLanes, sum[j][v]);
                }
            }
        }
    }

    static void sum(const DepthwiseSum& of) {
        const int64_t vectors = ceil_div(of.channels, kLanes);
        if constexpr (kLanes == 16) {
            if (vectors == 4) return sum_vectors<4>(of, 0);
            if (vectors == 3) return sum_vectors<3>(of, 0);
        } else if (vectors > 2) {
            sum_vectors<2>(of, 0);
            return vectors == 4 ? sum_vectors<2>(of, 2) : sum_vectors<1>(of, 2);
        }
        return vectors == 2 ? sum_vectors<2>(of, 0) : sum_vectors<1>(of, 0);
    }

    static constexpr DotDepthwise kCode = {kLanes, kRows, mix, sum};
};

template <class Type, class Multiply>
constexpr const DotDepthwise* kDepthwiseOf = &Depthwise<Type, Multiply>::kCode;
template <class Multiply>
constexpr const DotDepthwise* kDepthwiseOf<Bf16Pairs, Multiply> = nullptr;

}  // namespace dgo::DGO_ISA
