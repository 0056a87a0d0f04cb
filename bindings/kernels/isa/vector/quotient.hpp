// Floats -> integers of 8 bits, 32 at once.
#pragma once

#include "kernels/isa/vector/functions.hpp"
#include "kernels/quotient.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kBytesAtOnce = 32;
constexpr int kByteVectors = kBytesAtOnce / kLanes;

// Returns the larger one of `farthest` and the distance of v to the nearest integer; `farthest` where that is NaN.
template <bool kNative = kWide>
DGO_INLINE Lanes farther(Lanes farthest, Lanes v) {
    constexpr int kLargerMagnitude = 0b1011;
    if constexpr (kNative) {
        const __m512 distance = _mm512_reduce_ps(bits<__m512>(v), _MM_FROUND_TO_NEAREST_INT);
        return bits<Lanes>(_mm512_range_ps(bits<__m512>(farthest), distance, kLargerMagnitude));
    }
    return larger_number(farthest, absolute(v - rounded(v)));
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

// left, right = the 32 nearest integers plus `zero`, saturated to 16 bits, in two halves; returns the order of fours of
// their bytes.
template <bool kNative = kWide>
DGO_INLINE __m256i words_of(const Lanes (&v)[kByteVectors], int16_t zero, __m256i& left, __m256i& right) {
    if constexpr (kNative) {
        const __m512i words = _mm512_packs_epi32(bits<__m512i>(to_integers(v[0])), bits<__m512i>(to_integers(v[1])));
        const __m512i all = _mm512_adds_epi16(words, _mm512_set1_epi16(zero));
        left = _mm512_castsi512_si256(all);
        right = _mm512_extracti64x4_epi64(all, 1);
        return _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7);
    }
    __m256 eights[4];
    __builtin_memcpy(eights, v, sizeof(eights));
    const auto words = [&](int i) __attribute__((always_inline)) {
        const __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(eights[i]), _mm256_cvtps_epi32(eights[i + 1]));
        return _mm256_adds_epi16(both, _mm256_set1_epi16(zero));
    };
    left = words(0);
    right = words(2);
    return _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
}

template <bool kBounds>
DGO_INLINE void store_integers(const Lanes (&v)[kByteVectors], const Quotient& by, bool signs, char* to) {
    __m256i left, right;
    const __m256i order = words_of(v, static_cast<int16_t>(by.zero), left, right);
    __m256i bytes = signs ? _mm256_packs_epi16(left, right) : _mm256_packus_epi16(left, right);
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    if (kBounds) {
        const __m256i low = _mm256_set1_epi8(static_cast<char>(by.low)),
                      high = _mm256_set1_epi8(static_cast<char>(by.high));
        bytes = signs ? _mm256_min_epi8(_mm256_max_epi8(bytes, low), high)
                      : _mm256_min_epu8(_mm256_max_epu8(bytes, low), high);
    }
    store_bytes(to, bytes);
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

// v = the quotients, or numbers near them that round to the same integers. kSmall: they are below 2^31; kExact: products
// by the inverse are the quotients.
template <bool kSmall, bool kExact>
DGO_INLINE void quotients_of(const Quotient& by, const Lanes (&value)[kByteVectors], Lanes (&v)[kByteVectors]) {
    constexpr float kMost = 32767;  // past all of 8 bits
    Lanes farthest = {};
    for (int j = 0; j < kByteVectors; ++j) {
        v[j] = kSmall ? value[j] * by.inverse : at_most(value[j] * by.inverse, kMost);
        if (!kExact) farthest = farther(farthest, v[j]);
    }
    if (!kExact && any_above(farthest, by.doubtful)) {
        for (int j = 0; j < kByteVectors; ++j) v[j] = at_most(value[j] / by.scale, kMost);
    }
}

// store_quotients for one case.
template <bool kBounds, bool kSmall, bool kExact, class Values>
DGO_INLINE void store_quotients_by(const Quotient& by, bool signs, int64_t count, char* to, Values& values) {
    const Quotient quotient = by;
    for (int64_t c = 0; c < count; c += kBytesAtOnce) {
        Lanes value[kByteVectors], v[kByteVectors];
        for (int j = 0; j < kByteVectors; ++j) value[j] = values(c + j * kLanes);
        quotients_of<kSmall, kExact>(quotient, value, v);
        char some[kBytesAtOnce];
        const int64_t left = count - c;
        char* const at = left < kBytesAtOnce ? some : to + c;
        store_integers<kBounds>(v, quotient, signs, at);
        if (left < kBytesAtOnce) store_first(to + c, some, left);
    }
}

// Writes `count` integers: values(c) gives the lanes from element c on, and is called for up to 31 elements past the
// last. A NaN becomes the lowest. kBounds: low and high are not those of the type. kSmall: quotients are below 2^31.
template <bool kBounds, bool kSmall, class Values>
DGO_INLINE void store_quotients(const Quotient& by, bool signs, int64_t count, char* to, Values&& values) {
    if (by.doubtful > 1) return store_quotients_by<kBounds, kSmall, true>(by, signs, count, to, values);
    store_quotients_by<kBounds, kSmall, false>(by, signs, count, to, values);
}

}  // namespace
}  // namespace dgo::DGO_ISA
