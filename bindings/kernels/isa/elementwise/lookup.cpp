// Bytes by a table of 256, of 16 parts: shuffles find the low 4 bits of each byte in a part.
#include "kernels/isa/elementwise/lookup.hpp"

#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {
namespace {

#ifdef __AVX512BW__
using Bytes = __m512i;

DGO_INLINE Bytes part_of(const uint8_t* table, int i) {
    return _mm512_broadcast_i32x4(load_bytes<__m128i>(table + 16 * i));
}

// The high 4 bits choose among the results of all parts.
DGO_INLINE Bytes looked_up(const Bytes (&parts)[16], Bytes x) {
    const Bytes at = _mm512_and_si512(x, _mm512_set1_epi8(15));
    Bytes results[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) results[i] = _mm512_shuffle_epi8(parts[i], at);
#pragma GCC unroll 4
    for (int bit = 4; bit < 8; ++bit) {
        const __mmask64 by = _mm512_movepi8_mask(_mm512_slli_epi16(x, 7 - bit));
#pragma GCC unroll 8
        for (int i = 0; i < 128 >> bit; ++i) {
            results[i] = _mm512_mask_blend_epi8(by, results[2 * i], results[2 * i + 1]);
        }
    }
    return results[0];
}
#else
using Bytes = __m256i;

// Returns a part, less the part before it in the same half of the table: both joined by xor are the part.
DGO_INLINE Bytes part_of(const uint8_t* table, int i) {
    const auto part = load_bytes<__m128i>(table + 16 * i);
    return _mm256_broadcastsi128_si256(i % 8 == 0 ? part
                                                  : _mm_xor_si128(part, load_bytes<__m128i>(table + 16 * (i - 1))));
}

// Joins the differences of all parts up to a byte's own: where a byte less 16 times the part's number is negative, a
// shuffle gives 0. Bytes from 128 on are those of the second half.
DGO_INLINE Bytes looked_up(const Bytes (&parts)[16], Bytes x) {
    Bytes result = _mm256_setzero_si256();
#pragma GCC unroll 2
    for (int half = 0; half < 16; half += 8) {
        Bytes at = half == 0 ? x : _mm256_xor_si256(x, _mm256_set1_epi8(-128));
#pragma GCC unroll 8
        for (int i = half; i < half + 8; ++i) {
            result = _mm256_xor_si256(result, _mm256_shuffle_epi8(parts[i], at));
            at = _mm256_subs_epi8(at, _mm256_set1_epi8(16));
        }
    }
    return result;
}
#endif

constexpr int64_t kAtOnce = sizeof(Bytes);

// Fewer than a vector has.
DGO_INLINE void look_up_few([[maybe_unused]] const uint8_t* table, [[maybe_unused]] const Bytes (&parts)[16],
                            const char* from, int64_t count, char* to) {
#ifdef __AVX512BW__
    const __mmask64 some = (uint64_t{1} << count) - 1;
    _mm512_mask_storeu_epi8(to, some, looked_up(parts, _mm512_maskz_loadu_epi8(some, from)));
#else
    for (int64_t c = 0; c < count; ++c) to[c] = static_cast<char>(table[static_cast<uint8_t>(from[c])]);
#endif
}

}  // namespace

void look_up(const uint8_t* table, const char* from, int64_t from_row, int64_t rows, int64_t columns, char* to,
             int64_t to_row) {
    Bytes parts[16];
    for (int i = 0; i < 16; ++i) parts[i] = part_of(table, i);
    const int64_t rest = columns % kAtOnce, whole = columns - rest;
    for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
        for (int64_t c = 0; c < whole; c += kAtOnce) {
            store_bytes(to + c, looked_up(parts, load_bytes<Bytes>(from + c)));
        }
        if (rest > 0) look_up_few(table, parts, from + whole, rest, to + whole);
    }
}

}  // namespace dgo::DGO_ISA
