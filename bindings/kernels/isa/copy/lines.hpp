// Transposition in registers by whole lines of the cache: each is read and written once, however many of them, a power
// of two apart, share a set.
#pragma once

#include "kernels/isa/vector/elements.hpp"

namespace dgo::DGO_ISA {

// ---- whole vectors of words -------------------------------------------------------------------------------------

// Quarters are pieces of 16 bytes, whose borders few instructions cross.
constexpr int kQuarters = kLanes / 4;  // quarters (16 bytes) of a vector
constexpr int kLineQuarters = 4;

#define DGO_UNPACK(bits_, size)                                                                     \
    static DGO_INLINE V unpack_low##bits_(V a, V b) { return _mm##size##_unpacklo_epi##bits_(a, b); } \
    static DGO_INLINE V unpack_high##bits_(V a, V b) { return _mm##size##_unpackhi_epi##bits_(a, b); }

template <int L>
struct WholeOf;

template <>
struct WholeOf<16> {
    using V = __m512i;
    using Half = __m256i;
    DGO_UNPACK(8, 512)
    DGO_UNPACK(16, 512)
    DGO_UNPACK(32, 512)

    static DGO_INLINE V joined(Half low, Half high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
    static DGO_INLINE Half low(V v) { return _mm512_castsi512_si256(v); }
    static DGO_INLINE Half high(V v) { return _mm512_extracti64x4_epi64(v, 1); }
    static DGO_INLINE V of_quarters(const __m128i (&q)[4]) {
        __m512i all = _mm512_castsi128_si512(q[0]);
        all = _mm512_inserti32x4(all, q[1], 1);
        all = _mm512_inserti32x4(all, q[2], 2);
        return _mm512_inserti32x4(all, q[3], 3);
    }
    static DGO_INLINE void to_quarters(V v, __m128i (&q)[4]) {
        q[0] = _mm512_extracti32x4_epi32(v, 0);
        q[1] = _mm512_extracti32x4_epi32(v, 1);
        q[2] = _mm512_extracti32x4_epi32(v, 2);
        q[3] = _mm512_extracti32x4_epi32(v, 3);
    }
    static DGO_INLINE V of_eights(const __m256i (&v)[2]) { return joined(v[0], v[1]); }
    // Collects the first quarters of a to d in one vector, the second ones in the next, and so on.
    static DGO_INLINE void turned(V a, V b, V c, V d, V (&to)[4]) {
        const V ab = _mm512_shuffle_i64x2(a, b, 0x44), cd = _mm512_shuffle_i64x2(c, d, 0x44);
        const V ab2 = _mm512_shuffle_i64x2(a, b, 0xee), cd2 = _mm512_shuffle_i64x2(c, d, 0xee);
        to[0] = _mm512_shuffle_i64x2(ab, cd, 0x88);
        to[1] = _mm512_shuffle_i64x2(ab, cd, 0xdd);
        to[2] = _mm512_shuffle_i64x2(ab2, cd2, 0x88);
        to[3] = _mm512_shuffle_i64x2(ab2, cd2, 0xdd);
    }
    static DGO_INLINE Half to_f16(V v) { return _mm512_cvtps_ph(bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT); }
    static DGO_INLINE bool any_nan(V a, V b) {
        return _mm512_cmp_ps_mask(bits<__m512>(a), bits<__m512>(b), _CMP_UNORD_Q) != 0;
    }
    static DGO_INLINE V words_of(V a, V b) {
        alignas(64) static constexpr int64_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
        return _mm512_permutexvar_epi64(load_bytes<__m512i>(kOrder), _mm512_packus_epi32(a, b));
    }
};

template <>
struct WholeOf<8> {
    using V = __m256i;
    using Half = __m128i;
    DGO_UNPACK(8, 256)
    DGO_UNPACK(16, 256)
    DGO_UNPACK(32, 256)

    static DGO_INLINE V joined(Half low, Half high) { return _mm256_set_m128i(high, low); }
    static DGO_INLINE Half low(V v) { return _mm256_castsi256_si128(v); }
    static DGO_INLINE Half high(V v) { return _mm256_extracti128_si256(v, 1); }
    static DGO_INLINE V of_quarters(const __m128i (&q)[2]) { return joined(q[0], q[1]); }
    static DGO_INLINE void to_quarters(V v, __m128i (&q)[2]) {
        q[0] = low(v);
        q[1] = high(v);
    }
    static DGO_INLINE V of_eights(const __m256i (&v)[1]) { return v[0]; }
    static DGO_INLINE void turned(V a, V b, V c, V d, V (&to)[4]) {
        to[0] = _mm256_permute2x128_si256(a, b, 0x20);
        to[1] = _mm256_permute2x128_si256(c, d, 0x20);
        to[2] = _mm256_permute2x128_si256(a, b, 0x31);
        to[3] = _mm256_permute2x128_si256(c, d, 0x31);
    }
    static DGO_INLINE Half to_f16(V v) { return _mm256_cvtps_ph(bits<__m256>(v), _MM_FROUND_TO_NEAREST_INT); }
    static DGO_INLINE bool any_nan(V a, V b) {
        const __m256i nan = bits<__m256i>(_mm256_cmp_ps(bits<__m256>(a), bits<__m256>(b), _CMP_UNORD_Q));
        return _mm256_testz_si256(nan, nan) == 0;
    }
    static DGO_INLINE V words_of(V a, V b) { return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8); }
};
#undef DGO_UNPACK

using Wholes = WholeOf<kLanes>;
using Whole = Wholes::V;

template <int Size>
DGO_INLINE Whole unpack_low(Whole a, Whole b) {
    if constexpr (Size == 1) return Wholes::unpack_low8(a, b);
    if constexpr (Size == 2) return Wholes::unpack_low16(a, b);
    if constexpr (Size == 4) return Wholes::unpack_low32(a, b);
}

template <int Size>
DGO_INLINE Whole unpack_high(Whole a, Whole b) {
    if constexpr (Size == 1) return Wholes::unpack_high8(a, b);
    if constexpr (Size == 2) return Wholes::unpack_high16(a, b);
    if constexpr (Size == 4) return Wholes::unpack_high32(a, b);
}

// Words in each quarter of as many vectors: every step turns the number of a vector and of a word by one bit.
template <int Size>
DGO_INLINE void transpose_quarters(Whole (&r)[16 / Size]) {
    constexpr int kRows = 16 / Size;
#pragma GCC unroll 4
    for (int step = 1; step < kRows; step *= 2) {
        Whole t[kRows];
#pragma GCC unroll 8
        for (int i = 0; i < kRows / 2; ++i) {
            t[2 * i] = unpack_low<Size>(r[i], r[i + kRows / 2]);
            t[2 * i + 1] = unpack_high<Size>(r[i], r[i + kRows / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) r[i] = t[i];
    }
}

// Returns the quarters of two vectors of words (f32 bits, in order) as one vector of 16-bit words, rounded.
template <class D>
DGO_INLINE Whole narrow_two(typename Vec<kLanes>::u32 a, typename Vec<kLanes>::u32 b) {
    if constexpr (kSame<D, F16>) {
        return Wholes::joined(Wholes::to_f16(bits<Whole>(a)), Wholes::to_f16(bits<Whole>(b)));
    } else {
        // testing for NaN and rounding without it is faster than masking each vector
        if (__builtin_expect(!Wholes::any_nan(bits<Whole>(a), bits<Whole>(b)), 1)) {
            a = D::round(a), b = D::round(b);
        } else {
            a = D::template narrow<kLanes>(a), b = D::template narrow<kLanes>(b);
        }
        return Wholes::words_of(bits<Whole>(a), bits<Whole>(b));
    }
}

// Returns words of 16 bits as f32 bits: eight, or half a vector.
template <class S>
DGO_INLINE typename Vec<8>::u32 widened(__m128i words) {
    if constexpr (kSame<S, F16>)
        return bits<typename Vec<8>::u32>(_mm256_cvtph_ps(words));
    else
        return S::template widen<8>(bits<typename Vec<8>::u32>(_mm256_cvtepu16_epi32(words)));
}

template <class S>
DGO_INLINE typename Vec<16>::u32 widened(__m256i words) {
    if constexpr (kSame<S, F16>)
        return bits<typename Vec<16>::u32>(_mm512_cvtph_ps(words));
    else
        return S::template widen<16>(bits<typename Vec<16>::u32>(_mm512_cvtepu16_epi32(words)));
}

// ---- elements ------------------------------------------------------------------------------------------------------

constexpr int least(int a, int b) { return a < b ? a : b; }

// Elements are transposed as words of the narrower type: they are converted at the load or at the store.
template <class S, class D>
struct Turned {
    static constexpr int kSize = least(S::kSize, D::kSize);
    static constexpr int kRows = 16 / kSize;  // rows of a group, whose quarters are transposed
    static constexpr int kTall = kLineQuarters * kRows;  // source rows that fill a line
    static constexpr int kWide = 4 * kLanes / kSize;     // words of a vector
    static constexpr bool kNarrows = !kSame<S, D> && D::kSize == kSize;
    using From = typename S::T;
    using To = typename D::T;

    static DGO_INLINE Whole load_row(const From* at) {
        if constexpr (kNarrows) {
            return narrow_two<D>(load<S, kLanes>(at), load<S, kLanes>(at + kLanes));
        } else {
            return load_bytes<Whole>(at);
        }
    }

    // Loads a quarter vector from each of four rows, kRows rows apart (half a vector from two rows without wide vectors).
    static DGO_INLINE Whole load_pieces(const From* const* rows, int64_t at) {
        if constexpr (kNarrows) {
            constexpr int kEights = kLanes / 8;
            __m256i piece[2][kEights];
#pragma GCC unroll 4
            for (int i = 0; i < 2 * kEights; ++i) {
                piece[i / kEights][i % kEights] = bits<__m256i>(load<S, 8>(rows[i * kRows] + at));
            }
            using V = typename Vec<kLanes>::u32;
            return narrow_two<D>(bits<V>(Wholes::of_eights(piece[0])), bits<V>(Wholes::of_eights(piece[1])));
        } else {
            __m128i piece[kQuarters];
#pragma GCC unroll 4
            for (int i = 0; i < kQuarters; ++i) piece[i] = load_bytes<__m128i>(rows[i * kRows] + at);
            return Wholes::of_quarters(piece);
        }
    }

    static DGO_INLINE void store_row(To* at, Whole row) {
        if constexpr (kSame<S, D> || kNarrows) {
            store_bytes(at, row);
        } else {
            store<D, kLanes>(at, widened<S>(Wholes::low(row)));
            store<D, kLanes>(at + kLanes, widened<S>(Wholes::high(row)));
        }
    }

    // The words of one quarter.
    static DGO_INLINE void store_piece(To* at, __m128i piece) {
        if constexpr (kSame<S, D> || kNarrows) {
            store_bytes(at, piece);
        } else {
            store<D, 8>(at, widened<S>(piece));
        }
    }
};

// All below: to[i][j] = from[j][i], where the arrays hold the addresses of rows.

// i < kWide, j < kTall: quarters are turned group by group of rows, then put together.
template <class S, class D>
DGO_INLINE void turn_tile(const typename S::T* const* from, int64_t i, typename D::T* const* to, int64_t j) {
    using Elements = Turned<S, D>;
    constexpr int kRows = Elements::kRows;
    Whole turn[kLineQuarters][kRows];
#pragma GCC unroll 4
    for (int g = 0; g < kLineQuarters; ++g) {
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) turn[g][row] = Elements::load_row(from[g * kRows + row] + i);
        transpose_quarters<Elements::kSize>(turn[g]);
    }
#pragma GCC unroll 16
    for (int column = 0; column < kRows; ++column) {
        constexpr int kOfLine = kLineQuarters / kQuarters;  // vectors
        Whole line[4];
        Wholes::turned(turn[0][column], turn[1][column], turn[2][column], turn[3][column], line);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            Elements::store_row(to[v / kOfLine * kRows + column] + j + v % kOfLine * Elements::kWide, line[v]);
        }
    }
}

// i < kRows, j < kTall: few columns of the source.
template <class S, class D>
DGO_INLINE void turn_columns(const typename S::T* const* from, int64_t i, typename D::T* const* to, int64_t j) {
    using Elements = Turned<S, D>;
    constexpr int kRows = Elements::kRows;
#pragma GCC unroll 2
    for (int first = 0; first < Elements::kTall; first += kQuarters * kRows) {
        Whole r[kRows];
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) r[row] = Elements::load_pieces(from + first + row, i);
        transpose_quarters<Elements::kSize>(r);
#pragma GCC unroll 16
        for (int column = 0; column < kRows; ++column) Elements::store_row(to[column] + j + first, r[column]);
    }
}

// i < kWide, j < kRows: few rows of the source.
template <class S, class D>
DGO_INLINE void turn_rows(const typename S::T* const* from, int64_t i, typename D::T* const* to, int64_t j) {
    using Elements = Turned<S, D>;
    constexpr int kRows = Elements::kRows;
    Whole r[kRows];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) r[row] = Elements::load_row(from[row] + i);
    transpose_quarters<Elements::kSize>(r);
#pragma GCC unroll 16
    for (int column = 0; column < kRows; ++column) {
        __m128i piece[kQuarters];
        Wholes::to_quarters(r[column], piece);
#pragma GCC unroll 4
        for (int q = 0; q < kQuarters; ++q) Elements::store_piece(to[q * kRows + column] + j, piece[q]);
    }
}

}  // namespace dgo::DGO_ISA
