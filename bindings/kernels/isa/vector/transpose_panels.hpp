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

}  // namespace dgo::DGO_ISA
