// Transposition in registers by whole lines of the cache: each is read and written once, however many of them, a power
// of two apart, share a set.
#pragma once

#include "kernels/isa/cells.hpp"

namespace dgo::DGO_ISA {

// ---- whole vectors of words -------------------------------------------------------------------------------------

#ifdef DGO_WIDE
using Whole = __m512i;
#define DGO_UNPACK(bits_)                                                                                        \
    DGO_INLINE Whole unpack_low##bits_(Whole a, Whole b) { return _mm512_unpacklo_epi##bits_(a, b); }            \
    DGO_INLINE Whole unpack_high##bits_(Whole a, Whole b) { return _mm512_unpackhi_epi##bits_(a, b); }
#else
using Whole = __m256i;
#define DGO_UNPACK(bits_)                                                                                        \
    DGO_INLINE Whole unpack_low##bits_(Whole a, Whole b) { return _mm256_unpacklo_epi##bits_(a, b); }            \
    DGO_INLINE Whole unpack_high##bits_(Whole a, Whole b) { return _mm256_unpackhi_epi##bits_(a, b); }
#endif
DGO_UNPACK(8)
DGO_UNPACK(16)
DGO_UNPACK(32)
#undef DGO_UNPACK

constexpr int kQuarters = kLanes / 4;  // pieces of 16 bytes in a vector: instructions seldom cross their borders
constexpr int kLineQuarters = 4;       // and in a line

template <int Size>
DGO_INLINE Whole unpack_low(Whole a, Whole b) {
    if constexpr (Size == 1) return unpack_low8(a, b);
    if constexpr (Size == 2) return unpack_low16(a, b);
    if constexpr (Size == 4) return unpack_low32(a, b);
}

template <int Size>
DGO_INLINE Whole unpack_high(Whole a, Whole b) {
    if constexpr (Size == 1) return unpack_high8(a, b);
    if constexpr (Size == 2) return unpack_high16(a, b);
    if constexpr (Size == 4) return unpack_high32(a, b);
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

// The quarters of two vectors of words (f32 bits, in order) as one vector of their 16-bit words, rounded.
template <class D>
DGO_INLINE Whole narrow_two(typename Vec<kLanes>::u32 a, typename Vec<kLanes>::u32 b) {
#ifdef DGO_WIDE
    if constexpr (kSame<D, F16>) {
        constexpr int kRound = _MM_FROUND_TO_NEAREST_INT;
        const __m512i low = _mm512_castsi256_si512(_mm512_cvtps_ph(bits<__m512>(a), kRound));
        return _mm512_inserti64x4(low, _mm512_cvtps_ph(bits<__m512>(b), kRound), 1);
    } else {
        // testing for NaN and rounding without it is faster than masking each vector
        const bool none = _mm512_cmp_ps_mask(bits<__m512>(a), bits<__m512>(b), _CMP_UNORD_Q) == 0;
        if (__builtin_expect(none, 1)) {
            a = D::round(a), b = D::round(b);
        } else {
            a = D::template narrow<kLanes>(a), b = D::template narrow<kLanes>(b);
        }
        alignas(64) static constexpr int64_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
        const __m512i packed = _mm512_packus_epi32(bits<__m512i>(a), bits<__m512i>(b));
        return _mm512_permutexvar_epi64(load_bytes<__m512i>(kOrder), packed);
    }
#else
    if constexpr (kSame<D, F16>) {
        constexpr int kRound = _MM_FROUND_TO_NEAREST_INT;
        return _mm256_set_m128i(_mm256_cvtps_ph(bits<__m256>(b), kRound), _mm256_cvtps_ph(bits<__m256>(a), kRound));
    } else {
        const __m256i nan = bits<__m256i>(_mm256_cmp_ps(bits<__m256>(a), bits<__m256>(b), _CMP_UNORD_Q));
        if (__builtin_expect(_mm256_testz_si256(nan, nan), 1)) {
            a = D::round(a), b = D::round(b);
        } else {
            a = D::template narrow<kLanes>(a), b = D::template narrow<kLanes>(b);
        }
        return _mm256_permute4x64_epi64(_mm256_packus_epi32(bits<__m256i>(a), bits<__m256i>(b)), 0xd8);
    }
#endif
}

// Words of 16 bits as f32 bits: eight, or half a vector.
template <class S>
DGO_INLINE typename Vec<8>::u32 widened(__m128i words) {
    if constexpr (kSame<S, F16>)
        return bits<typename Vec<8>::u32>(_mm256_cvtph_ps(words));
    else
        return S::template widen<8>(bits<typename Vec<8>::u32>(_mm256_cvtepu16_epi32(words)));
}

#ifdef DGO_WIDE
template <class S>
DGO_INLINE typename Vec<16>::u32 widened(__m256i words) {
    if constexpr (kSame<S, F16>)
        return bits<typename Vec<16>::u32>(_mm512_cvtph_ps(words));
    else
        return S::template widen<16>(bits<typename Vec<16>::u32>(_mm512_cvtepu16_epi32(words)));
}
DGO_INLINE __m256i low_half(__m512i v) { return _mm512_castsi512_si256(v); }
DGO_INLINE __m256i high_half(__m512i v) { return _mm512_extracti64x4_epi64(v, 1); }
#else
DGO_INLINE __m128i low_half(__m256i v) { return _mm256_castsi256_si128(v); }
DGO_INLINE __m128i high_half(__m256i v) { return _mm256_extracti128_si256(v, 1); }
#endif

// ---- cells ------------------------------------------------------------------------------------------------------

constexpr int least(int a, int b) { return a < b ? a : b; }

// Cells are turned as words of the narrower type: on the way in or out they are converted.
template <class S, class D>
struct Turned {
    static constexpr int kSize = least(S::kSize, D::kSize);
    static constexpr int kRows = 16 / kSize;            // of a group, whose quarters are turned
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

    // As many words as a quarter holds from each of four rows (two without wide vectors), kRows rows apart.
    static DGO_INLINE Whole load_pieces(const From* const* rows, int64_t at) {
        if constexpr (kNarrows) {
            using V = typename Vec<kLanes>::u32;
#ifdef DGO_WIDE
            const auto two = [&](int i) {
                const __m256i a = bits<__m256i>(load<S, 8>(rows[i * kRows] + at));
                const __m256i b = bits<__m256i>(load<S, 8>(rows[(i + 1) * kRows] + at));
                return bits<V>(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
            };
            return narrow_two<D>(two(0), two(2));
#else
            return narrow_two<D>(bits<V>(load<S, 8>(rows[0] + at)), bits<V>(load<S, 8>(rows[kRows] + at)));
#endif
        } else {
            const auto piece = [&](int i) { return load_bytes<__m128i>(rows[i * kRows] + at); };
#ifdef DGO_WIDE
            __m512i all = _mm512_castsi128_si512(piece(0));
            all = _mm512_inserti32x4(all, piece(1), 1);
            all = _mm512_inserti32x4(all, piece(2), 2);
            return _mm512_inserti32x4(all, piece(3), 3);
#else
            return _mm256_set_m128i(piece(1), piece(0));
#endif
        }
    }

    static DGO_INLINE void store_row(To* at, Whole row) {
        if constexpr (kSame<S, D> || kNarrows) {
            store_bytes(at, row);
        } else {
            store<D, kLanes>(at, widened<S>(low_half(row)));
            store<D, kLanes>(at + kLanes, widened<S>(high_half(row)));
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

template <int Quarter>
DGO_INLINE __m128i quarter(Whole v) {
#ifdef DGO_WIDE
    return _mm512_extracti32x4_epi32(v, Quarter);
#else
    return _mm256_extracti128_si256(v, Quarter);
#endif
}

// All below: to[i][j] = from[j][i], where the arrays hold the addresses of rows.

// i < kWide, j < kTall: quarters are turned group by group of rows, then put together.
template <class S, class D>
DGO_INLINE void turn_tile(const typename S::T* const* from, int64_t i, typename D::T* const* to, int64_t j) {
    using Cells = Turned<S, D>;
    constexpr int kRows = Cells::kRows;
    Whole turn[kLineQuarters][kRows];
#pragma GCC unroll 4
    for (int g = 0; g < kLineQuarters; ++g) {
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) turn[g][row] = Cells::load_row(from[g * kRows + row] + i);
        transpose_quarters<Cells::kSize>(turn[g]);
    }
#pragma GCC unroll 16
    for (int column = 0; column < kRows; ++column) {
        const Whole a = turn[0][column], b = turn[1][column], c = turn[2][column], d = turn[3][column];
        const auto at = [&](int quarter) { return to[quarter * kRows + column] + j; };
#ifdef DGO_WIDE
        const __m512i ab = _mm512_shuffle_i64x2(a, b, 0x44), cd = _mm512_shuffle_i64x2(c, d, 0x44);
        const __m512i ab2 = _mm512_shuffle_i64x2(a, b, 0xee), cd2 = _mm512_shuffle_i64x2(c, d, 0xee);
        Cells::store_row(at(0), _mm512_shuffle_i64x2(ab, cd, 0x88));
        Cells::store_row(at(1), _mm512_shuffle_i64x2(ab, cd, 0xdd));
        Cells::store_row(at(2), _mm512_shuffle_i64x2(ab2, cd2, 0x88));
        Cells::store_row(at(3), _mm512_shuffle_i64x2(ab2, cd2, 0xdd));
#else
        Cells::store_row(at(0), _mm256_permute2x128_si256(a, b, 0x20));
        Cells::store_row(at(0) + Cells::kWide, _mm256_permute2x128_si256(c, d, 0x20));
        Cells::store_row(at(1), _mm256_permute2x128_si256(a, b, 0x31));
        Cells::store_row(at(1) + Cells::kWide, _mm256_permute2x128_si256(c, d, 0x31));
#endif
    }
}

// i < kRows, j < kTall: few columns of the source.
template <class S, class D>
DGO_INLINE void turn_columns(const typename S::T* const* from, int64_t i, typename D::T* const* to, int64_t j) {
    using Cells = Turned<S, D>;
    constexpr int kRows = Cells::kRows;
#pragma GCC unroll 2
    for (int first = 0; first < Cells::kTall; first += kQuarters * kRows) {
        Whole r[kRows];
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) r[row] = Cells::load_pieces(from + first + row, i);
        transpose_quarters<Cells::kSize>(r);
#pragma GCC unroll 16
        for (int column = 0; column < kRows; ++column) Cells::store_row(to[column] + j + first, r[column]);
    }
}

// i < kWide, j < kRows: few rows of the source.
template <class S, class D>
DGO_INLINE void turn_rows(const typename S::T* const* from, int64_t i, typename D::T* const* to, int64_t j) {
    using Cells = Turned<S, D>;
    constexpr int kRows = Cells::kRows;
    Whole r[kRows];
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) r[row] = Cells::load_row(from[row] + i);
    transpose_quarters<Cells::kSize>(r);
#pragma GCC unroll 16
    for (int column = 0; column < kRows; ++column) {
        Cells::store_piece(to[column] + j, quarter<0>(r[column]));
        Cells::store_piece(to[kRows + column] + j, quarter<1>(r[column]));
#ifdef DGO_WIDE
        Cells::store_piece(to[2 * kRows + column] + j, quarter<2>(r[column]));
        Cells::store_piece(to[3 * kRows + column] + j, quarter<3>(r[column]));
#endif
    }
}

}  // namespace dgo::DGO_ISA
