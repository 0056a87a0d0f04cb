// The AVX-512 intrinsics that this folder uses, in terms of AVX2: for tests on CPUs that have no more than that
// (-DDGO_EMULATE_AVX512=ON). Vectors of 64 bytes are the compiler's business. Declared in the namespace of the
// instruction set, these hide the intrinsics of <immintrin.h>.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace dgo::DGO_ISA {

namespace emulated {

typedef uint8_t U8 __attribute__((vector_size(16)));
typedef uint16_t U16 __attribute__((vector_size(32)));
typedef uint32_t U32 __attribute__((vector_size(64)));

struct Integers {
    __m128i low, high;
};
struct Floats {
    __m256 low, high;
};
struct Halves {
    __m256i low, high;
};
struct Quarters {
    __m128i at[4];
};

}  // namespace emulated

inline __m512i _mm512_cvtepu16_epi32(__m256i v) {
    return bits<__m512i>(__builtin_convertvector(bits<emulated::U16>(v), emulated::U32));
}

inline __m512i _mm512_cvtepu8_epi32(__m128i v) {
    return bits<__m512i>(__builtin_convertvector(bits<emulated::U8>(v), emulated::U32));
}

inline __m256i _mm512_cvtepi32_epi16(__m512i v) {
    return bits<__m256i>(__builtin_convertvector(bits<emulated::U32>(v), emulated::U16));
}

inline __m128i _mm512_cvtepi32_epi8(__m512i v) {
    return bits<__m128i>(__builtin_convertvector(bits<emulated::U32>(v), emulated::U8));
}

inline __m512 _mm512_cvtph_ps(__m256i v) {
    const auto half = bits<emulated::Integers>(v);
    return bits<__m512>(emulated::Floats{_mm256_cvtph_ps(half.low), _mm256_cvtph_ps(half.high)});
}

// The rounding is always this one here, and must be a literal below.
#undef _mm512_cvtps_ph
inline __m256i _mm512_cvtps_ph(__m512 v, int) {
    constexpr int kRound = _MM_FROUND_TO_NEAREST_INT;
    const auto half = bits<emulated::Floats>(v);
    return bits<__m256i>(emulated::Integers{_mm256_cvtps_ph(half.low, kRound), _mm256_cvtps_ph(half.high, kRound)});
}

// Lanes that the mask leaves out are not touched in memory.
inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void* at) {
    float lane[16];
    for (int i = 0; i < 16; ++i) lane[i] = (mask >> i & 1) != 0 ? static_cast<const float*>(at)[i] : 0.0f;
    return bits<__m512>(lane);
}

inline void _mm512_mask_storeu_ps(void* at, __mmask16 mask, __m512 v) {
    float lane[16];
    __builtin_memcpy(lane, &v, sizeof(lane));
    for (int i = 0; i < 16; ++i) {
        if ((mask >> i & 1) != 0) static_cast<float*>(at)[i] = lane[i];
    }
}

// Instructions that treat each half, or each quarter, alike.
inline __m256i _mm512_castsi512_si256(__m512i v) { return bits<emulated::Halves>(v).low; }

inline __m512i emulated_halves(__m256i low, __m256i high) { return bits<__m512i>(emulated::Halves{low, high}); }

inline __m512i _mm512_castsi256_si512(__m256i v) { return emulated_halves(v, v); }

inline __m512i _mm512_castsi128_si512(__m128i v) { return _mm512_castsi256_si512(_mm256_set_m128i(v, v)); }

#define DGO_BY_HALVES(name)                                                          \
    inline __m512i _mm512_##name(__m512i a, __m512i b) {                             \
        const auto x = bits<emulated::Halves>(a), y = bits<emulated::Halves>(b); \
        return emulated_halves(_mm256_##name(x.low, y.low), _mm256_##name(x.high, y.high)); \
    }
DGO_BY_HALVES(unpacklo_epi8)
DGO_BY_HALVES(unpackhi_epi8)
DGO_BY_HALVES(unpacklo_epi16)
DGO_BY_HALVES(unpackhi_epi16)
DGO_BY_HALVES(unpacklo_epi32)
DGO_BY_HALVES(unpackhi_epi32)
DGO_BY_HALVES(packus_epi32)
DGO_BY_HALVES(packs_epi32)
#undef DGO_BY_HALVES

#define DGO_BY_HALVES(name)                                                          \
    inline __m512 _mm512_##name(__m512 a, __m512 b) {                                \
        const auto x = bits<emulated::Floats>(a), y = bits<emulated::Floats>(b); \
        return bits<__m512>(emulated::Floats{_mm256_##name(x.low, y.low), _mm256_##name(x.high, y.high)}); \
    }
DGO_BY_HALVES(min_ps)
DGO_BY_HALVES(max_ps)
#undef DGO_BY_HALVES

#undef _mm512_inserti64x4
inline __m512i _mm512_inserti64x4(__m512i v, __m256i half, int at) {
    auto both = bits<emulated::Halves>(v);
    (at != 0 ? both.high : both.low) = half;
    return bits<__m512i>(both);
}

#undef _mm512_extracti64x4_epi64
inline __m256i _mm512_extracti64x4_epi64(__m512i v, int at) {
    const auto both = bits<emulated::Halves>(v);
    return at != 0 ? both.high : both.low;
}

#undef _mm512_inserti32x4
inline __m512i _mm512_inserti32x4(__m512i v, __m128i quarter, int at) {
    auto all = bits<emulated::Quarters>(v);
    all.at[at] = quarter;
    return bits<__m512i>(all);
}

#undef _mm512_extracti32x4_epi32
inline __m128i _mm512_extracti32x4_epi32(__m512i v, int at) { return bits<emulated::Quarters>(v).at[at]; }

#undef _mm512_shuffle_i64x2
inline __m512i _mm512_shuffle_i64x2(__m512i a, __m512i b, int order) {
    const auto x = bits<emulated::Quarters>(a), y = bits<emulated::Quarters>(b);
    return bits<__m512i>(
        emulated::Quarters{{x.at[order & 3], x.at[order >> 2 & 3], y.at[order >> 4 & 3], y.at[order >> 6 & 3]}});
}

inline __m512i _mm512_permutexvar_epi64(__m512i index, __m512i v) {
    int64_t at[8], from[8], lane[8];
    __builtin_memcpy(at, &index, sizeof(at));
    __builtin_memcpy(from, &v, sizeof(from));
    for (int i = 0; i < 8; ++i) lane[i] = from[at[i] & 7];
    return bits<__m512i>(lane);
}

// The only comparisons that are used: whether either is a NaN, and whether the first is greater.
#undef _mm512_cmp_ps_mask
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int how) {
    const auto x = bits<emulated::Floats>(a), y = bits<emulated::Floats>(b);
    const auto half = [how](__m256 c, __m256 d) {
        return _mm256_movemask_ps(how == _CMP_GT_OQ ? _mm256_cmp_ps(c, d, _CMP_GT_OQ)
                                                    : _mm256_cmp_ps(c, d, _CMP_UNORD_Q));
    };
    return static_cast<__mmask16>(half(x.low, y.low) | half(x.high, y.high) << 8);
}

inline __m512 _mm512_permutexvar_ps(__m512i index, __m512 v) {
    const auto at = bits<emulated::U32>(index);
    float from[16], lane[16];
    __builtin_memcpy(from, &v, sizeof(from));
    for (int i = 0; i < 16; ++i) lane[i] = from[at[i] & 15];
    return bits<__m512>(lane);
}

}  // namespace dgo::DGO_ISA
