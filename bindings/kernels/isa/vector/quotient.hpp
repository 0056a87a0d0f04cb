// Floats -> integers of 8 bits, 32 at once.
#pragma once

#include <type_traits>

#include "kernels/isa/vector/functions.hpp"
#include "kernels/quotient.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kBytesAtOnce = 32;
constexpr int kByteVectors = kBytesAtOnce / kLanes;
// Bytes that whole vectors of the set make: their order is restored once.
constexpr int64_t kMostBytes = kWide ? 64 : kBytesAtOnce;
constexpr int kMostByteVectors = kMostBytes / kLanes;

// Returns the distance of v to the nearest integer, with any sign; of NaN, NaN or 0.
template <bool kNative = kWide>
DGO_INLINE Lanes distance(Lanes v) {
    if constexpr (kNative) return bits<Lanes>(_mm512_reduce_ps(bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
    return larger_number(Lanes{}, absolute(v - rounded(v)));
}

// Returns the larger one of two distances; a NaN is smaller than any.
template <bool kNative = kWide>
DGO_INLINE Lanes farther(Lanes a, Lanes b) {
    constexpr int kLargerMagnitude = 0b1011;
    if constexpr (kNative) return bits<Lanes>(_mm512_range_ps(bits<__m512>(a), bits<__m512>(b), kLargerMagnitude));
    return larger_number(a, b);
}

template <bool kNative = kWide>
DGO_INLINE bool any_above(Lanes v, float limit) {
    if constexpr (kNative) return _mm512_cmp_ps_mask(bits<__m512>(v), _mm512_set1_ps(limit), _CMP_GT_OQ) != 0;
    const Integers above = v > lanes_of(limit);
    __m256i any = load_bytes<__m256i>(&above);
    for (int at = 8; at < kLanes; at += 8) {
        any = _mm256_or_si256(any, load_bytes<__m256i>(reinterpret_cast<const char*>(&above) + at * 4));
    }
    return _mm256_movemask_epi8(any) != 0;
}

// Stores the nearest integers plus `by.zero`, 32 or 64. kBounds: low and high are not those of the type.
template <bool kBounds, int kCount, bool kNative = kWide>
DGO_INLINE void store_integers(const Lanes (&v)[kCount], const Quotient& by, bool signs, char* to) {
    const auto zero = static_cast<int16_t>(by.zero);
    const auto low = static_cast<char>(by.low), high = static_cast<char>(by.high);
    if constexpr (kNative) {
        const auto words = [&](int i) __attribute__((always_inline)) {
            return _mm512_adds_epi16(
                _mm512_packs_epi32(bits<__m512i>(to_integers(v[i])), bits<__m512i>(to_integers(v[i + 1]))),
                _mm512_set1_epi16(zero));
        };
        const __m512i left = words(0), right = kCount > 2 ? words(kCount - 2) : left;
        __m512i bytes = signs ? _mm512_packs_epi16(left, right) : _mm512_packus_epi16(left, right);
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        bytes = _mm512_permutexvar_epi32(order, bytes);
        const __m512i least = _mm512_set1_epi8(low), most = _mm512_set1_epi8(high);
        if (kBounds) {
            bytes = signs ? _mm512_min_epi8(_mm512_max_epi8(bytes, least), most)
                          : _mm512_min_epu8(_mm512_max_epu8(bytes, least), most);
        }
        if constexpr (kCount > 2) return store_bytes(to, bytes);
        store_bytes(to, _mm512_castsi512_si256(bytes));
    } else {
        __m256 eights[4];
        __builtin_memcpy(eights, v, sizeof(eights));
        const auto words = [&](int i) __attribute__((always_inline)) {
            const __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(eights[i]), _mm256_cvtps_epi32(eights[i + 1]));
            return _mm256_adds_epi16(both, _mm256_set1_epi16(zero));
        };
        __m256i bytes = signs ? _mm256_packs_epi16(words(0), words(2)) : _mm256_packus_epi16(words(0), words(2));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        const __m256i least = _mm256_set1_epi8(low), most = _mm256_set1_epi8(high);
        if (kBounds) {
            bytes = signs ? _mm256_min_epi8(_mm256_max_epi8(bytes, least), most)
                          : _mm256_min_epu8(_mm256_max_epu8(bytes, least), most);
        }
        store_bytes(to, bytes);
    }
}

// Stores the first `count` bytes of some vectors, fewer than 32.
DGO_INLINE void store_first(char* to, const char* from, int64_t count) {
    const auto put = [&](auto part) __attribute__((always_inline)) {
        if ((count & static_cast<int64_t>(sizeof(part))) == 0) return;
        store_bytes(to, load_bytes<decltype(part)>(from));
        to += sizeof(part);
        from += sizeof(part);
    };
    put(__m128i{});
    put(uint64_t{});
    put(uint32_t{});
    put(uint16_t{});
    put(uint8_t{});
}

// Returns the first `count` bytes as words, and zeros after them.
template <bool kNative = kWide>
DGO_INLINE Vec<kLanes>::u32 load_first(const char* from, int64_t count) {
    if (count >= kLanes) return load_words<1, kLanes>(from);
    if constexpr (kNative) {
        const auto some = static_cast<__mmask16>((1 << larger(count, 0)) - 1);
        return bits<Vec<kLanes>::u32>(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, from)));
    } else {
        char bytes[kLanes] = {};
        if (count > 0) store_first(bytes, from, count);
        return load_words<1, kLanes>(bytes);
    }
}

// Returns the first `count` floats, and zeros after them.
DGO_INLINE Lanes load_first(const float* from, int64_t count) {
    return count < kLanes ? load_part(from, larger(count, 0)) : load_bytes<Lanes>(from);
}

// How quotients are computed: as products by the inverse, exact for powers of two; as sums of two products; or as products
// that a division replaces where they are near the middle of two integers.
enum class Division { product, sum, checked };

inline Division division_of(const Quotient& by) {
    return by.doubtful > 1 ? Division::product : by.rest != 0 ? Division::sum : Division::checked;
}

// v = the quotients, or numbers near them that round to the same integers. kSmall: they are below 2^31.
template <bool kSmall, Division kBy, int kCount>
DGO_INLINE void quotients_of(const Quotient& by, const Lanes (&value)[kCount], Lanes (&v)[kCount]) {
    constexpr float kMost = 32767;  // past all of 8 bits
    for (int j = 0; j < kCount; ++j) {
        v[j] = kBy == Division::sum ? multiply_add(value[j], lanes_of(by.inverse), value[j] * by.rest)
                                    : value[j] * by.inverse;
        if (!kSmall) v[j] = at_most(v[j], kMost);
    }
    if constexpr (kBy == Division::checked) {
        Lanes far[kCount];
        for (int j = 0; j < kCount; ++j) far[j] = distance(v[j]);
        for (int half = kCount / 2; half > 0; half /= 2) {
            for (int j = 0; j < half; ++j) far[j] = farther(far[j], far[j + half]);
        }
        if (!any_above(far[0], by.doubtful)) return;
        for (int j = 0; j < kCount; ++j) v[j] = at_most(value[j] / by.scale, kMost);
    }
}

// Calls function(division) with a constant.
template <class Function>
DGO_INLINE void by_division(Division by, Function&& function) {
    if (by == Division::sum) return function(std::integral_constant<Division, Division::sum>{});
    if (by == Division::product) return function(std::integral_constant<Division, Division::product>{});
    function(std::integral_constant<Division, Division::checked>{});
}

template <class Function>
DGO_INLINE void by_flag(bool flag, Function&& function) {
    flag ? function(std::true_type{}) : function(std::false_type{});
}

// Writes `count` integers: values(c, left) gives the lanes from element c on, of which `left` exist, or none. A NaN becomes
// the lowest. kBounds: low and high are not those of the type. kSmall: quotients are below 2^31.
template <bool kBounds, bool kSmall, class Values>
DGO_INLINE void store_quotients(const Quotient& by, bool signs, int64_t count, char* to, Values&& values) {
    by_division(division_of(by), [&](auto division) __attribute__((always_inline)) {
        const Quotient quotient = by;
        const auto store = [&](auto vectors, int64_t c, int64_t left, char* at) __attribute__((always_inline)) {
            Lanes value[vectors], v[vectors];
            for (int j = 0; j < vectors; ++j) value[j] = values(c + j * kLanes, left - j * kLanes);
            quotients_of<kSmall, division>(quotient, value, v);
            store_integers<kBounds>(v, quotient, signs, at);
        };
        int64_t c = 0;
        for (; c + kMostBytes <= count; c += kMostBytes) {
            store(std::integral_constant<int, kMostByteVectors>{}, c, kMostBytes, to + c);
        }
        constexpr std::integral_constant<int, kByteVectors> kAtOnce{};
        for (; c + kBytesAtOnce <= count; c += kBytesAtOnce) store(kAtOnce, c, kBytesAtOnce, to + c);
        if (c < count) {
            char some[kBytesAtOnce];
            store(kAtOnce, c, count - c, some);
            store_first(to + c, some, count - c);
        }
    });
}

}  // namespace
}  // namespace dgo::DGO_ISA
