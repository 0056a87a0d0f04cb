// Vectors of rows in any float cell, of which the last may be short.
#pragma once

#include "kernels/isa/cells.hpp"

namespace dgo::DGO_ISA {

template <class Run>
DGO_INLINE void with_cell(Cell cell, Run&& run) {
    if (cell == Cell::bf16) return run(Bf16{});
    if (cell == Cell::f16) return run(F16{});
    run(F32{});
}

template <class C>
DGO_INLINE Lanes load_lanes(const typename C::T* at, int64_t count) {
    if (count >= kLanes) return load_float<C, kLanes>(at);
    if constexpr (kSame<C, F32>) return load_part(reinterpret_cast<const float*>(at), count);
    float values[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) values[i] = C::get(at + i);
    return load_bytes<Lanes>(values);
}

template <class C>
DGO_INLINE void store_lanes(typename C::T* at, Lanes v, int64_t count) {
    if (count >= kLanes) return store_float<C, kLanes>(at, v);
    if constexpr (kSame<C, F32>) return store_part(reinterpret_cast<float*>(at), v, count);
    float values[kLanes];
    store_bytes(values, v);
    for (int64_t i = 0; i < count; ++i) C::put(at + i, values[i]);
}

}  // namespace dgo::DGO_ISA
