// Transposition of weights of any size, eight by eight.
#pragma once

#include "kernels/isa/transpose.hpp"

namespace dgo::DGO_ISA {

// Eight elements, of which `count` exist.
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

// to[i * to_stride + j] = from[i + j * from_stride] for i < rows, j < columns.
template <class C>
void transpose_to(const typename C::T* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
                  int64_t to_stride) {
    for (int64_t j = 0; j < columns; j += 8) {
        int64_t i = 0;
        for (; columns - j >= 8 && rows - i >= 8; i += 8) {
            __m256 r[8];
#pragma GCC unroll 8
            for (int c = 0; c < 8; ++c) r[c] = bits<__m256>(load_float<C, 8>(from + i + (j + c) * from_stride));
            transpose8(r);
#pragma GCC unroll 8
            for (int c = 0; c < 8; ++c) store_bytes(to + (i + c) * to_stride + j, r[c]);
        }
        for (; i < rows; i += 8) {
            __m256 r[8];
            const int64_t count = smaller(8, rows - i);
#pragma GCC unroll 8
            for (int c = 0; c < 8; ++c) r[c] = load_row<C>(from + i + smaller(j + c, columns - 1) * from_stride, count);
            transpose8(r);
            for (int64_t c = 0; c < count; ++c) store_row(to + (i + c) * to_stride + j, r[c], columns - j);
        }
    }
}

}  // namespace dgo::DGO_ISA
