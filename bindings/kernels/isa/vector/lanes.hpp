// Vectors of 32-bit lanes, in registers and in memory. Everything here lives in the namespace of one instruction set,
// so that the linker never merges code of two sets; for the same reason no template of the standard library is used in
// this folder. cmake/isa_symbols.py looks at every object.
#pragma once

#include <immintrin.h>

#include <cstdint>

#ifndef DGO_ISA
#error "compile with -DDGO_ISA=<namespace of the instruction set>"
#endif

// The name of the set, for tests and users.
#define DGO_TEXT_(x) #x
#define DGO_TEXT(x) DGO_TEXT_(x)

#include "kernels/isa/vector/integer.hpp"
#ifdef DGO_EMULATE_AVX512
#include "kernels/isa/vector/emulated.hpp"
#endif

namespace dgo::DGO_ISA {

#ifdef DGO_EMULATE_AVX512
constexpr bool kEmulates = true;
#else
constexpr bool kEmulates = false;
#endif

constexpr int kLanes = DGO_LANES;
// Whether vectors have 16 lanes and instructions that operate on all of them.
constexpr bool kWide = kLanes == 16 && !kEmulates;

template <int L>
struct Vec {
    typedef float f32 __attribute__((vector_size(4 * L)));
    typedef uint32_t u32 __attribute__((vector_size(4 * L)));
    typedef int32_t s32 __attribute__((vector_size(4 * L)));
};
template <int L>
using Floats = typename Vec<L>::f32;

template <class V>
DGO_INLINE V load_bytes(const void* at) {
    V v;
    __builtin_memcpy(&v, at, sizeof(V));
    return v;
}

template <class V>
DGO_INLINE void store_bytes(void* at, const V& v) {
    __builtin_memcpy(at, &v, sizeof(V));
}

// ---- words of 1, 2 and 4 bytes in memory, lanes of 4 in registers ----------------------------------------
// Intrinsics: what the compiler makes of the equal vector conversions is several times slower.

template <class Word>
DGO_INLINE __m128i load_low(const void* at) {
    return _mm_cvtsi64_si128(load_bytes<Word>(at));
}

template <int Size, int L>
DGO_INLINE typename Vec<L>::u32 load_words(const void* at) {
    using V = typename Vec<L>::u32;
    if constexpr (Size == 4) {
        return load_bytes<V>(at);
    } else if constexpr (L == 4) {
        if constexpr (Size == 2) return bits<V>(_mm_cvtepu16_epi32(load_low<int64_t>(at)));
        if constexpr (Size == 1) return bits<V>(_mm_cvtepu8_epi32(load_low<int32_t>(at)));
    } else if constexpr (L == 8) {
        if constexpr (Size == 2) return bits<V>(_mm256_cvtepu16_epi32(load_bytes<__m128i>(at)));
        if constexpr (Size == 1) return bits<V>(_mm256_cvtepu8_epi32(load_low<int64_t>(at)));
    } else {
        if constexpr (Size == 2) return bits<V>(_mm512_cvtepu16_epi32(load_bytes<__m256i>(at)));
        if constexpr (Size == 1) return bits<V>(_mm512_cvtepu8_epi32(load_bytes<__m128i>(at)));
    }
}

// The lanes' values must fit into Size bytes.
template <int Size, int L>
DGO_INLINE void store_words(void* at, typename Vec<L>::u32 v) {
    if constexpr (Size == 4) {
        store_bytes(at, v);
    } else if constexpr (L == 4) {
        const __m128i words = _mm_packus_epi32(bits<__m128i>(v), bits<__m128i>(v));
        if constexpr (Size == 2) store_bytes(at, _mm_cvtsi128_si64(words));
        if constexpr (Size == 1) store_bytes(at, _mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
    } else if constexpr (L == 8) {
        const __m256i lanes = bits<__m256i>(v);
        const __m128i upper = _mm256_extracti128_si256(lanes, 1);
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(lanes), upper);
        if constexpr (Size == 2) store_bytes(at, words);
        if constexpr (Size == 1) store_bytes(at, _mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
    } else {
        if constexpr (Size == 2) store_bytes(at, _mm512_cvtepi32_epi16(bits<__m512i>(v)));
        if constexpr (Size == 1) store_bytes(at, _mm512_cvtepi32_epi8(bits<__m512i>(v)));
    }
}

// Loads Size bytes word by word: a copy through memory would stall on its own store.
template <int Size>
DGO_INLINE int64_t load_short(const void* at) {
    if constexpr (Size == 8) return load_bytes<int64_t>(at);
    if constexpr (Size == 4) return load_bytes<uint32_t>(at);
    if constexpr (Size == 2) return load_bytes<uint16_t>(at);
    if constexpr (Size == 1) return load_bytes<uint8_t>(at);
    if constexpr (Size == 3 || Size == 6) {
        const int64_t last = load_short<Size / 3>(static_cast<const char*>(at) + Size / 3 * 2);
        return load_short<Size / 3 * 2>(at) | last << (Size / 3 * 16);
    }
}

template <int Size>
DGO_INLINE void store_short(void* at, int64_t v) {
    if constexpr (Size == 8) store_bytes(at, v);
    if constexpr (Size == 4) store_bytes(at, static_cast<uint32_t>(v));
    if constexpr (Size == 2) store_bytes(at, static_cast<uint16_t>(v));
    if constexpr (Size == 1) store_bytes(at, static_cast<uint8_t>(v));
    if constexpr (Size == 3 || Size == 6) {
        store_short<Size / 3 * 2>(at, v);
        store_short<Size / 3>(static_cast<char*>(at) + Size / 3 * 2, v >> (Size / 3 * 16));
    }
}

// Loads K words, 2 to 4; the other lanes are not defined.
template <int Size, int K>
DGO_INLINE Vec<4>::u32 load_few_words(const void* at) {
    using V = Vec<4>::u32;
    [[maybe_unused]] const char* byte = static_cast<const char*>(at);
    if constexpr (K == 4) {
        return load_words<Size, 4>(at);
    } else if constexpr (Size == 4) {
        const __m128i two = load_low<int64_t>(at);
        if constexpr (K == 2) return bits<V>(two);
        if constexpr (K == 3) return bits<V>(_mm_insert_epi32(two, load_bytes<int32_t>(byte + 8), 2));
    } else {
        const __m128i packed = _mm_cvtsi64_si128(load_short<K * Size>(at));
        return bits<V>(Size == 2 ? _mm_cvtepu16_epi32(packed) : _mm_cvtepu8_epi32(packed));
    }
}

template <int Size, int K>
DGO_INLINE void store_few_words(void* at, Vec<4>::u32 v) {
    [[maybe_unused]] char* byte = static_cast<char*>(at);
    const __m128i lanes = bits<__m128i>(v);
    if constexpr (K == 4) {
        store_words<Size, 4>(at, v);
    } else if constexpr (Size == 4) {
        store_bytes(at, _mm_cvtsi128_si64(lanes));
        if constexpr (K == 3) store_bytes(byte + 8, _mm_extract_epi32(lanes, 2));
    } else {
        __m128i packed = _mm_packus_epi32(lanes, lanes);
        if constexpr (Size == 1) packed = _mm_packus_epi16(packed, packed);
        store_short<K * Size>(at, _mm_cvtsi128_si64(packed));
    }
}

// ---- whole vectors of floats --------------------------------------------------------------------------------

typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef float LanesAt __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

// Loads `count` < kLanes floats without reading beyond them; the other lanes are zero.
template <int L = kLanes>
DGO_INLINE typename Vec<L>::f32 load_part(const float* at, int64_t count) {
    using V = typename Vec<L>::f32;
    if constexpr (L == 16) {
        return bits<V>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), at));
    } else {
        const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        return bits<V>(_mm256_maskload_ps(at, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index)));
    }
}

template <int L = kLanes>
DGO_INLINE void store_part(float* at, typename Vec<L>::f32 v, int64_t count) {
    if constexpr (L == 16) {
        return _mm512_mask_storeu_ps(at, static_cast<__mmask16>((1u << count) - 1), bits<__m512>(v));
    }
    // Masked stores take tens of cycles on some processors.
    const auto all = load_bytes<__m256>(&v);
    __m128 part = _mm256_castps256_ps128(all);
    if ((count & 4) != 0) {
        store_bytes(at, part);
        at += 4;
        part = _mm256_extractf128_ps(all, 1);
    }
    if ((count & 2) != 0) {
        store_bytes(at, _mm_cvtsi128_si64(_mm_castps_si128(part)));
        at += 2;
        part = _mm_movehl_ps(part, part);
    }
    if ((count & 1) != 0) *at = _mm_cvtss_f32(part);
}

DGO_INLINE Lanes load_some(const float* at, int64_t count) {
    return count >= kLanes ? load_bytes<Lanes>(at) : load_part(at, count);
}

DGO_INLINE void store_some(float* at, Lanes v, int64_t count) {
    if (count >= kLanes) {
        *reinterpret_cast<LanesAt*>(at) = v;
    } else {
        store_part(at, v, count);
    }
}

// Combines all lanes to one number: combine(a, b) takes vectors of any width.
template <class Combine>
DGO_INLINE float across(Lanes v, Combine&& combine) {
    __m256 eight = load_bytes<__m256>(&v);
    if constexpr (kLanes == 16) {
        eight = combine(eight, load_bytes<__m256>(reinterpret_cast<const char*>(&v) + sizeof(__m256)));
    }
    __m128 four = combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = combine(four, _mm_movehl_ps(four, four));
    four = combine(four, _mm_shuffle_ps(four, four, 1));
    return _mm_cvtss_f32(four);
}

DGO_INLINE float sum_across(Lanes v) {
    return across(v, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}

}  // namespace dgo::DGO_ISA
