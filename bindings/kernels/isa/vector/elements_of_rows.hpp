// Vectors of rows in any float type, of which the last may be short.
#pragma once

#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {

template <class C>
DGO_INLINE Lanes load_lanes(const typename C::T* at, int64_t count) {
    if (count >= kLanes) return load_float<C, kLanes>(at);
    if constexpr (kSame<C, F32>) return load_part(reinterpret_cast<const float*>(at), count);
    if constexpr (C::kSize == 2 && kWide) {
        const __m256i words = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), at);
        Words::u16 whole[kLanes];
        store_bytes(whole, words);
        return load_float<C, kLanes>(whole);
    }
    float values[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) values[i] = C::get(at + i);
    return load_bytes<Lanes>(values);
}

template <class C>
DGO_INLINE void store_lanes(typename C::T* at, Lanes v, int64_t count) {
    if (count >= kLanes) return store_float<C, kLanes>(at, v);
    if constexpr (kSame<C, F32>) return store_part(reinterpret_cast<float*>(at), v, count);
    if constexpr (C::kSize == 2 && kWide) {
        Words::u16 words[kLanes];
        store_float<C, kLanes>(words, v);
        _mm256_mask_storeu_epi16(at, static_cast<__mmask16>((1u << count) - 1), load_bytes<__m256i>(words));
        return;
    }
    float values[kLanes];
    store_bytes(values, v);
    for (int64_t i = 0; i < count; ++i) C::put(at + i, values[i]);
}

// Returns the first `count` lanes of v, and after them the lanes of `rest`.
DGO_INLINE Lanes lanes_before(Lanes v, int64_t count, Lanes rest) {
    Integers number;
    for (int i = 0; i < kLanes; ++i) number[i] = i;
    return number < static_cast<int32_t>(count) ? v : rest;
}

}  // namespace dgo::DGO_ISA
