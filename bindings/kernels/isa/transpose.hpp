// Transposition in registers of 8 x 8 cells, converting on the way.
#pragma once

#include "vector.hpp"

namespace dgo::DGO_ISA {

DGO_INLINE void transpose8(__m256 (&r)[8]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    __m256 q[8];
    for (int i = 0; i < 8; i += 4) {
        q[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        q[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        q[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        q[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x31);
    }
}

DGO_INLINE void transpose8_words(__m128i (&r)[8]) {
    __m128i t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm_unpacklo_epi16(r[i], r[i + 1]);
        t[i + 1] = _mm_unpackhi_epi16(r[i], r[i + 1]);
    }
    __m128i q[8];
    for (int i = 0; i < 8; i += 4) {
        q[i] = _mm_unpacklo_epi32(t[i], t[i + 2]);
        q[i + 1] = _mm_unpackhi_epi32(t[i], t[i + 2]);
        q[i + 2] = _mm_unpacklo_epi32(t[i + 1], t[i + 3]);
        q[i + 3] = _mm_unpackhi_epi32(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        r[2 * i] = _mm_unpacklo_epi64(q[i], q[i + 4]);
        r[2 * i + 1] = _mm_unpackhi_epi64(q[i], q[i + 4]);
    }
}

// Bytes of the K cells at `at` as 8 lanes, the other lanes zero; K == 8 loads all.
template <class C, int K>
DGO_INLINE __m256 load_lanes(const typename C::T* at) {
    if constexpr (K == 8) {
        return bits<__m256>(C::template load<8>(at));
    } else {
        typename C::T cells[8] = {};
        __builtin_memcpy(cells, at, K * sizeof(typename C::T));
        return bits<__m256>(C::template load<8>(cells));
    }
}

template <class C, int K>
DGO_INLINE void store_lanes(typename C::T* at, __m256 v) {
    if constexpr (K == 8) {
        C::template store<8>(at, bits<Vec<8>::u32>(v));
    } else {
        typename C::T cells[8];
        C::template store<8>(cells, bits<Vec<8>::u32>(v));
        __builtin_memcpy(at, cells, K * sizeof(typename C::T));
    }
}

template <class S, class D>
constexpr bool kBothWords = false;
template <>
constexpr bool kBothWords<Raw2, Raw2> = true;

// dst[i * dst0 + j] = src[i + j * src1] for i < N0, j < N1, both at most 8.
template <class S, class D, int N0, int N1>
DGO_INLINE void transpose_tile(const typename S::T* src, int64_t src1, typename D::T* dst, int64_t dst0) {
    if constexpr (kBothWords<S, D> && N0 == 8 && N1 == 8) {
        __m128i r[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) r[j] = load_bytes<__m128i>(src + j * src1);
        transpose8_words(r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store_bytes(dst + i * dst0, r[i]);
    } else {
        __m256 r[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) r[j] = j < N1 ? load_lanes<S, N0>(src + j * src1) : _mm256_setzero_ps();
        transpose8(r);
#pragma GCC unroll 8
        for (int i = 0; i < N0; ++i) store_lanes<D, N1>(dst + i * dst0, r[i]);
    }
}

}  // namespace dgo::DGO_ISA
