// Transposition of weights of any size, eight by eight.
#pragma once

#include "kernels/isa/vector/transpose.hpp"

namespace dgo::DGO_ISA {

// Loads eight elements, of which `count` exist.
template <class C>
DGO_INLINE __m256 load_row(const typename C::T* at, int64_t count) {
    if (count >= 8) return bits<__m256>(load_float<C, 8>(at));
    float some[8] = {};
    for (int64_t i = 0; i < count; ++i) some[i] = C::get(at + i);
    return load_bytes<__m256>(some);
}

DGO_INLINE void store_row(float* at, __m256 row, int64_t count) {
    if (count >= 8) {
        store_bytes(at, row);
        return;
    }
    float some[8];
    store_bytes(some, row);
    for (int64_t i = 0; i < count; ++i) at[i] = some[i];
}

// Transposes eight rows of eight columns, and stores the first `count` rows.
template <class C>
DGO_INLINE void transpose_eight(const typename C::T* from, int64_t from_stride, int64_t count, float* to,
                                int64_t to_stride) {
    __m256 r[8];
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) r[c] = bits<__m256>(load_float<C, 8>(from + c * from_stride));
    transpose8(r);
    if (count >= 8) {
#pragma GCC unroll 8
        for (int c = 0; c < 8; ++c) store_bytes(to + c * to_stride, r[c]);
    } else {
        for (int64_t c = 0; c < count; ++c) store_bytes(to + c * to_stride, r[c]);
    }
}

// to[i * to_stride + j] = from[i + j * from_stride] for i < rows, j < columns.
template <class C>
void transpose_to(const typename C::T* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
                  int64_t to_stride) {
    for (int64_t next = 0; next < columns; next += 8) {
        // the last eight columns and rows may overlap earlier ones
        const int64_t j = larger(smaller(next, columns - 8), 0);
        const typename C::T* at = from + j * from_stride;
        // few rows are read with the elements after them, while these belong to columns as well
        if (columns >= 8 && (rows >= 8 || (columns - 8 - j) * from_stride + rows >= 8)) {
            for (int64_t i = 0; i < rows; i += 8) {
                const int64_t row = larger(smaller(i, rows - 8), 0);
                transpose_eight<C>(at + row, from_stride, rows, to + row * to_stride + j, to_stride);
            }
            continue;
        }
        for (int64_t i = 0; i < rows; i += 8) {
            __m256 r[8];
            const int64_t count = smaller(8, rows - i);
#pragma GCC unroll 8
            for (int c = 0; c < 8; ++c) r[c] = load_row<C>(at + i + smaller(c, columns - 1 - j) * from_stride, count);
            transpose8(r);
            for (int64_t c = 0; c < count; ++c) store_row(to + (i + c) * to_stride + j, r[c], columns - j);
        }
    }
}

// Returns floats as elements of 2 bytes in lanes; of 8 floats `count` exist.
template <class C>
DGO_INLINE Vec<8>::u32 narrow_row(const float* at, int64_t count) {
    const __m256 row = load_row<F32>(reinterpret_cast<const F32::T*>(at), count);
    if constexpr (kSame<C, F16>) {
        return bits<Vec<8>::u32>(_mm256_cvtepu16_epi32(_mm256_cvtps_ph(row, _MM_FROUND_TO_NEAREST_INT)));
    } else {
        return C::template narrow<8>(bits<Vec<8>::u32>(row));
    }
}

// Stores `count` of 16 words, or all of them.
DGO_INLINE void store_some_words(char* to, __m256i words, int64_t count) {
    if (count >= 16) return store_bytes(to, words);
    __m128i part = _mm256_castsi256_si128(words);
    if ((count & 8) != 0) {
        store_bytes(to, part);
        to += 16;
        part = _mm256_extracti128_si256(words, 1);
    }
    if ((count & 4) != 0) {
        store_bytes(to, _mm_cvtsi128_si64(part));
        to += 8;
        part = _mm_unpackhi_epi64(part, part);
    }
    if ((count & 2) != 0) {
        store_bytes(to, _mm_cvtsi128_si32(part));
        to += 4;
        part = _mm_srli_si128(part, 4);
    }
    if ((count & 1) != 0) store_bytes(to, static_cast<uint16_t>(_mm_cvtsi128_si32(part)));
}

// to[i * stride + j] = from[i + j * from_stride], in 2 bytes, two j at a time
template <class C>
void narrow_pairs_across(const float* from, int64_t from_stride, int64_t rows, int64_t columns, int64_t stride,
                         char* to) {
    for (int64_t j = 0; j < columns; j += 16) {
        for (int64_t i = 0; i < rows; i += 8) {
            const int64_t count = smaller(8, rows - i);
            __m256 r[8];
#pragma GCC unroll 8
            for (int64_t pair = 0; pair < 8; ++pair) {
                const int64_t first = smaller(j + 2 * pair, columns - 1), second = smaller(first + 1, columns - 1);
                const auto low = narrow_row<C>(from + i + first * from_stride, count);
                const auto high = narrow_row<C>(from + i + second * from_stride, count);
                r[pair] = bits<__m256>(low | high << 16);
            }
            transpose8(r);
            for (int64_t c = 0; c < count; ++c) {
                store_some_words(to + ((i + c) * stride + j) * 2, bits<__m256i>(r[c]), columns - j);
            }
        }
    }
}

// to[i * stride + j] = from[i + j * from_stride], in the type.
inline void narrow_across(ElementType type, const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                          int64_t stride, char* to) {
    if (type == ElementType::bf16) return narrow_pairs_across<Bf16>(from, from_stride, rows, columns, stride, to);
    if (type == ElementType::f16) return narrow_pairs_across<F16>(from, from_stride, rows, columns, stride, to);
    transpose_to<F32>(reinterpret_cast<const F32::T*>(from), from_stride, rows, columns, reinterpret_cast<float*>(to),
                      stride);
}

}  // namespace dgo::DGO_ISA
