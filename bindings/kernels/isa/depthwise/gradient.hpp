// Gradients of a depthwise layer's weights: the taps of up to three kernel rows in registers, every source and gradient
// loaded once for all of them.
#pragma once

#include "kernels/isa/depthwise/gather_groups.hpp"

namespace dgo::DGO_ISA {

// One for each data type, compiled apart.
void gradient_f32(const ChannelsGradient& run);
void gradient_bf16(const ChannelsGradient& run);
void gradient_f16(const ChannelsGradient& run);

namespace {

constexpr int kQuad = 4;  // positions between two looks at the edges
constexpr int kRows = kLanes == 16 ? 7 : 3;  // taps up to which three kernel rows fit into the registers

// Adds the products of Quad positions from q on with the K taps of R segments; at an edge only of those that exist.
template <class C, int L, int K, int A, int R, int Quad, bool Edge>
DGO_INLINE void add_positions(Floats<L> (&sum)[R][K], const ChannelsGradient& run, const char* row,
                              const GradientSegment* segments, int64_t q, int64_t c) {
    using T = typename C::T;
    const int64_t unit = run.unit, src_step = run.src_step;
    const T* src = reinterpret_cast<const T*>(row) + q * src_step + c;
    Floats<L> s[Quad];
#pragma GCC unroll 4
    for (int j = 0; j < Quad; ++j) s[j] = load_float<C, L>(src + j * src_step);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
        const T* at = reinterpret_cast<const T*>(segments[r].diff) + q * A * unit + c;
        const uint64_t present = Edge ? bits_between(segments[r].begin - q * A, segments[r].end - q * A) : ~uint64_t{0};
        if (Edge && present == 0) continue;
#pragma GCC unroll 16
        for (int i = 0; i < (Quad - 1) * A + K; ++i, at += unit) {
            asm("" : "+r"(at));  // or else an address for each unit is kept in a register
            if (Edge && (present >> i & 1) == 0) continue;
            const Floats<L> d = load_float<C, L>(at);
#pragma GCC unroll 8
            for (int t = 0; t < K; ++t) {
                if (i >= t && (i - t) % A == 0 && (i - t) / A < Quad) sum[r][t] += s[(i - t) / A] * d;
            }
        }
    }
}

// Computes all rows with R segments from `first` on for the channels of a vector from `done` on.
template <class C, int L, int K, int A, int R>
DGO_INLINE void gradient_tile(const ChannelsGradient& run, int64_t first, int64_t c, int64_t done) {
    Floats<L> sum[R][K] = {};
    for (int64_t i = 0; i < run.row_count; ++i) {
        const GradientRow& row = run.rows[i];
        const GradientSegment* segments = row.segments + first;
        int64_t inner = 0, inner_end = row.count;
        for (int r = 0; r < R; ++r) {
            inner = larger(inner, ceil_div(larger(segments[r].begin, 0), A));
            inner_end = smaller(inner_end, segments[r].end < K ? 0 : (segments[r].end - K) / A + 1);
        }
        int64_t q = 0;
        for (; q + kQuad <= row.count; q += kQuad) {
            if (q >= inner && q + kQuad <= inner_end) {
                add_positions<C, L, K, A, R, kQuad, false>(sum, run, row.src, segments, q, c);
            } else {
                add_positions<C, L, K, A, R, kQuad, true>(sum, run, row.src, segments, q, c);
            }
        }
        for (; q < row.count; ++q) add_positions<C, L, K, A, R, 1, true>(sum, run, row.src, segments, q, c);
    }
    const GradientSegment* segments = run.rows[0].segments + first;
    typename Vec<L>::s32 lanes;
    for (int l = 0; l < L; ++l) lanes[l] = l;
    const auto fresh = lanes >= static_cast<int32_t>(done - c);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int t = 0; t < K; ++t) {
            float* sums = segments[r].sums + t * run.sums_step + c;
            const auto add = bits<typename Vec<L>::s32>(sum[r][t]) & fresh;
            store_bytes(sums, load_bytes<Floats<L>>(sums) + bits<Floats<L>>(add));
        }
    }
}

template <class C, int L, int K, int A>
void gradient_run(const ChannelsGradient& run) {
    constexpr int kMany = K == 1 ? 8 : K <= kRows ? 3 : 1;
    int64_t next = 0;
    for (int64_t done = 0; done < run.channels; done = smaller(next, run.channels)) {
        // the second vector is the first aligned one
        const int64_t c = smaller(done == L && run.head > 0 ? run.head : done, run.channels - L);
        next = c + L;
        int64_t s = 0;
        if constexpr (kMany > 1) {
            for (; s + kMany <= run.number; s += kMany) gradient_tile<C, L, K, A, kMany>(run, s, c, done);
        }
        for (; s < run.number; ++s) gradient_tile<C, L, K, A, 1>(run, s, c, done);
    }
}

// ---- groups: lanes hold channels of diff_dst ---------------------------------------------------------------------

// Channels of src whose sums a tile has, at most: with kMostGroupTaps taps they fit into the registers.
constexpr int kTileSources = kLanes / 2;

// Returns in each lane l lane l ^ R of v.
template <int L, int R>
DGO_INLINE Floats<L> turned(Floats<L> v) {
    if constexpr (L == 8) {
        return __builtin_shuffle(v, typename Vec<L>::s32{0 ^ R, 1 ^ R, 2 ^ R, 3 ^ R, 4 ^ R, 5 ^ R, 6 ^ R, 7 ^ R});
    } else {
        return __builtin_shuffle(v, typename Vec<L>::s32{0 ^ R, 1 ^ R, 2 ^ R, 3 ^ R, 4 ^ R, 5 ^ R, 6 ^ R, 7 ^ R, 8 ^ R,
                                                         9 ^ R, 10 ^ R, 11 ^ R, 12 ^ R, 13 ^ R, 14 ^ R, 15 ^ R});
    }
}

// Adds the products of a position: of M channels of src with taps [first, end) of K. Turned: src holds the channels of
// the lanes' groups, and lane l of sum r has channel l ^ r; else M channels of one group, of which sum r has channel r.
template <class C, int L, bool Turned, int M, int K, int R = 0>
DGO_INLINE void add_position(Floats<L> (&sum)[M][K], const typename C::T* src, const Floats<L> (&x)[K], int first,
                             int end) {
    Floats<L> y;
    if constexpr (Turned) {
        y = turned<L, R>(load_float<C, L>(src));
    } else {
        y = spread<C, L, R % 2 == 1>(src + R);
    }
#pragma GCC unroll 4
    for (int t = 0; t < K; ++t) {
        if (t >= first && t < end) sum[R][t] += y * x[t];
    }
    if constexpr (R + 1 < M) add_position<C, L, Turned, M, K, R + 1>(sum, src, x, first, end);
}

// Exchanges lanes of sums whose lane l has channel l ^ r: sum r gets channel r in all lanes.
template <int L, int M, int K, int Bit = 1>
DGO_INLINE void sort_channels(Floats<L> (&sum)[M][K]) {
    if constexpr (Bit < M) {
        typename Vec<L>::s32 odd;
        for (int l = 0; l < L; ++l) odd[l] = l & Bit;
#pragma GCC unroll 8
        for (int r = 0; r < M; ++r) {
            if ((r & Bit) != 0) continue;
#pragma GCC unroll 4
            for (int t = 0; t < K; ++t) {
                const Floats<L> low = sum[r][t], high = sum[r + Bit][t];
                sum[r][t] = odd != 0 ? high : low;
                sum[r + Bit][t] = odd != 0 ? low : high;
            }
        }
        sort_channels<L, M, K, 2 * Bit>(sum);
    }
}

// Computes all rows with segment `index` for the vector of channels of diff_dst from c on, and M channels of src.
template <class C, int L, bool Turned, int M, int K, int A>
void group_tile(const ChannelsGradient& run, int64_t index, int64_t c, int64_t source, float* sums, int64_t done) {
    using T = typename C::T;
    const int64_t unit = run.unit, src_step = run.src_step;
    Floats<L> sum[M][K] = {};
    for (int64_t i = 0; i < run.row_count; ++i) {
        const GradientRow& row = run.rows[i];
        const GradientSegment& segment = row.segments[index];
        const int64_t inner = ceil_div(larger(segment.begin, 0), A);
        const int64_t inner_end = segment.end < K ? 0 : (segment.end - K) / A + 1;
        const T* src = reinterpret_cast<const T*>(row.src) + source;
        const T* diff = reinterpret_cast<const T*>(segment.diff) + c;
        for (int64_t q = 0; q < row.count; ++q, src += src_step, diff += A * unit) {
            Floats<L> x[K];
            if (q >= inner && q < inner_end) {
#pragma GCC unroll 4
                for (int t = 0; t < K; ++t) x[t] = load_float<C, L>(diff + t * unit);
                add_position<C, L, Turned>(sum, src, x, 0, K);
                continue;
            }
#pragma GCC unroll 4
            for (int t = 0; t < K; ++t) {
                if (q * A + t < segment.begin || q * A + t >= segment.end) continue;
                x[t] = load_float<C, L>(diff + t * unit);
                add_position<C, L, Turned>(sum, src, x, t, t + 1);
            }
        }
    }
    if constexpr (Turned) sort_channels<L>(sum);
    typename Vec<L>::s32 lanes;
    for (int l = 0; l < L; ++l) lanes[l] = l;
    const auto fresh = lanes >= static_cast<int32_t>(done - c);
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r, sums += run.channel_step) {
#pragma GCC unroll 4
        for (int t = 0; t < K; ++t) {
            float* const at = sums + t * run.sums_step;
            const auto add = bits<typename Vec<L>::s32>(sum[r][t]) & fresh;
            store_bytes(at, load_bytes<Floats<L>>(at) + bits<Floats<L>>(add));
        }
    }
}

template <class C, int L, bool Turned, int M, int K, int A>
void groups_run(const ChannelsGradient& run) {
    for (int64_t done = 0; done < run.channels; done += L) {
        const int64_t c = smaller(done, run.channels - L);
        const int64_t group = (run.first + c) / run.width * run.width - run.first;
        for (int64_t s = 0; s < run.number; ++s) {
            float* sums = run.rows[0].segments[s].sums + c;
            if constexpr (Turned) {
                group_tile<C, L, true, M, K, A>(run, s, c, c, sums, done);
            } else {
                for (int64_t m = 0; m < run.width; m += M, sums += M * run.channel_step) {
                    group_tile<C, L, false, M, K, A>(run, s, c, group + m, sums, done);
                }
            }
        }
    }
}

template <class C, int L, bool Turned, int M, int A>
DGO_INLINE void groups_of(const ChannelsGradient& run) {
    if (run.taps == 3) return groups_run<C, L, Turned, M, 3, A>(run);
    if (run.taps == 2) return groups_run<C, L, Turned, M, 2, A>(run);
    groups_run<C, L, Turned, M, 1, 1>(run);
}

template <class C, int L, int A>
DGO_INLINE void groups_within(const ChannelsGradient& run) {
    if (run.width == 2) return groups_of<C, L, true, 2, A>(run);
    if (run.width == 4) return groups_of<C, L, true, 4, A>(run);
    if constexpr (kLanes == 16) groups_of<C, L, true, 8, A>(run);
}

// Groups of a power of two channels within a vector, or of whole vectors.
template <class C, int A>
DGO_INLINE void group_gradient(const ChannelsGradient& run) {
    if (run.width % kLanes == 0) return groups_of<C, kLanes, false, kTileSources, A>(run);
    // a task on a few groups may still load whole vectors, from the channels next to its own
    if (kLanes == 8 || run.first + run.readable >= kLanes) return groups_within<C, kLanes, A>(run);
    groups_within<C, 8, A>(run);
}

template <class C, int A>
DGO_INLINE void gradient_of(const ChannelsGradient& run) {
    if (run.taps == 2) return gradient_run<C, kLanes, 2, A>(run);
    if (run.taps == 3) return gradient_run<C, kLanes, 3, A>(run);
    if (run.taps == 4) return gradient_run<C, kLanes, 4, A>(run);
    if (run.taps == 5) return gradient_run<C, kLanes, 5, A>(run);
    if (run.taps == 7) return gradient_run<C, kLanes, 7, A>(run);
    gradient_run<C, kLanes, 1, 1>(run);
}

template <class C>
DGO_INLINE void gradient(const ChannelsGradient& run) {
    if (run.width > 1) return run.advance == 2 ? group_gradient<C, 2>(run) : group_gradient<C, 1>(run);
    if (kLanes == 16 && run.channels < kLanes) return gradient_run<C, 8, 1, 1>(run);
    if (run.advance == 2) return gradient_of<C, 2>(run);
    gradient_of<C, 1>(run);
}

}  // namespace

}  // namespace dgo::DGO_ISA
