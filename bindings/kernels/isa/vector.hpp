// Vectors of 32-bit lanes and the loads and stores of every cell. Everything here lives in the namespace of
// one instruction set, so that the linker never merges code of two sets; for the same reason no template of
// the standard library is used below this folder.
#pragma once

#include <immintrin.h>

#include <cstdint>

#ifndef DGO_ISA
#error "compile with -DDGO_ISA=<namespace of the instruction set>"
#endif

namespace dgo::DGO_ISA {

#ifdef __AVX512F__
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
    typedef uint16_t u16 __attribute__((vector_size(2 * L)));
    typedef uint8_t u8 __attribute__((vector_size(L)));
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

// Storage types: any address is good enough and any object may lie there. (Members, because a template
// argument would lose the attributes.)
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

// A cell: T in memory, `value` in arithmetic, load<L> and store<L> for L of them as 32-bit lanes.
struct Raw1 {
    using T = Words::u8;
    using value = uint8_t;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 load(const T* at) {
        return __builtin_convertvector(load_bytes<typename Vec<L>::u8>(at), typename Vec<L>::u32);
    }
    template <int L>
    static DGO_INLINE void store(T* at, typename Vec<L>::u32 v) {
        store_bytes(at, __builtin_convertvector(v, typename Vec<L>::u8));
    }
};

struct Raw2 {
    using T = Words::u16;
    using value = uint16_t;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 load(const T* at) {
        return __builtin_convertvector(load_bytes<typename Vec<L>::u16>(at), typename Vec<L>::u32);
    }
    template <int L>
    static DGO_INLINE void store(T* at, typename Vec<L>::u32 v) {
        store_bytes(at, __builtin_convertvector(v, typename Vec<L>::u16));
    }
};

struct Raw4 {
    using T = Words::u32;
    using value = uint32_t;
    static DGO_INLINE value get(const T* at) { return *at; }
    static DGO_INLINE void put(T* at, value v) { *at = v; }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 load(const T* at) {
        return load_bytes<typename Vec<L>::u32>(at);
    }
    template <int L>
    static DGO_INLINE void store(T* at, typename Vec<L>::u32 v) {
        store_bytes(at, v);
    }
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

struct F32 {
    using T = Words::u32;
    using value = float;
    static DGO_INLINE value get(const T* at) { return bits<float>(uint32_t{*at}); }
    static DGO_INLINE void put(T* at, value v) { *at = bits<uint32_t>(v); }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 load(const T* at) {
        return load_bytes<typename Vec<L>::u32>(at);
    }
    template <int L>
    static DGO_INLINE void store(T* at, typename Vec<L>::u32 v) {
        store_bytes(at, v);
    }
};

struct Bf16 {
    using T = Words::u16;
    using value = float;
    static DGO_INLINE value get(const T* at) { return bits<float>(uint32_t{*at} << 16); }
    // To nearest, ties to even; a NaN keeps its upper bits and becomes quiet.
    static DGO_INLINE void put(T* at, value v) {
        const uint32_t u = bits<uint32_t>(v);
        const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        *at = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
    }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 load(const T* at) {
        return __builtin_convertvector(load_bytes<typename Vec<L>::u16>(at), typename Vec<L>::u32) << 16;
    }
    template <int L>
    static DGO_INLINE void store(T* at, typename Vec<L>::u32 u) {
        using S = typename Vec<L>::s32;
        const typename Vec<L>::u32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        const S nan = bits<S>(u & 0x7fffffffu) > 0x7f800000;
        const typename Vec<L>::u32 out = nan ? ((u >> 16) | 0x40u) : rounded;
        store_bytes(at, __builtin_convertvector(out, typename Vec<L>::u16));
    }
};

struct F16 {
    using T = Words::u16;
    using value = float;
    static DGO_INLINE value get(const T* at) { return _cvtsh_ss(*at); }
    static DGO_INLINE void put(T* at, value v) { *at = _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
    template <int L>
    static DGO_INLINE typename Vec<L>::u32 load(const T* at) {
        if constexpr (L == 8) {
            return bits<typename Vec<L>::u32>(_mm256_cvtph_ps(load_bytes<__m128i>(at)));
        } else {
#ifdef __AVX512F__
            return bits<typename Vec<L>::u32>(_mm512_cvtph_ps(load_bytes<__m256i>(at)));
#endif
        }
    }
    template <int L>
    static DGO_INLINE void store(T* at, typename Vec<L>::u32 u) {
        if constexpr (L == 8) {
            store_bytes(at, _mm256_cvtps_ph(bits<__m256>(u), _MM_FROUND_TO_NEAREST_INT));
        } else {
#ifdef __AVX512F__
            store_bytes(at, _mm512_cvtps_ph(bits<__m512>(u), _MM_FROUND_TO_NEAREST_INT));
#endif
        }
    }
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

template <int L, class C>
DGO_INLINE typename Vec<L>::f32 load_float(const typename C::T* at) {
    return bits<typename Vec<L>::f32>(C::template load<L>(at));
}
template <int L, class C>
DGO_INLINE void store_float(typename C::T* at, typename Vec<L>::f32 v) {
    C::template store<L>(at, bits<typename Vec<L>::u32>(v));
}

DGO_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
DGO_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace dgo::DGO_ISA
