// The gradients of largest elements.
#include "kernels/isa/vector/elements_of_rows.hpp"
#include "kernels/isa/vector/functions.hpp"
#include "kernels/isa/window/code.hpp"

namespace dgo::DGO_ISA {
namespace {

// vectors of windows up to which every tap is written, though only one tap of a lane grows
constexpr int64_t kFewTaps = 9;
constexpr int kTogether = 4;  // vectors, as a comparison waits for the one before it

// Computes kVectors vectors of channels; a single vector may have only `count` channels.
template <class C, int kVectors>
DGO_INLINE void peak_at(const PeakRun& run, const typename C::T* src, const typename C::T* diff, float* to,
                        int64_t count) {
    Lanes best[kVectors], share[kVectors];
    Integers place[kVectors] = {};
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
        best[k] = load_lanes<C>(src + run.src_taps[0] + k * kLanes, count);
        share[k] = load_lanes<C>(diff + k * kLanes, count);
    }
    for (int32_t t = 1; t < run.taps; ++t) {
        const auto* const at = src + run.src_taps[t];
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            const Lanes v = load_lanes<C>(at + k * kLanes, count);
            const Integers higher = (v > best[k]) | (v != v);
            best[k] = higher ? v : best[k];
            place[k] = higher ? Integers{} + t : place[k];
        }
    }
    if (run.taps > kFewTaps || count < kLanes) {
        for (int k = 0; k < kVectors; ++k) {
            int32_t taps[kLanes];
            float shares[kLanes];
            store_bytes(taps, place[k]);
            store_bytes(shares, share[k]);
            for (int64_t i = 0; i < count; ++i) to[run.to_taps[taps[i]] + k * kLanes + i] += shares[i];
        }
        return;
    }
    for (int32_t t = 0; t < run.taps; ++t) {
        float* const at = to + run.to_taps[t];
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            store_some(at + k * kLanes, load_some(at + k * kLanes, count) + (place[k] == t ? share[k] : Lanes{}),
                       count);
        }
    }
}

}  // namespace

void peak(const PeakRun& run) {
    with_type(run.type, [&](auto type) __attribute__((always_inline)) {
        using T = typename decltype(type)::T;
        const auto *src = reinterpret_cast<const T*>(run.src), *diff = reinterpret_cast<const T*>(run.diff);
        float* to = run.to;
        for (int64_t o = 0; o < run.outputs; ++o, src += run.src_step, diff += run.diff_step, to += run.to_step) {
            int64_t c = 0;
            for (; c + kTogether * kLanes <= run.channels; c += kTogether * kLanes) {
                peak_at<decltype(type), kTogether>(run, src + c, diff + c, to + c, kLanes);
            }
            for (; c < run.channels; c += kLanes) {
                peak_at<decltype(type), 1>(run, src + c, diff + c, to + c, smaller(run.channels - c, kLanes));
            }
        }
    });
}

}  // namespace dgo::DGO_ISA
