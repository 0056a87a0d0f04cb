// Depthwise sums in registers, along the channels or along the innermost spatial axis.
#include "kernels/isa/cells.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

template <int L>
using Floats = typename Vec<L>::f32;

// ---- along the channels -----------------------------------------------------------------------------------

// Q outputs times V vectors of channels from channel c.
template <class S, class D, bool Weighted, int L, int Q, int V>
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
        const auto* src = reinterpret_cast<const typename S::T*>(run.src[t]) + offset;
        Floats<L> w[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            if constexpr (Weighted) w[v] = load_bytes<Floats<L>>(run.weights[t] + c + v * L);
        }
#pragma GCC unroll 4
        for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                const Floats<L> x = load_float<S, L>(src + j * run.src_step + v * L);
                sum[j][v] += Weighted ? x * w[v] : x;
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

template <class S, class D, bool Weighted, int L, int Q>
DGO_INLINE void channels_outputs(const ChannelsRun& run, int64_t q) {
    int64_t c = 0;
    for (; c + 2 * L <= run.channels; c += 2 * L) channels_tile<S, D, Weighted, L, Q, 2>(run, q, c);
    if (c + L <= run.channels) {
        channels_tile<S, D, Weighted, L, Q, 1>(run, q, c);
        c += L;
    }
    if (c < run.channels) channels_tile<S, D, Weighted, L, Q, 1>(run, q, run.channels - L);
}

template <class S, class D, bool Weighted, int L>
void channels_run(const ChannelsRun& run) {
    int64_t q = 0;
    for (; q + 4 <= run.count; q += 4) channels_outputs<S, D, Weighted, L, 4>(run, q);
    for (; q < run.count; ++q) channels_outputs<S, D, Weighted, L, 1>(run, q);
}

template <class S, class D, bool Weighted>
void channels(const ChannelsRun& run) {
    if (kLanes == 8 || run.channels >= kLanes) return channels_run<S, D, Weighted, kLanes>(run);
    channels_run<S, D, Weighted, 8>(run);
}

// K taps times V vectors of channels; lanes below `skip` are left out of the sums.
template <class C, int L, int K, int V>
DGO_INLINE void gradient_tile(const ChannelsGradient& run, int64_t tap, int64_t c, int skip) {
    using T = typename C::T;
    const T* src = reinterpret_cast<const T*>(run.src) + c;
    const T* diff[K];
    Floats<L> sum[K][V];
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) {
        diff[k] = reinterpret_cast<const T*>(run.diff[tap + k]) + c;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[k][v] = Floats<L>{};
    }
    for (int64_t q = 0; q < run.count; ++q) {
        Floats<L> s[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) s[v] = load_float<C, L>(src + q * run.src_step + v * L);
#pragma GCC unroll 4
        for (int k = 0; k < K; ++k) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                sum[k][v] += s[v] * load_float<C, L>(diff[k] + q * run.diff_step + v * L);
            }
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) {
        float* sums = run.sums + (tap + k) * run.sums_step + c;
        if (skip == 0) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                store_bytes(sums + v * L, load_bytes<Floats<L>>(sums + v * L) + sum[k][v]);
            }
        } else {
            for (int lane = skip; lane < L; ++lane) sums[lane] += sum[k][0][lane];
        }
    }
}

template <class C, int L, int K>
DGO_INLINE void gradient_taps(const ChannelsGradient& run, int64_t tap) {
    int64_t c = 0;
    for (; c + 2 * L <= run.channels; c += 2 * L) gradient_tile<C, L, K, 2>(run, tap, c, 0);
    if (c + L <= run.channels) {
        gradient_tile<C, L, K, 1>(run, tap, c, 0);
        c += L;
    }
    if (c < run.channels) {
        const int64_t last = run.channels - L;
        gradient_tile<C, L, K, 1>(run, tap, last, static_cast<int>(c - last));
    }
}

template <class C, int L>
void gradient_run(const ChannelsGradient& run) {
    int64_t tap = 0;
    for (; tap + 4 <= run.taps; tap += 4) gradient_taps<C, L, 4>(run, tap);
    for (; tap + 2 <= run.taps; tap += 2) gradient_taps<C, L, 2>(run, tap);
    if (tap < run.taps) gradient_taps<C, L, 1>(run, tap);
}

template <class C>
void channels_gradient(const ChannelsGradient& run) {
    if (kLanes == 8 || run.channels >= kLanes) return gradient_run<C, kLanes>(run);
    gradient_run<C, 8>(run);
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
    {channels<F32, F32, true>, channels<Bf16, Bf16, true>, channels<F16, F16, true>},
    {channels<F32, F32, false>, channels<F32, Bf16, false>, channels<F32, F16, false>},
    {channels_gradient<F32>, channels_gradient<Bf16>, channels_gradient<F16>},
    space_run<kLanes>,
    space_gradient,
};

}  // namespace dgo::DGO_ISA
