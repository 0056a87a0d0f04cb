// Depthwise sums in registers, along the channels or along the innermost spatial axis.
#include "kernels/isa/depthwise/gather.hpp"
#include "kernels/isa/depthwise/gradient.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

// ---- along the channels -----------------------------------------------------------------------------------

// Computes Q outputs of V vectors of channels from channel c on.
template <class D, int L, int Q, int V>
DGO_INLINE void channels_tile(const ChannelsRun& run, int64_t q, int64_t c) {
    Floats<L> sum[Q][V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
        const Floats<L> start =
            run.bias ? load_float<F32, L>(reinterpret_cast<const Words::u32*>(run.bias + c + v * L)) : Floats<L>{};
#pragma GCC unroll 4
        for (int j = 0; j < Q; ++j) sum[j][v] = start;
    }
    const int64_t offset = q * run.src_step + c;
    for (int64_t t = 0; t < run.taps; ++t) {
        const auto* src = reinterpret_cast<const Words::u32*>(run.src[t]) + offset;
#pragma GCC unroll 4
        for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                sum[j][v] += load_float<F32, L>(src + j * run.src_step + v * L);
            }
        }
    }
    auto* dst = reinterpret_cast<typename D::T*>(run.dst) + q * run.dst_step + c;
#pragma GCC unroll 4
    for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            store_float<D, L>(dst + j * run.dst_step + v * L, sum[j][v]);
        }
    }
}

template <class D, int L, int Q>
DGO_INLINE void channels_outputs(const ChannelsRun& run, int64_t q) {
    int64_t c = 0;
    for (; c + 2 * L <= run.channels; c += 2 * L) channels_tile<D, L, Q, 2>(run, q, c);
    if (c + L <= run.channels) {
        channels_tile<D, L, Q, 1>(run, q, c);
        c += L;
    }
    if (c < run.channels) channels_tile<D, L, Q, 1>(run, q, run.channels - L);
}

template <class D, int L>
void channels_run(const ChannelsRun& run) {
    int64_t q = 0;
    for (; q + 4 <= run.count; q += 4) channels_outputs<D, L, 4>(run, q);
    for (; q < run.count; ++q) channels_outputs<D, L, 1>(run, q);
}

template <class D>
void sum_channels(const ChannelsRun& run) {
    if (kLanes == 8 || run.channels >= kLanes) return channels_run<D, kLanes>(run);
    channels_run<D, 8>(run);
}

// ---- along the innermost axis -----------------------------------------------------------------------------

template <int L, int V>
DGO_INLINE void space_tile(const SpaceRun& run, int64_t q) {
    Floats<L> sum[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[v] = Floats<L>{} + run.bias;
    for (int64_t t = 0; t < run.taps; ++t) {
        const float* src = run.src[t] + q;
        const float w = run.weights[t];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[v] += load_bytes<Floats<L>>(src + v * L) * w;
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store_bytes(run.dst + q + v * L, sum[v]);
}

template <int L>
void space_run(const SpaceRun& run) {
    if (run.count < L) {
        if constexpr (L > 4) {
            return space_run<L / 2>(run);
        } else {
            for (int64_t q = 0; q < run.count; ++q) {
                float sum = run.bias;
                for (int64_t t = 0; t < run.taps; ++t) sum += run.src[t][q] * run.weights[t];
                run.dst[q] = sum;
            }
            return;
        }
    }
    int64_t q = 0;
    for (; q + 4 * L <= run.count; q += 4 * L) space_tile<L, 4>(run, q);
    for (; q + L <= run.count; q += L) space_tile<L, 1>(run, q);
    if (q < run.count) space_tile<L, 1>(run, run.count - L);
}

template <int L>
DGO_INLINE float sum_of(Floats<L> v) {
    float lanes[L];
    store_bytes(lanes, v);
    for (int width = L / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
}

template <int K>
DGO_INLINE void space_gradient_taps(const SpaceGradient& run, int64_t tap) {
    constexpr int L = kLanes;
    Floats<L> sum[K][2] = {};
    float rest[K] = {};
    int64_t q = 0;
    for (; q + 2 * L <= run.count; q += 2 * L) {
        const Floats<L> a = load_bytes<Floats<L>>(run.src + q), b = load_bytes<Floats<L>>(run.src + q + L);
#pragma GCC unroll 4
        for (int k = 0; k < K; ++k) {
            sum[k][0] += a * load_bytes<Floats<L>>(run.diff[tap + k] + q);
            sum[k][1] += b * load_bytes<Floats<L>>(run.diff[tap + k] + q + L);
        }
    }
    for (; q + L <= run.count; q += L) {
        const Floats<L> a = load_bytes<Floats<L>>(run.src + q);
#pragma GCC unroll 4
        for (int k = 0; k < K; ++k) sum[k][0] += a * load_bytes<Floats<L>>(run.diff[tap + k] + q);
    }
    for (; q < run.count; ++q) {
#pragma GCC unroll 4
        for (int k = 0; k < K; ++k) rest[k] += run.src[q] * run.diff[tap + k][q];
    }
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) run.sums[tap + k] += sum_of<L>(sum[k][0] + sum[k][1]) + rest[k];
}

void space_gradient(const SpaceGradient& run) {
    int64_t tap = 0;
    for (; tap + 4 <= run.taps; tap += 4) space_gradient_taps<4>(run, tap);
    for (; tap < run.taps; ++tap) space_gradient_taps<1>(run, tap);
}

}  // namespace

const DepthwiseCode kDepthwiseCode = {
    8,
    kLanes,
    {kMostTaps, kMostGroupTaps},
    {gather_f32, gather_bf16, gather_f16, gather_u8},
    {sum_channels<F32>, sum_channels<Bf16>, sum_channels<F16>},
    {gradient_f32, gradient_bf16, gradient_f16},
    space_run<kLanes>,
    space_gradient,
};

}  // namespace dgo::DGO_ISA
