// Transposition in registers of 8 x 8 elements, converting on the way.
#pragma once

#include "kernels/isa/vector/elements.hpp"

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

// 4 x 4 within each half.
DGO_INLINE void transpose4(__m256 (&r)[4]) {
    const __m256 t0 = _mm256_unpacklo_ps(r[0], r[1]), t1 = _mm256_unpackhi_ps(r[0], r[1]);
    const __m256 t2 = _mm256_unpacklo_ps(r[2], r[3]), t3 = _mm256_unpackhi_ps(r[2], r[3]);
    r[0] = _mm256_shuffle_ps(t0, t2, 0x44);
    r[1] = _mm256_shuffle_ps(t0, t2, 0xee);
    r[2] = _mm256_shuffle_ps(t1, t3, 0x44);
    r[3] = _mm256_shuffle_ps(t1, t3, 0xee);
}

// All below: dst[i * dst0 + j] = src[i + j * src1].

// i, j < 8
template <class S, class D>
DGO_INLINE void transpose_tile(const typename S::T* src, int64_t src1, typename D::T* dst, int64_t dst0) {
    if constexpr (kSame<S, Raw2> && kSame<D, Raw2>) {
        __m128i r[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) r[j] = load_bytes<__m128i>(src + j * src1);
        transpose8_words(r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store_bytes(dst + i * dst0, r[i]);
    } else {
        __m256 r[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) r[j] = bits<__m256>(load<S, 8>(src + j * src1));
        transpose8(r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) store<D, 8>(dst + i * dst0, bits<Vec<8>::u32>(r[i]));
    }
}

// i < 8, j < 2, dst0 == 2
template <class S, class D>
DGO_INLINE void zip_tile(const typename S::T* src, int64_t src1, typename D::T* dst) {
    const __m256 a = bits<__m256>(load<S, 8>(src)), b = bits<__m256>(load<S, 8>(src + src1));
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    store<D, 8>(dst, bits<Vec<8>::u32>(_mm256_permute2f128_ps(low, high, 0x20)));
    store<D, 8>(dst + 8, bits<Vec<8>::u32>(_mm256_permute2f128_ps(low, high, 0x31)));
}

// i < 2, j < 8, src1 == 2
template <class S, class D>
DGO_INLINE void unzip_tile(const typename S::T* src, typename D::T* dst, int64_t dst0) {
    const __m256 a = bits<__m256>(load<S, 8>(src)), b = bits<__m256>(load<S, 8>(src + 8));
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
    store<D, 8>(dst, bits<Vec<8>::u32>(_mm256_permute4x64_pd(even, 0xd8)));
    store<D, 8>(dst + dst0, bits<Vec<8>::u32>(_mm256_permute4x64_pd(odd, 0xd8)));
}

// i < 8, j < K <= 4
template <class S, class D, int K>
DGO_INLINE void interleave_tile(const typename S::T* src, int64_t src1, typename D::T* dst, int64_t dst0) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) r[j] = j < K ? bits<__m256>(load<S, 8>(src + j * src1)) : _mm256_setzero_ps();
    transpose4(r);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        store_few<D, K>(dst + i * dst0, bits<Vec<4>::u32>(_mm256_castps256_ps128(r[i])));
        store_few<D, K>(dst + (i + 4) * dst0, bits<Vec<4>::u32>(_mm256_extractf128_ps(r[i], 1)));
    }
}

// i < K <= 4, j < 8
template <class S, class D, int K>
DGO_INLINE void deinterleave_tile(const typename S::T* src, int64_t src1, typename D::T* dst, int64_t dst0) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        const __m128 lower = bits<__m128>(load_few<S, K>(src + j * src1));
        const __m128 upper = bits<__m128>(load_few<S, K>(src + (j + 4) * src1));
        r[j] = _mm256_set_m128(upper, lower);
    }
    transpose4(r);
#pragma GCC unroll 4
    for (int i = 0; i < K; ++i) store<D, 8>(dst + i * dst0, bits<Vec<8>::u32>(r[i]));
}

}  // namespace dgo::DGO_ISA
