// Products of rows: both factors are read as they lie in memory, b once for each block of a's rows. Few rows of a are
// dot products with those of b; for many, rows of b are transposed to panels on the way.
#include "kernels/isa/filtering/transpose_panels.hpp"
#include "kernels/isa/gemm_tile.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr RowTiles kRowTiles{24, 4, kLanes == 16 ? 6 : 3};
constexpr int kRows = kRowTiles.rows, kColumns = kRowTiles.columns;

DGO_INLINE float total(Lanes v) {
    __m256 part[kLanes / 8];
    __builtin_memcpy(part, &v, sizeof(v));
    const __m256 half = kLanes == 8 ? part[0] : _mm256_add_ps(part[0], part[kLanes / 8 - 1]);
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
    for (int64_t i = 0; i < Rows; ++i) left[i] = a + (i < rows ? i : rows - 1) * kRowProductPitch;
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

constexpr int64_t kPanelDepth = 512;  // transposed at once

void dot_products(const RowProduct& p, const float* a, const float* b, float* c, float* scratch) {
    for (int64_t k = 0; k < p.depth; k += kRowProductDepth) {
        const int64_t depth = p.depth - k < kRowProductDepth ? p.depth - k : kRowProductDepth;
        // Rows of a may lie such that they push each other out of the caches; these do not.
        for (int64_t i = 0; i < p.rows; ++i) {
            const auto bytes = sizeof(float) * static_cast<size_t>(depth);
            __builtin_memcpy(scratch + i * kRowProductPitch, a + i * p.a_row + k, bytes);
        }
        // b comes from memory, once: the tiles that share rows of it fetch the next ones. One tile would only wait.
        const int64_t tiles = ceil_div(p.rows, kRows);
        const int64_t lines = tiles == 1 ? 0 : kColumns * (depth / 16 + 1) / tiles + 1;
        for (int64_t j = 0; j < p.columns; j += kColumns) {
            const float* right = b + j * p.b_row + k;
            const auto row = [&](int64_t r) { return b + r * p.b_row + k; };
            Fetch fetch{row, j + kColumns, smaller(j + 2 * kColumns, p.columns), depth};
            for (int64_t i = 0; i < p.rows; i += kRows) {
                fetch.lines(lines);
                const float* left = scratch + i * kRowProductPitch;
                float* at = c + i * p.c_row + j * p.c_column;
                if (p.rows - i == 1) {
                    tile<1>(p, left, right, at, 1, p.columns - j, depth, p.add || k > 0);
                } else {
                    tile<kRows>(p, left, right, at, p.rows - i, p.columns - j, depth, p.add || k > 0);
                }
            }
        }
    }
}

// The next rows of b, which come from memory.
struct Next {
    const float* at;
    int64_t rows, row, depth;

    // What the tile at i of `count` rows is to fetch: one of them bit by bit, any others at once.
    Ahead part(int64_t i, int64_t count) const {
        const int64_t tiles = ceil_div(count, kTileRows), tile = i / kTileRows;
        const int64_t begin = rows * tile / tiles, end = rows * (tile + 1) / tiles;
        if (begin == end) return {reinterpret_cast<const char*>(at), 0};
        Fetch others{[this](int64_t r) { return at + r * row; }, begin + 1, end, depth};
        others.lines((end - begin) * (depth / 16 + 1));
        return {reinterpret_cast<const char*>(at + begin * row), sizeof(float)};
    }
};

// A panel times all rows of a, by way of `sums` where c's columns do not follow each other.
void multiply_panel(const RowProduct& p, const float* const* row, int64_t depth, const float* panel, float* sums,
                    float* c, int64_t columns, bool add, const Next& next) {
    alignas(64) static const float zeros[kPanel] = {};
    const bool straight = p.c_column == 1 && columns == kPanel;
    const Span span{0, 0, depth};
    for (int64_t i = 0; i < p.rows; i += kTileRows) {
        float* to[kTileRows];
        for (int64_t r = 0; r < kTileRows; ++r) {
            const int64_t at = smaller(i + r, p.rows - 1);
            to[r] = straight ? c + at * p.c_row : sums + at * kPanel;
        }
        const float* start = straight && add ? nullptr : zeros;
        tile_product(row + i, 1, &span, 1, depth, panel, start, to, next.part(i, p.rows));
    }
    for (int64_t i = 0; !straight && i < p.rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
            float* at = c + i * p.c_row + j * p.c_column;
            *at = add ? *at + sums[i * kPanel + j] : sums[i * kPanel + j];
        }
    }
}

void panel_products(const RowProduct& p, const float* a, const float* b, float* c, float* scratch) {
    float *panel = scratch, *sums = scratch + kPanelDepth * kPanel;
    const float* row[kRowProductRows + kTileRows];  // the last one repeated for a register tile
    for (int64_t k = 0; k < p.depth; k += kPanelDepth) {
        const int64_t depth = smaller(kPanelDepth, p.depth - k);
        for (int64_t i = 0; i < p.rows + kTileRows; ++i) row[i] = a + smaller(i, p.rows - 1) * p.a_row + k;
        for (int64_t j = 0; j < p.columns; j += kPanel) {
            const float* right = b + j * p.b_row + k;
            const int64_t columns = smaller(kPanel, p.columns - j);
            transpose_to<F32>(reinterpret_cast<const F32::T*>(right), p.b_row, depth, columns, panel, kPanel);
            const int64_t following = larger(0, smaller(kPanel, p.columns - j - kPanel));
            const Next next{right + kPanel * p.b_row, following, p.b_row, depth};
            multiply_panel(p, row, depth, panel, sums, c + j * p.c_column, columns, p.add || k > 0, next);
        }
    }
}

int64_t scratch_floats() {
    return larger(kRowProductRows * kRowProductPitch, (kPanelDepth + kRowProductRows) * kPanel);
}

void product(const RowProduct& p, const float* a, const float* b, float* c, float* scratch) {
    if (p.rows < kRowTiles.few)
        dot_products(p, a, b, c, scratch);
    else
        panel_products(p, a, b, c, scratch);
}

}  // namespace

const RowCode kRowCode = {scratch_floats, product, kRowTiles};

}  // namespace dgo::DGO_ISA
