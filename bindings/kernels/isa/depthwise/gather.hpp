// Results of a depthwise layer or of small groups, a run of neighbours over all channels.
#pragma once

#include "kernels/isa/depthwise/gather_groups.hpp"

namespace dgo::DGO_ISA {

// One for each data type, compiled apart.
void gather_f32(const GatherRun& run);
void gather_bf16(const GatherRun& run);
void gather_f16(const GatherRun& run);
void gather_u8(const GatherRun& run);

namespace {

template <class C>
DGO_INLINE void gather(const GatherRun& run) {
    // a task on a few groups may still load whole vectors, from the channels next to its own
    const int64_t loaded = run.width > 1 ? run.first + run.readable : run.channels;
    const bool wide = kLanes == 8 || loaded >= kLanes;
    if constexpr (!kSame<C, U8>) {  // of bytes, there are no groups
        if (run.width > 1) return gather_groups<C>(run, wide);
    }
    if constexpr (kSame<C, F32>) {
        if (wide && is_few(run)) return gather_few<C, kLanes>(run);
    }
    return wide ? gather_with<C, kLanes, Lay::own>(run) : gather_with<C, 8, Lay::own>(run);
}

}  // namespace

}  // namespace dgo::DGO_ISA
