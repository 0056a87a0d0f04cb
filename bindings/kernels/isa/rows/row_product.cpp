// Products of rows: b is read as it lies in memory, once for each block of a's rows, and widened on the way. Few rows of
// a are dot products with those of b; for many, rows of b are put across to panels.
#include "kernels/isa/vector/transpose_panels.hpp"
#include "kernels/isa/product/gemm_tile.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr RowTiles kRowTiles{24, 4, kLanes == 16 ? 6 : 3};
constexpr int kRows = kRowTiles.rows, kColumns = kRowTiles.columns;
constexpr int64_t kPitch = kRowProductDepth + 16;  // floats between rows in scratch: another set of the cache for each
constexpr int64_t kPanelPitch = kPanelDepth + 16;

DGO_INLINE float total(Lanes v) {
    __m256 part[kLanes / 8];
    __builtin_memcpy(part, &v, sizeof(v));
    const __m256 half = kLanes == 8 ? part[0] : _mm256_add_ps(part[0], part[kLanes / 8 - 1]);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

template <class C>
DGO_INLINE const typename C::T* elements(const char* at) {
    return reinterpret_cast<const typename C::T*>(at);
}

// Computes one tile; rows and columns beyond `rows` and `columns` repeat the last one and are not stored.
template <class C, int Rows>
__attribute__((noinline)) void tile(const RowProduct& p, const float* a, const typename C::T* b, float* c, int64_t rows,
                                    int64_t columns, int64_t depth, bool add) {
    const float* left[Rows];
    const typename C::T* right[kColumns];
    for (int64_t i = 0; i < Rows; ++i) left[i] = a + (i < rows ? i : rows - 1) * kPitch;
    for (int64_t j = 0; j < kColumns; ++j) right[j] = b + (j < columns ? j : columns - 1) * p.b.row;
    Lanes sum[Rows][kColumns] = {};
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
        Lanes r[kColumns];
#pragma GCC unroll 8
        for (int j = 0; j < kColumns; ++j) r[j] = load_float<C, kLanes>(right[j] + k);
#pragma GCC unroll 4
        for (int i = 0; i < Rows; ++i) {
            const Lanes l = load_bytes<Lanes>(left[i] + k);
#pragma GCC unroll 8
            for (int j = 0; j < kColumns; ++j) sum[i][j] += l * r[j];
        }
    }
    float rest[Rows][kColumns] = {};
    for (; k < depth; ++k) {
        for (int j = 0; j < kColumns; ++j) {
            const float value = C::get(right[j] + k);
            for (int i = 0; i < Rows; ++i) rest[i][j] += left[i][k] * value;
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

// to[i * pitch + j] = a[i][k + j] for j < depth, in f32.
void widen_rows(const RowProduct& p, const char* a, int64_t k, int64_t depth, float* to, int64_t pitch) {
    with_type(p.a.type, [&](auto c) __attribute__((always_inline)) {
        using C = decltype(c);
        const typename C::T* from = elements<C>(a) + k * p.a.depth;
        if (!p.a.along_depth) {
            transpose_to<C>(from, p.a.depth, p.rows, depth, to, pitch);
            return;
        }
        const auto widen = [&](const typename C::T* row, int64_t count, float* at) __attribute__((always_inline)) {
            int64_t i = 0;
            for (; i + kLanes <= count; i += kLanes) store_bytes(at + i, load_float<C, kLanes>(row + i));
            for (; i < count; ++i) at[i] = C::get(row + i);
        };
        if (p.a.row == depth && pitch == depth) return widen(from, p.rows * depth, to);
        for (int64_t i = 0; i < p.rows; ++i) widen(from + i * p.a.row, depth, to + i * pitch);
    });
}

template <class C>
void dot_products(const RowProduct& p, const char* a, const typename C::T* b, float* c, float* scratch) {
    for (int64_t k = 0; k < p.depth; k += kRowProductDepth) {
        const int64_t depth = p.depth - k < kRowProductDepth ? p.depth - k : kRowProductDepth;
        // Copies rows of a to a pitch at which they share no sets of the caches.
        widen_rows(p, a, k, depth, scratch, kPitch);
        // b comes from memory, once: the tiles that share rows of it fetch the next ones. One tile would only wait.
        const int64_t tiles = ceil_div(p.rows, kRows);
        const int64_t lines = tiles == 1 ? 0 : kColumns * (depth * C::kSize / 64 + 1) / tiles + 1;
        for (int64_t j = 0; j < p.columns; j += kColumns) {
            const typename C::T* right = b + j * p.b.row + k;
            const auto row = [&](int64_t r) { return b + r * p.b.row + k; };
            Fetch fetch{row, j + kColumns, smaller(j + 2 * kColumns, p.columns), depth};
            for (int64_t i = 0; i < p.rows; i += kRows) {
                fetch.lines(lines);
                const float* left = scratch + i * kPitch;
                float* at = c + i * p.c_row + j * p.c_column;
                if (p.rows - i == 1) {
                    tile<C, 1>(p, left, right, at, 1, p.columns - j, depth, p.add || k > 0);
                } else {
                    tile<C, kRows>(p, left, right, at, p.rows - i, p.columns - j, depth, p.add || k > 0);
                }
            }
        }
    }
}

// ---- few rows of a, b contiguous across the depth: sums of several vectors of b's rows stay in registers ----

constexpr int64_t kAcrossDepth = 48;  // the depth at once: far rows of b share few sets of the first cache

// Computes a tile of `columns` columns; rows beyond `rows` repeat the last row and are not stored.
template <class C, int Rows, int Vectors>
__attribute__((noinline)) void tile_across(const RowProduct& p, const float* a, const typename C::T* b, int64_t step,
                                           float* c, int64_t rows, int64_t columns, int64_t depth, bool add) {
    const float* left[Rows];
    for (int64_t i = 0; i < Rows; ++i) left[i] = a + smaller(i, rows - 1) * kPitch;
    Lanes sum[Rows][Vectors] = {};
    for (int64_t k = 0; k < depth; ++k, b += step) {
        Lanes right[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) right[v] = load_float<C, kLanes>(b + v * kLanes);
        // fetches the rows of the next tile
        _mm_prefetch(reinterpret_cast<const char*>(b + Vectors * kLanes), _MM_HINT_T1);
#pragma GCC unroll 8
        for (int i = 0; i < Rows; ++i) {
            const Lanes value = broadcast(left[i][k]);
#pragma GCC unroll 4
            for (int v = 0; v < Vectors; ++v) multiply_add(sum[i][v], value, right[v]);
        }
    }
    // sums that were read by a number known later would be in memory all along
    Lanes found[Rows][Vectors];
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) found[i][v] = sum[i][v];
    }
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t v = 0; v < Vectors; ++v) {
            float* at = c + i * p.c_row + v * kLanes * p.c_column;
            if (p.c_column == 1 && columns == Vectors * kLanes) {
                store_bytes(at, add ? load_bytes<Lanes>(at) + found[i][v] : found[i][v]);
                continue;
            }
            float value[kLanes];
            store_bytes(value, found[i][v]);
            for (int64_t j = 0; j < smaller(kLanes, columns - v * kLanes); ++j) {
                at[j * p.c_column] = add ? at[j * p.c_column] + value[j] : value[j];
            }
        }
    }
}

// Computes all rows and columns in tiles of Rows rows and Vectors vectors of columns.
template <class C, int Rows, int Vectors>
void tiles_across(const RowProduct& p, const float* a, const typename C::T* b, float* c, int64_t depth, bool add) {
    constexpr int64_t kWide = Vectors * kLanes;
    const auto all_rows = [&](auto multiply, auto* right, int64_t step, int64_t j,
                              int64_t columns) __attribute__((always_inline)) {
        for (int64_t i = 0; i < p.rows; i += Rows) {
            float* at = c + i * p.c_row + j * p.c_column;
            multiply(p, a + i * kPitch, right, step, at, smaller(Rows, p.rows - i), columns, depth, add);
        }
    };
    int64_t j = 0;
    for (; j + kWide <= p.columns; j += kWide) all_rows(tile_across<C, Rows, Vectors>, b + j, p.b.depth, j, kWide);
    for (; j < p.columns; j += kLanes) {
        const int64_t columns = smaller(kLanes, p.columns - j);
        if (columns == kLanes) {
            all_rows(tile_across<C, Rows, 1>, b + j, p.b.depth, j, columns);
            continue;
        }
        // no vector may reach beyond the last columns
        alignas(64) uint32_t rest[kAcrossDepth * kLanes] = {};
        for (int64_t k = 0; k < depth; ++k) {
            for (int64_t r = 0; r < columns; ++r) F32::put(rest + k * kLanes + r, C::get(b + k * p.b.depth + j + r));
        }
        all_rows(tile_across<F32, Rows, 1>, static_cast<const F32::T*>(rest), kLanes, j, columns);
    }
}

template <class C>
void products_across(const RowProduct& p, const char* a, const typename C::T* b, float* c, float* scratch) {
    constexpr int kHalf = kLanes == 16 ? 1 : 2;
    for (int64_t k = 0; k < p.depth; k += kAcrossDepth) {
        const int64_t depth = smaller(kAcrossDepth, p.depth - k);
        widen_rows(p, a, k, depth, scratch, kPitch);
        const auto multiply = p.rows <= 4 ? tiles_across<C, 4, 4 / kHalf> : tiles_across<C, 8, 2 / kHalf>;
        multiply(p, scratch, b + k * p.b.depth, c, depth, p.add || k > 0);
    }
}

// ---- many rows of a -------------------------------------------------------------------------------------------

// Fetches the next rows of b, which come from memory.
template <class C>
struct Next {
    const typename C::T* at;
    int64_t rows, row, depth;

    // Returns the rows that the tile at row i of `count` fetches: one row in parts, others whole.
    Ahead part(int64_t i, int64_t count) const {
        const int64_t tiles = ceil_div(count, kTileRows), tile = i / kTileRows;
        const int64_t begin = rows * tile / tiles, end = rows * (tile + 1) / tiles;
        if (begin == end) return {reinterpret_cast<const char*>(at), 0};
        Fetch others{[this](int64_t r) { return at + r * row; }, begin + 1, end, depth};
        others.lines((end - begin) * (depth * C::kSize / 64 + 1));
        return {reinterpret_cast<const char*>(at + begin * row), C::kSize};
    }
};

// Multiplies all rows of a by a panel, by way of `sums` where c's columns do not follow each other.
template <int kVectors, class C>
void multiply_panel(const RowProduct& p, const float* const* row, int64_t depth, const float* panel, float* sums,
                    float* c, int64_t columns, bool add, const Next<C>& next) {
    alignas(64) static const float zeros[kPanel] = {};
    const bool straight = p.c_column == 1 && columns == kVectors * kLanes;
    const Span span{0, 0, depth};
    for (int64_t i = 0; i < p.rows; i += kTileRows) {
        float* to[kTileRows];
        for (int64_t r = 0; r < kTileRows; ++r) {
            const int64_t at = smaller(i + r, p.rows - 1);
            to[r] = straight ? c + at * p.c_row : sums + at * kPanel;
        }
        const float* start = straight && add ? nullptr : zeros;
        tile_of<kVectors>(p.rows - i)(row + i, 1, &span, 1, depth, panel, start, to, next.part(i, p.rows), {});
    }
    for (int64_t i = 0; !straight && i < p.rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
            float* at = c + i * p.c_row + j * p.c_column;
            *at = add ? *at + sums[i * kPanel + j] : sums[i * kPanel + j];
        }
    }
}

// Packs columns of b, k from 0 to `depth`, as panels one after the other.
template <class C>
void pack_panels(const RowProduct& p, const typename C::T* b, int64_t depth, int64_t columns, float* panels) {
    const int64_t size = depth * kPanel, filled = columns % kPanel, pitch = panel_pitch(filled);
    // columns beyond the last: what is left in memory may be denormal numbers, which take long to multiply
    float* rest = panels + columns / kPanel * size;
    for (int64_t k = 0; filled % kLanes > 0 && k < depth; ++k, rest += pitch) {
        for (int64_t j = filled; j < round_up(filled, kLanes); ++j) rest[j] = 0.0f;
    }
    if (p.b.along_depth) {
        for (int64_t j = 0; j < columns; j += kPanel, panels += size) {
            transpose_to<C>(b + j * p.b.row, p.b.row, depth, smaller(kPanel, columns - j), panels,
                            panel_pitch(columns - j));
        }
        return;
    }
    // in memory's order
    for (int64_t k = 0; k < depth; ++k, b += p.b.depth) {
        for (int64_t first = 0; first < columns; first += kPanel) {
            float* to = panels + first / kPanel * size + k * panel_pitch(columns - first);
            const typename C::T* from = b + first;
            const int64_t count = smaller(kPanel, columns - first);
            int64_t j = 0;
            for (; j + kLanes <= count; j += kLanes) store_bytes(to + j, load_float<C, kLanes>(from + j));
            for (; j < count; ++j) to[j] = C::get(from + j);
        }
    }
}

constexpr int64_t kMostTiled = kRowProductRows + kTileRows;  // rows, and a tile that is not full

constexpr int64_t kPackedFloats = 64 * 1024;  // panels that stay in the second cache while tiles of rows pass by

struct PanelScratch {
    float *panels, *sums, *wide;
    static constexpr int64_t kFloats = kPackedFloats + kMostTiled * (kPanel + kPanelPitch);

    explicit PanelScratch(float* scratch)
        : panels(scratch), sums(panels + kPackedFloats), wide(sums + kMostTiled * kPanel) {}
};
static_assert(kPackedFloats >= kPanelDepth * kPanel, "one panel at least");

template <class C>
void panel_products(const RowProduct& p, const char* a, const typename C::T* b, float* c, const PanelScratch& scratch) {
    const float* row[kMostTiled];  // the last one repeated for a register tile
    const bool in_place = p.a.type == ElementType::f32 && p.a.along_depth;
    // Packs whole lines, many columns at a time, where columns are contiguous in memory.
    const int64_t most = p.b.along_depth ? kPanelDepth : kPanelDepth / 4;
    for (int64_t k = 0; k < p.depth; k += most) {
        const int64_t depth = smaller(most, p.depth - k), size = depth * kPanel;
        const int64_t together = p.b.along_depth ? kPanel : kPackedFloats / size * kPanel;
        const float* left = in_place ? reinterpret_cast<const float*>(a) + k : scratch.wide;
        const int64_t pitch = in_place ? p.a.row : kPanelPitch;
        if (!in_place) widen_rows(p, a, k, depth, scratch.wide, pitch);
        for (int64_t i = 0; i < kMostTiled; ++i) row[i] = left + smaller(i, p.rows - 1) * pitch;
        for (int64_t j = 0; j < p.columns; j += kPanel) {
            const typename C::T* right = b + j * p.b.row + k * p.b.depth;
            const int64_t columns = smaller(kPanel, p.columns - j);
            const int64_t following = p.b.along_depth ? larger(0, smaller(kPanel, p.columns - j - kPanel)) : 0;
            const Next<C> next{right + kPanel * p.b.row, following, p.b.row, depth};
            if (j % together == 0) {
                pack_panels<C>(p, right, depth, smaller(together, p.columns - j), scratch.panels);
            }
            const float* panel = scratch.panels + j % together / kPanel * size;
            const auto multiply = columns > kLanes ? multiply_panel<kTileVectors, C> : multiply_panel<1, C>;
            multiply(p, row, depth, panel, scratch.sums, c + j * p.c_column, columns, p.add || k > 0, next);
        }
    }
}

// Computes a register tile and rounds it as it is stored; only row_count rows and `columns` columns exist: the last row
// is repeated.
template <class D, int Vectors>
__attribute__((noinline)) void tile_whole(const float* rows, int64_t pitch, const float* panel, int64_t depth,
                                          typename D::T* c, int64_t c_row, int64_t row_count, int64_t columns) {
    const float* left[kTileRows];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kTileRows; ++i) left[i] = rows + smaller(i, row_count - 1) * pitch;
    Lanes sum[kTileRows][Vectors] = {};
    constexpr int64_t kRow = panel_pitch(Vectors * kLanes);
    int64_t k = 0;
    for (; k + kSteps <= depth; k += kSteps, panel += kSteps * kRow) {
#pragma GCC unroll 8
        for (int u = 0; u < kSteps; ++u) tile_step(left, k + u, panel + u * kRow, sum);
    }
    for (; k < depth; ++k, panel += kRow) tile_step(left, k, panel, sum);
    const bool full = columns == Vectors * kLanes;
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
        if (i >= row_count) break;
        typename D::T* at = c + i * c_row;
        if (full) {
#pragma GCC unroll 2
            for (int v = 0; v < Vectors; ++v) store_float<D, kLanes>(at + v * kLanes, sum[i][v]);
            continue;
        }
        float some[Vectors * kLanes];
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) store_bytes(some + v * kLanes, sum[i][v]);
        for (int64_t j = 0; j < columns; ++j) D::put(at + j, some[j]);
    }
}

// Computes c in one pass over the depth, by tiles of rows: each task writes its rows of c from end to end.
template <class C, class D>
void whole_products(const RowProduct& p, const char* a, const typename C::T* b, typename D::T* c,
                    const PanelScratch& scratch) {
    const int64_t pitch = p.a.row == p.depth ? p.depth : kPanelPitch, size = p.depth * kPanel;
    widen_rows(p, a, 0, p.depth, scratch.wide, pitch);
    const int64_t together = kPackedFloats / size * kPanel;
    for (int64_t first = 0; first < p.columns; first += together) {
        const int64_t end = smaller(first + together, p.columns);
        pack_panels<C>(p, b + first * p.b.row, p.depth, end - first, scratch.panels);
        for (int64_t i = 0; i < p.rows; i += kTileRows) {
            const float* panel = scratch.panels;
            for (int64_t j = first; j < end; j += kPanel, panel += size) {
                const int64_t columns = smaller(kPanel, end - j);
                const auto tile = columns > kLanes ? tile_whole<D, kTileVectors> : tile_whole<D, 1>;
                tile(scratch.wide + i * pitch, pitch, panel, p.depth, c + i * p.c_row + j, p.c_row,
                     smaller(kTileRows, p.rows - i), columns);
            }
        }
    }
}

int64_t scratch_floats() { return larger(kRowTiles.few * kPitch, PanelScratch::kFloats); }

void product(const RowProduct& p, const char* a, const char* b, char* c, float* scratch) {
    with_type(p.b.type, [&](auto type) __attribute__((always_inline)) {
        using C = decltype(type);
        float* sums = reinterpret_cast<float*>(c);
        if (p.b.along_depth && p.rows < kRowTiles.few) return dot_products<C>(p, a, elements<C>(b), sums, scratch);
        if (!p.b.along_depth && p.rows <= kRowsAcross) return products_across<C>(p, a, elements<C>(b), sums, scratch);
        const PanelScratch panels(scratch);
        const bool in_place = p.a.type == ElementType::f32 && p.a.along_depth;
        if (p.add || p.depth > kPanelDepth || p.c_column != 1 || (in_place && p.c_type == ElementType::f32))
            panel_products<C>(p, a, elements<C>(b), sums, panels);
        else
            with_type(p.c_type, [&](auto result) __attribute__((always_inline)) {
                using D = decltype(result);
                whole_products<C, D>(p, a, elements<C>(b), reinterpret_cast<typename D::T*>(c), panels);
            });
    });
}

}  // namespace

const RowCode kRowCode = {scratch_floats, product, kRowTiles};

}  // namespace dgo::DGO_ISA
