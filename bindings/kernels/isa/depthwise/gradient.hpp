// Gradients of a depthwise layer's weights: the taps of up to three kernel rows in registers, every source and gradient
// loaded once for all of them.
#pragma once

#include "kernels/isa/depthwise/gather.hpp"

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
    if (kLanes == 16 && run.channels < kLanes) return gradient_run<C, 8, 1, 1>(run);
    if (run.advance == 2) return gradient_of<C, 2>(run);
    gradient_of<C, 1>(run);
}

}  // namespace

}  // namespace dgo::DGO_ISA
