// The element types in memory, and their loads and stores as lanes.
#pragma once

#include "kernels/element_type.hpp"
#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {

// An element type has T in memory and `value` in arithmetic. If vectors exist, kSize is the size of a word, and `widen`
// and `narrow` convert between lanes of words and lanes of values (floats as f32 bits).

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
    // Rounds to nearest, ties to even.
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

// Calls f with an object of the type of a type of floats.
template <class F>
DGO_INLINE auto with_type(ElementType type, F&& f) {
    if (type == ElementType::bf16) return f(Bf16{});
    if (type == ElementType::f16) return f(F16{});
    return f(F32{});
}

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

// ---- loads and stores of elements as lanes -------------------------------------------------------------------

template <class C, int L>
DGO_INLINE typename Vec<L>::u32 load(const typename C::T* at) {
    if constexpr (kSame<C, F16>) {
        using V = typename Vec<L>::u32;
        if constexpr (L == 4) return bits<V>(_mm_cvtph_ps(load_low<int64_t>(at)));
        if constexpr (L == 8) return bits<V>(_mm256_cvtph_ps(load_bytes<__m128i>(at)));
        if constexpr (L == 16) return bits<V>(_mm512_cvtph_ps(load_bytes<__m256i>(at)));
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
        if constexpr (L == 16) store_bytes(at, _mm512_cvtps_ph(bits<__m512>(v), kRound));
    } else {
        store_words<C::kSize, L>(at, C::template narrow<L>(v));
    }
}

// Loads K elements, 2 to 4.
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

}  // namespace dgo::DGO_ISA
