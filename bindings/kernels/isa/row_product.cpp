// Dot products of rows: both factors are read as they lie in memory, b once for each block of a's rows.
#include "row_product.hpp"

#include "vector.hpp"

namespace dgo::DGO_ISA {
namespace {

using Lanes = Vec<kLanes>::f32;

constexpr int kRows = 4;
constexpr int kColumns = kLanes == 16 ? 6 : 3;

DGO_INLINE float total(Lanes v) {
#ifdef DGO_WIDE
    const auto w = bits<__m512>(v);
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(w), _mm512_extractf32x8_ps(w, 1));
#else
    const auto half = bits<__m256>(v);
#endif
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

// One tile; rows and columns beyond `rows` and `columns` repeat the last one and are not stored.
template <int Rows>
__attribute__((noinline)) void tile(const RowProduct& p, const float* a, const float* b, float* c, int64_t rows,
                                    int64_t columns, int64_t depth, bool add) {
    const float* left[Rows];
    const float* right[kColumns];
    for (int64_t i = 0; i < Rows; ++i) left[i] = a + (i < rows ? i : rows - 1) * kRowProductRoom;
    for (int64_t j = 0; j < kColumns; ++j) right[j] = b + (j < columns ? j : columns - 1) * p.b_row;
    Lanes sum[Rows][kColumns] = {};
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
        Lanes r[kColumns];
#pragma GCC unroll 8
        for (int j = 0; j < kColumns; ++j) r[j] = load_bytes<Lanes>(right[j] + k);
#pragma GCC unroll 4
        for (int i = 0; i < Rows; ++i) {
            const Lanes l = load_bytes<Lanes>(left[i] + k);
#pragma GCC unroll 8
            for (int j = 0; j < kColumns; ++j) sum[i][j] += l * r[j];
        }
    }
    float rest[Rows][kColumns] = {};
    for (; k < depth; ++k) {
        for (int i = 0; i < Rows; ++i) {
            for (int j = 0; j < kColumns; ++j) rest[i][j] += left[i][k] * right[j][k];
        }
    }
    for (int i = 0; i < Rows; ++i) {
        for (int j = 0; j < kColumns; ++j) {
            if (i >= rows || j >= columns) continue;
            float* at = c + i * p.c_row + j * p.c_column;
            const float value = total(sum[i][j]) + rest[i][j];
            *at = add ? *at + value : value;
        }
    }
}

}  // namespace

void row_product(const RowProduct& p, const float* a, const float* b, float* c, float* room) {
    for (int64_t k = 0; k < p.depth; k += kRowProductDepth) {
        const int64_t depth = p.depth - k < kRowProductDepth ? p.depth - k : kRowProductDepth;
        // Rows of a may lie such that they push each other out of the caches; these do not.
        for (int64_t i = 0; i < p.rows; ++i) {
            __builtin_memcpy(room + i * kRowProductRoom, a + i * p.a_row + k, sizeof(float) * static_cast<size_t>(depth));
        }
        for (int64_t j = 0; j < p.columns; j += kColumns) {
            const float* right = b + j * p.b_row + k;
            for (int64_t i = 0; i < p.rows; i += kRows) {
                const float* left = room + i * kRowProductRoom;
                float* at = c + i * p.c_row + j * p.c_column;
                if (p.rows - i == 1) {
                    tile<1>(p, left, right, at, 1, p.columns - j, depth, k > 0);
                } else {
                    tile<kRows>(p, left, right, at, p.rows - i, p.columns - j, depth, k > 0);
                }
            }
        }
    }
}

}  // namespace dgo::DGO_ISA
