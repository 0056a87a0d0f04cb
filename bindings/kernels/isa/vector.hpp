// Vectors of 32-bit lanes and the loads and stores of every cell. Everything here lives in the namespace of
// one instruction set, so that the linker never merges code of two sets; for the same reason no template of
// the standard library is used in this folder.
#pragma once

#include <immintrin.h>

#include <cstdint>

#ifndef DGO_ISA
#error "compile with -DDGO_ISA=<namespace of the instruction set>"
#endif

#ifdef DGO_EMULATE_AVX512
#include "kernels/isa/emulated.hpp"
#endif

namespace dgo::DGO_ISA {

#if defined(__AVX512F__) || defined(DGO_EMULATE_AVX512)
#define DGO_WIDE  // vectors of 16 lanes
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

#define DGO_INLINE inline __attribute__((always_inline))

template <int L>
struct Vec {
    typedef float f32 __attribute__((vector_size(4 * L)));
    typedef uint32_t u32 __attribute__((vector_size(4 * L)));
    typedef int32_t s32 __attribute__((vector_size(4 * L)));
};

template <class To, class From>
DGO_INLINE To bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps the size");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

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
#ifdef DGO_WIDE
        if constexpr (Size == 2) return bits<V>(_mm512_cvtepu16_epi32(load_bytes<__m256i>(at)));
        if constexpr (Size == 1) return bits<V>(_mm512_cvtepu8_epi32(load_bytes<__m128i>(at)));
#endif
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
#ifdef DGO_WIDE
        if constexpr (Size == 2) store_bytes(at, _mm512_cvtepi32_epi16(bits<__m512i>(v)));
        if constexpr (Size == 1) store_bytes(at, _mm512_cvtepi32_epi8(bits<__m512i>(v)));
#endif
    }
}

// Size bytes in pieces: a copy through memory would stall on its own store.
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

// K words, 2 to 4; the lanes beyond are not defined.
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

// ---- cells ------------------------------------------------------------------------------------------------
// T in memory and `value` in arithmetic, both one by one; where vectors exist, kSize is the size of a
// word, and `widen` and `narrow` convert between lanes of words and lanes of values (floats as f32 bits).

// Storage types: any address is good enough and any object may lie there.
struct Words {
    typedef uint8_t u8 __attribute__((may_alias));
    typedef int8_t s8 __attribute__((may_alias));
    typedef uint16_t u16 __attribute__((may_alias, aligned(1)));
    typedef uint32_t u32 __attribute__((may_alias, aligned(1)));
    typedef int32_t s32 __attribute__((may_alias, aligned(1)));
};
template <int Parts>
struct __attribute__((may_alias, packed)) Long {
    uint64_t part[Parts];
};

struct AsIs {
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 widen(typename Vec<L>::u32 word) {
        return word;
    }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 narrow(typename Vec<L>::u32 value) {
        return value;
    }
};

struct Raw1 : AsIs {
    using T = Words::u8;
    using value = uint8_t;
    static constexpr int kSize = 1;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
};

struct Raw2 : AsIs {
    using T = Words::u16;
    using value = uint16_t;
    static constexpr int kSize = 2;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
};

struct Raw4 : AsIs {
    using T = Words::u32;
    using value = uint32_t;
    static constexpr int kSize = 4;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
};

template <int Parts>
struct RawLong {
    using T = Long<Parts>;
    using value = T;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
};
using Raw8 = RawLong<1>;
using Raw16 = RawLong<2>;
using Raw32 = RawLong<4>;

struct F32 : AsIs {
    using T = Words::u32;
    using value = float;
    static constexpr int kSize = 4;
    static DGO_INLINE value get(const T* at) { return bits<float>(uint32_t{*at}); }
    static DGO_INLINE void put(T* at, value v) { *at = bits<uint32_t>(v); }
};

struct Bf16 {
    using T = Words::u16;
    using value = float;
    static constexpr int kSize = 2;
    // To nearest, ties to even.
    template <class U>
    static DGO_INLINE U round(U u) {
        return (u + (((u >> 16) & 1u) + 0x7fffu)) >> 16;
    }
    static DGO_INLINE value get(const T* at) { return bits<float>(uint32_t{*at} << 16); }
    // A NaN keeps its upper bits and becomes quiet.
    static DGO_INLINE void put(T* at, value v) {
        const uint32_t u = bits<uint32_t>(v);
        *at = static_cast<uint16_t>(v != v ? (u >> 16) | 0x40u : round(u));
    }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 widen(typename Vec<L>::u32 word) {
        return word << 16;
    }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 narrow(typename Vec<L>::u32 u) {
        const auto v = bits<typename Vec<L>::f32>(u);
        return v != v ? (u >> 16) | 0x40u : round(u);
    }
};

struct F16 {
    using T = Words::u16;
    using value = float;
    static constexpr int kSize = 2;
    static DGO_INLINE value get(const T* at) { return _cvtsh_ss(*at); }
    static DGO_INLINE void put(T* at, value v) { *at = _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
};

struct S32 {
    using T = Words::s32;
    using value = int32_t;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
};

struct S8 {
    using T = Words::s8;
    using value = int32_t;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = static_cast<int8_t>(v); }
};

struct U8 {
    using T = Words::u8;
    using value = int32_t;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = static_cast<uint8_t>(v); }
};

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

// ---- loads and stores of cells as lanes -------------------------------------------------------------------

template <class C, int L>
DGO_INLINE typename Vec<L>::u32 load(const typename C::T* at) {
    if constexpr (kSame<C, F16>) {
        using V = typename Vec<L>::u32;
        if constexpr (L == 4) return bits<V>(_mm_cvtph_ps(load_low<int64_t>(at)));
        if constexpr (L == 8) return bits<V>(_mm256_cvtph_ps(load_bytes<__m128i>(at)));
#ifdef DGO_WIDE
        if constexpr (L == 16) return bits<V>(_mm512_cvtph_ps(load_bytes<__m256i>(at)));
#endif
    } else {
        return C::template widen<L>(load_words<C::kSize, L>(at));
    }
}

template <class C, int L>
DGO_INLINE void store(typename C::T* at, typename Vec<L>::u32 v) {
    if constexpr (kSame<C, F16>) {
        constexpr int kRound = _MM_FROUND_TO_NEAREST_INT;
        if constexpr (L == 4) store_bytes(at, _mm_cvtsi128_si64(_mm_cvtps_ph(bits<__m128>(v), kRound)));
        if constexpr (L == 8) store_bytes(at, _mm256_cvtps_ph(bits<__m256>(v), kRound));
#ifdef DGO_WIDE
        if constexpr (L == 16) store_bytes(at, _mm512_cvtps_ph(bits<__m512>(v), kRound));
#endif
    } else {
        store_words<C::kSize, L>(at, C::template narrow<L>(v));
    }
}

// K cells, 2 to 4.
template <class C, int K>
DGO_INLINE Vec<4>::u32 load_few(const typename C::T* at) {
    if constexpr (kSame<C, F16>) {
        return bits<Vec<4>::u32>(_mm_cvtph_ps(_mm_cvtsi64_si128(load_short<K * C::kSize>(at))));
    } else {
        return C::template widen<4>(load_few_words<C::kSize, K>(at));
    }
}

template <class C, int K>
DGO_INLINE void store_few(typename C::T* at, Vec<4>::u32 v) {
    if constexpr (kSame<C, F16>) {
        const __m128i packed = _mm_cvtps_ph(bits<__m128>(v), _MM_FROUND_TO_NEAREST_INT);
        store_short<K * C::kSize>(at, _mm_cvtsi128_si64(packed));
    } else {
        store_few_words<C::kSize, K>(at, C::template narrow<4>(v));
    }
}

template <class C, int L>
DGO_INLINE typename Vec<L>::f32 load_float(const typename C::T* at) {
    return bits<typename Vec<L>::f32>(load<C, L>(at));
}

template <class C, int L>
DGO_INLINE void store_float(typename C::T* at, typename Vec<L>::f32 v) {
    store<C, L>(at, bits<typename Vec<L>::u32>(v));
}

DGO_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
DGO_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace dgo::DGO_ISA
