// Sums of bytes: of the channels of each position.
#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kPositions = 4;  // positions that are summed together

// Adds four partial sums of bytes.
DGO_INLINE __m256i partial_sums(const char* at, int64_t count) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i sums = zero;
    int64_t i = 0;
    for (; i + 32 <= count; i += 32) sums = _mm256_add_epi64(sums, _mm256_sad_epu8(load_bytes<__m256i>(at + i), zero));
    const auto add = [&](__m128i bytes) __attribute__((always_inline)) {
        sums = _mm256_add_epi64(sums, _mm256_zextsi128_si256(_mm_sad_epu8(bytes, _mm_setzero_si128())));
    };
    if (i + 16 <= count) {
        add(load_bytes<__m128i>(at + i));
        i += 16;
    }
    if (i + 8 <= count) {
        add(_mm_cvtsi64_si128(load_bytes<int64_t>(at + i)));
        i += 8;
    }
    if (i < count) {
        int64_t few = 0;
        __builtin_memcpy(&few, at + i, static_cast<size_t>(count - i));
        add(_mm_cvtsi64_si128(few));
    }
    return sums;
}

}  // namespace

void run_int8_sums(const char* rows, int64_t positions, int64_t pitch, int64_t count, int32_t less, int32_t* sums) {
    int64_t p = 0;
    for (; p + kPositions <= positions; p += kPositions, rows += kPositions * pitch) {
        __m256i all[kPositions];
#pragma GCC unroll 4
        for (int64_t i = 0; i < kPositions; ++i) all[i] = partial_sums(rows + i * pitch, count);
        const __m256i low =
            _mm256_add_epi64(_mm256_unpacklo_epi64(all[0], all[1]), _mm256_unpackhi_epi64(all[0], all[1]));
        const __m256i high =
            _mm256_add_epi64(_mm256_unpacklo_epi64(all[2], all[3]), _mm256_unpackhi_epi64(all[2], all[3]));
        const __m256i four =
            _mm256_add_epi64(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
        const __m256i words = _mm256_permutevar8x32_epi32(four, _mm256_setr_epi32(0, 2, 4, 6, 0, 0, 0, 0));
        store_bytes(sums + p, _mm_sub_epi32(_mm256_castsi256_si128(words), _mm_set1_epi32(less)));
    }
    for (; p < positions; ++p, rows += pitch) {
        const __m256i all = partial_sums(rows, count);
        const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        sums[p] = _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) - less;
    }
}

}  // namespace dgo::DGO_ISA
