// Bytes by a table of 256: shuffles find the low 4 bits of each in 16 parts of the table, the high 4 choose the part.
#include "kernels/isa/elementwise/lookup.hpp"

#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {
namespace {

#ifdef __AVX512BW__
using Bytes = __m512i;
DGO_INLINE Bytes part_of(const uint8_t* table) { return _mm512_broadcast_i32x4(load_bytes<__m128i>(table)); }
DGO_INLINE Bytes low_bits(Bytes x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
DGO_INLINE Bytes find(Bytes part, Bytes at) { return _mm512_shuffle_epi8(part, at); }
DGO_INLINE auto chosen_by(Bytes x, int bit) { return _mm512_movepi8_mask(_mm512_slli_epi16(x, 7 - bit)); }
DGO_INLINE Bytes choose(__mmask64 by, Bytes off, Bytes on) { return _mm512_mask_blend_epi8(by, off, on); }
#else
using Bytes = __m256i;
DGO_INLINE Bytes part_of(const uint8_t* table) { return _mm256_broadcastsi128_si256(load_bytes<__m128i>(table)); }
DGO_INLINE Bytes low_bits(Bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
DGO_INLINE Bytes find(Bytes part, Bytes at) { return _mm256_shuffle_epi8(part, at); }
DGO_INLINE Bytes chosen_by(Bytes x, int bit) { return _mm256_slli_epi16(x, 7 - bit); }
DGO_INLINE Bytes choose(Bytes by, Bytes off, Bytes on) { return _mm256_blendv_epi8(off, on, by); }
#endif

constexpr int64_t kAtOnce = sizeof(Bytes);

DGO_INLINE Bytes looked_up(const Bytes (&parts)[16], Bytes x) {
    const Bytes at = low_bits(x);
    Bytes results[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) results[i] = find(parts[i], at);
#pragma GCC unroll 4
    for (int bit = 4; bit < 8; ++bit) {
        const auto by = chosen_by(x, bit);
#pragma GCC unroll 8
        for (int i = 0; i < 128 >> bit; ++i) results[i] = choose(by, results[2 * i], results[2 * i + 1]);
    }
    return results[0];
}

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
    for (int i = 0; i < 16; ++i) parts[i] = part_of(table + 16 * i);
    const int64_t rest = columns % kAtOnce, whole = columns - rest;
    for (int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
        for (int64_t c = 0; c < whole; c += kAtOnce) {
            store_bytes(to + c, looked_up(parts, load_bytes<Bytes>(from + c)));
        }
        if (rest > 0) look_up_few(table, parts, from + whole, rest, to + whole);
    }
}

}  // namespace dgo::DGO_ISA
