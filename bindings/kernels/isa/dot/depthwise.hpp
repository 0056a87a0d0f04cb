// Depthwise sums of 8 bits: the same channel of some rows of the kernel side by side, as products of a dot expect it.
#pragma once

#include "kernels/dot/depthwise.hpp"
#include "kernels/isa/dot/set.hpp"

namespace dgo::DGO_ISA {

// Interleaves the halves of each 128 bits, by elements of 1 or 2 bytes.
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

template <class Multiply>
struct Depthwise {
    static constexpr int kRows = kDepthwiseRows;
    static constexpr int64_t kBytes = 4 * kLanes, kBlock = kDepthwiseVectors * kBytes;
    typedef uint8_t Bytes __attribute__((vector_size(kBytes)));

    // Puts a channel of kReal rows side by side. The places of the other rows meet weights of zero.
    template <int kReal>
    static DGO_INLINE void store_mixed(const char* (&at)[kRows], Lanes flips, char* to) {
        if constexpr (kReal == 1) {
            for (int64_t v = 0; v < kDepthwiseVectors; ++v) {
                const auto row = load_words<1, kLanes>(at[0] + v * kLanes) ^ (bits<Vec<kLanes>::u32>(flips) & 0xff);
                store_bytes(to + v * kBytes, row);
            }
        } else {
            Lanes x[kRows];
            for (int i = 0; i < kReal; ++i) {
                x[i] = in_order(bits<Lanes>(bits<Bytes>(load_bytes<Lanes>(at[i])) ^ bits<Bytes>(flips)));
            }
            const Lanes low = zip<1, false>(x[0], x[1]), high = zip<1, true>(x[0], x[1]);
            Lanes low2 = low, high2 = high;
            if constexpr (kReal > 2) {
                const Lanes last = x[kReal - 1];
                low2 = zip<1, false>(x[2], last), high2 = zip<1, true>(x[2], last);
            }
            const Lanes v[] = {zip<2, false>(low, low2), zip<2, true>(low, low2), zip<2, false>(high, high2),
                               zip<2, true>(high, high2)};
            for (int64_t j = 0; j < kDepthwiseVectors; ++j) store_bytes(to + j * kBytes, v[j]);
        }
    }

    // Mixes a step of kReal rows of `left`. whole: positions from which whole vectors may be read; the others end with
    // src.
    template <int kReal>
    static void mix_step(const DepthwiseMix& of, const char* const* lines, int64_t left, int64_t whole, char* mixed,
                         int64_t to_next) {
        const int64_t begin = of.begin, end = of.end, positions = of.positions, src_pitch = of.pitch;
        const Bytes flip = of.flip - Bytes{}, absent = flip ^ (of.filling - Bytes{});
        const auto flips = bits<Lanes>(flip);
        const auto fetched = static_cast<int>(larger(0, left - of.fetched));
        const int64_t ahead = of.ahead;
        const char *rows[kRows], *at[kRows];
        int64_t pitch[kRows];
        for (int i = 0; i < kReal; ++i) {
            at[i] = reinterpret_cast<const char*>(&absent);
            rows[i] = lines[i] == nullptr ? at[i] : lines[i];
            pitch[i] = lines[i] == nullptr ? 0 : src_pitch;
        }
        for (int64_t p = 0; p < begin; ++p) store_mixed<kReal>(at, flips, mixed + p * to_next);
        for (int64_t p = end; p < positions; ++p) store_mixed<kReal>(at, flips, mixed + p * to_next);
        for (int64_t p = begin; p < whole; ++p) {
            for (int i = 0; i < kReal; ++i) at[i] = rows[i] + p * pitch[i];
            // positions of a block of channels lie too far apart for the processor to see what comes next
            for (int i = fetched; i < kReal; ++i) _mm_prefetch(at[i] + ahead, _MM_HINT_T1);
            store_mixed<kReal>(at, flips, mixed + p * to_next);
        }
        Bytes last[kRows] = {};
        for (int64_t p = whole; p < end; ++p) {
            const auto count = static_cast<size_t>(smaller(kBytes, (end - 1 - p) * src_pitch + of.readable));
            for (int i = 0; i < kReal; ++i) {
                __builtin_memcpy(&last[i], rows[i] + p * pitch[i], count);
                at[i] = reinterpret_cast<const char*>(&last[i]);
            }
            store_mixed<kReal>(at, flips, mixed + p * to_next);
        }
    }

    static void mix(const DepthwiseMix& of) {
        const int64_t to_next = ceil_div(of.row_count, kRows) * kBlock;
        int64_t whole = of.end;
        while (whole > of.begin && (of.end - whole) * of.pitch + of.readable < kBytes) --whole;
        char* to = of.mixed;
        for (int64_t row = 0; row < of.row_count; row += kRows, to += kBlock) {
            const int64_t left = of.row_count - row, real = smaller(left, kRows);
            const char* const* lines = of.rows + row;
            if (real == 4) mix_step<4>(of, lines, left, whole, to, to_next);
            if (real == 3) mix_step<3>(of, lines, left, whole, to, to_next);
            if (real == 2) mix_step<2>(of, lines, left, whole, to, to_next);
            if (real == 1) mix_step<1>(of, lines, left, whole, to, to_next);
        }
    }

    // Sums kCount vectors of channels from the first one on.
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

    static constexpr DotDepthwise kCode = {kLanes, mix, sum};
};

template <class Type, class Multiply>
constexpr const DotDepthwise* kDepthwiseOf = nullptr;
template <class Multiply>
constexpr const DotDepthwise* kDepthwiseOf<ByteQuads, Multiply> = &Depthwise<Multiply>::kCode;

}  // namespace dgo::DGO_ISA
