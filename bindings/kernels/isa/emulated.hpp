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

template <class To, class From>
inline To cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps the size");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

}  // namespace emulated

inline __m512i _mm512_cvtepu16_epi32(__m256i v) {
    return emulated::cast<__m512i>(__builtin_convertvector(emulated::cast<emulated::U16>(v), emulated::U32));
}

inline __m512i _mm512_cvtepu8_epi32(__m128i v) {
    return emulated::cast<__m512i>(__builtin_convertvector(emulated::cast<emulated::U8>(v), emulated::U32));
}

inline __m256i _mm512_cvtepi32_epi16(__m512i v) {
    return emulated::cast<__m256i>(__builtin_convertvector(emulated::cast<emulated::U32>(v), emulated::U16));
}

inline __m128i _mm512_cvtepi32_epi8(__m512i v) {
    return emulated::cast<__m128i>(__builtin_convertvector(emulated::cast<emulated::U32>(v), emulated::U8));
}

inline __m512 _mm512_cvtph_ps(__m256i v) {
    const auto half = emulated::cast<emulated::Integers>(v);
    return emulated::cast<__m512>(emulated::Floats{_mm256_cvtph_ps(half.low), _mm256_cvtph_ps(half.high)});
}

// The rounding is always this one here, and must be a literal below.
#undef _mm512_cvtps_ph
inline __m256i _mm512_cvtps_ph(__m512 v, int) {
    constexpr int kRound = _MM_FROUND_TO_NEAREST_INT;
    const auto half = emulated::cast<emulated::Floats>(v);
    return emulated::cast<__m256i>(
        emulated::Integers{_mm256_cvtps_ph(half.low, kRound), _mm256_cvtps_ph(half.high, kRound)});
}

// Lanes that the mask leaves out are not touched in memory.
inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void* at) {
    float lane[16];
    for (int i = 0; i < 16; ++i) lane[i] = (mask >> i & 1) != 0 ? static_cast<const float*>(at)[i] : 0.0f;
    return emulated::cast<__m512>(lane);
}

inline void _mm512_mask_storeu_ps(void* at, __mmask16 mask, __m512 v) {
    float lane[16];
    __builtin_memcpy(lane, &v, sizeof(lane));
    for (int i = 0; i < 16; ++i) {
        if ((mask >> i & 1) != 0) static_cast<float*>(at)[i] = lane[i];
    }
}

inline __m512 _mm512_permutexvar_ps(__m512i index, __m512 v) {
    const auto at = emulated::cast<emulated::U32>(index);
    float from[16], lane[16];
    __builtin_memcpy(from, &v, sizeof(from));
    for (int i = 0; i < 16; ++i) lane[i] = from[at[i] & 15];
    return emulated::cast<__m512>(lane);
}

}  // namespace dgo::DGO_ISA
