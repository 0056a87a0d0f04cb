// The gradients of largest elements.
#include "kernels/isa/norm/cells_of_rows.hpp"
#include "kernels/isa/tail/functions.hpp"
#include "kernels/isa/window/code.hpp"

namespace dgo::DGO_ISA {
namespace {

// Of `count` channels.
template <class C>
DGO_INLINE void peak_at(const PeakRun& run, const typename C::T* src, const typename C::T* diff, float* to,
                        int64_t count) {
    Lanes best = load_lanes<C>(src + run.src_taps[0], count);
    Integers place{};
    for (int32_t t = 1; t < run.taps; ++t) {
        const Lanes v = load_lanes<C>(src + run.src_taps[t], count);
        const Integers higher = (v > best) | (v != v);
        best = higher ? v : best;
        place = higher ? Integers{} + t : place;
    }
    const Lanes share = load_lanes<C>(diff, count);
    for (int32_t t = 0; t < run.taps; ++t) {
        float* const at = to + run.to_taps[t];
        store_some(at, load_some(at, count) + (place == t ? share : Lanes{}), count);
    }
}

}  // namespace

void peak(const PeakRun& run) {
    with_cell(run.cell, [&](auto cell) __attribute__((always_inline)) {
        using T = typename decltype(cell)::T;
        const auto *src = reinterpret_cast<const T*>(run.src), *diff = reinterpret_cast<const T*>(run.diff);
        float* to = run.to;
        for (int64_t o = 0; o < run.outputs; ++o, src += run.src_step, diff += run.diff_step, to += run.to_step) {
            for (int64_t c = 0; c < run.channels; c += kLanes) {
                peak_at<decltype(cell)>(run, src + c, diff + c, to + c, smaller(run.channels - c, kLanes));
            }
        }
    });
}

}  // namespace dgo::DGO_ISA
