// Runs of elements of any float type from and to f32, and f32 written past the caches.
#pragma once

#include "kernels/isa/vector/elements.hpp"

namespace dgo::DGO_ISA {

DGO_INLINE void widen(ElementType type, const char* from, int64_t count, float* to) {
    with_type(type, [&](auto tag) {
        using C = decltype(tag);
        const auto* at = reinterpret_cast<const typename C::T*>(from);
        int64_t c = 0;
#pragma GCC unroll 4
        for (; c + kLanes <= count; c += kLanes) store_bytes(to + c, load_float<C, kLanes>(at + c));
        for (; c < count; ++c) to[c] = C::get(at + c);
    });
}

DGO_INLINE void narrow(ElementType type, const float* from, int64_t count, char* to) {
    with_type(type, [&](auto tag) {
        using C = decltype(tag);
        auto* at = reinterpret_cast<typename C::T*>(to);
        int64_t c = 0;
        for (; c + kLanes <= count; c += kLanes) {
            store_float<C, kLanes>(at + c, load_bytes<typename Vec<kLanes>::f32>(from + c));
        }
        for (; c < count; ++c) C::put(at + c, from[c]);
    });
}

// to[i * stride] = from[i] in the type, for i < count.
inline void narrow_apart(ElementType type, const float* from, int64_t count, int64_t stride, char* to) {
    with_type(type, [&](auto tag) {
        using C = decltype(tag);
        auto* at = reinterpret_cast<typename C::T*>(to);
        for (int64_t c = 0; c < count; ++c) C::put(at + c * stride, from[c]);
    });
}

// to = from, `count` floats, past the caches.
inline void stream(const float* from, int64_t count, float* to) {
    constexpr int64_t kStep = 8;
    int64_t c = 0;
    for (; c < count && reinterpret_cast<uintptr_t>(to + c) % (kStep * sizeof(float)) != 0; ++c) to[c] = from[c];
    for (; c + kStep <= count; c += kStep) _mm256_stream_ps(to + c, _mm256_loadu_ps(from + c));
    for (; c < count; ++c) to[c] = from[c];
}

}  // namespace dgo::DGO_ISA
