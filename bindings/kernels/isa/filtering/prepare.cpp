// Weights -> their transform, packed in panels of columns for the products.
#include <omp.h>

#include "kernels/isa/filtering/transforms.hpp"
#include "kernels/isa/filtering/transpose_panels.hpp"
#include "kernels/isa/filtering/vtable.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kTransposedFloats = 4096;  // of a task, where the panels leave the choice: half a first cache level
constexpr int64_t kCachedWeights = 1 << 18;
constexpr int64_t kFetched = 3;  // rows ahead

// `count` consecutive columns of a panel: channels of one target.
struct Piece {
    int64_t target, channel, column, count;
};

// Weights as f32 whose columns are contiguous: [tap][row][column], columns from `first` on.
struct Columns {
    const float* at;
    int64_t first, row_stride;
    Axes tap_strides;
};

int64_t tap_count(const PreparePlan& plan) { return plan.kernel[0] * plan.kernel[1] * plan.kernel[2]; }

Axes dense_taps(const PreparePlan& plan, int64_t step) {
    return Axes{{plan.kernel[1] * plan.kernel[2] * step, plan.kernel[2] * step, step}};
}

// Rows of a task.
int64_t row_block(const PreparePlan& plan) { return tap_count(plan) > 256 ? 8 : 16; }

// The taps of one pair of channels lie together: they are read together, too, unless the weights stay in the cache from
// one tap to the next and whole vectors of taps do not become whole panels.
bool taps_together(const PreparePlan& plan) {
    const bool cached = tap_count(plan) * plan.n * plan.k < kCachedWeights;
    const bool even = tap_count(plan) % kLanes == 0 && plan.n % kPanel == 0;
    if (tap_count(plan) < 8 || (cached && !even)) return false;
    const Axes dense = dense_taps(plan, 1);
    for (int a = 0; a < kFilterAxes; ++a) {
        if (plan.kernel[a] > 1 && plan.tap_strides[a] != dense[a]) return false;
    }
    return plan.k_stride != 1 && plan.n_stride != 1;
}

// Columns of one task: a part of each target, in whole panels, or all.
int64_t column_block(const PreparePlan& plan) {
    if (plan.n % kPanel != 0) return plan.n;
    const int64_t most = kTransposedFloats / (tap_count(plan) * row_block(plan)) / kPanel * kPanel;
    return smaller(plan.n, larger(most, kPanel));
}

int64_t padded_block(const PreparePlan& plan) { return round_up(column_block(plan), 8); }

// Calls run(cell, weights) for the type of the weights.
template <class Run>
DGO_INLINE void with_cell(Cell cell, const char* weights, Run&& run) {
    if (cell == Cell::bf16) run(Bf16{}, reinterpret_cast<const Bf16::T*>(weights));
    else if (cell == Cell::f16) run(F16{}, reinterpret_cast<const F16::T*>(weights));
    else run(F32{}, reinterpret_cast<const F32::T*>(weights));
}

// `rows` rows and `columns` columns of one tap: to[row * kPanel + column].
template <class C>
void read_tap(const PreparePlan& plan, const typename C::T* from, int64_t rows, int64_t columns, float* to) {
    if (plan.k_stride == 1) {
        transpose_to<C>(from, plan.n_stride, rows, columns, to, kPanel);
        return;
    }
    for (int64_t row = 0; row < rows; ++row, from += plan.k_stride, to += kPanel) {
        int64_t c = 0;
        for (; plan.n_stride == 1 && c + kLanes <= columns; c += kLanes) {
            store_bytes(to + c, load_float<C, kLanes>(from + c));
        }
        for (; c < columns; ++c) to[c] = C::get(from + c * plan.n_stride);
    }
}

// One row of a panel: the direct form only passes it on.
DGO_INLINE void put_row(SpreadFn transform, const PreparePlan& plan, const float* const* from, float* to,
                        const Spread& spread) {
    if (plan.planes > 1) return transform(from, kPanel, to, spread);
    for (int64_t c = 0; c < kPanel; c += kLanes) store_bytes(to + c, load_bytes<Lanes>(from[0] + c));
}

// One segment of one panel, read tap by tap.
void pack_taps(const PreparePlan& plan, const char* weights, int64_t segment, const Piece* pieces,
               int64_t piece_count, float* to, const Spread& spread) {
    const SpreadFn transform = filter_transform(plan.shape);
    const int64_t length = plan.taps.length[0] * plan.taps.length[1] * plan.taps.length[2];
    constexpr int64_t kRows = 16;
    alignas(64) float taps[kMaxLength][kRows * kPanel];
    const float* from[kMaxLength];
    int64_t offset[kPanel][kMaxLength];
    __builtin_memset(taps, 0, static_cast<size_t>(length) * sizeof(taps[0]));
    for (int64_t i = 0; i < piece_count; ++i) {
        tap_offsets(plan.taps, plan.tap_strides, segment, pieces[i].target, offset[i]);
    }
    for (int64_t k = 0; k < plan.k; k += kRows) {
        const int64_t rows = smaller(kRows, plan.k - k);
        for (int64_t i = 0; i < piece_count; ++i) {
            const int64_t start = pieces[i].channel * plan.n_stride + k * plan.k_stride;
            for (int64_t j = 0; j < length; ++j) {
                if (offset[i][j] < 0) continue;
                with_cell(plan.cell, weights + (start + offset[i][j]) * plan.item, [&](auto cell, const auto* at) {
                    read_tap<decltype(cell)>(plan, at, rows, pieces[i].count, taps[j] + pieces[i].column);
                });
            }
        }
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t j = 0; j < length; ++j) from[j] = taps[j] + row * kPanel;
            put_row(transform, plan, from, to + (k + row) * kPanel, spread);
        }
    }
}

// `rows` rows of one segment of one panel.
void pack_segment(const PreparePlan& plan, const Columns& columns, int64_t segment, const Piece* pieces,
                  int64_t piece_count, int64_t rows, float* to, const Spread& spread) {
    const SpreadFn transform = filter_transform(plan.shape);
    const int64_t length = plan.taps.length[0] * plan.taps.length[1] * plan.taps.length[2];
    alignas(64) float taps[kMaxLength][kPanel];
    __builtin_memset(taps, 0, static_cast<size_t>(length) * sizeof(taps[0]));
    alignas(64) static const float zeros[kPanel] = {};
    const float* from[kMaxLength];
    int64_t offset[kPanel][kMaxLength];
    for (int64_t i = 0; i < piece_count; ++i) {
        tap_offsets(plan.taps, columns.tap_strides, segment, pieces[i].target, offset[i]);
    }
    // What follows the last channel of one target fills its panel up, and is never asked for.
    const bool whole = piece_count == 1;
    if (whole && plan.planes == 1) {
        const int64_t at = offset[0][0] + pieces[0].channel - columns.first;
        for (int64_t k = 0; k < rows; ++k) {
            // where the next segment goes
            __builtin_prefetch(to + (plan.k + k) * kPanel, 1);
            const float* row = offset[0][0] < 0 ? zeros : columns.at + k * columns.row_stride + at;
            put_row(transform, plan, &row, to + k * kPanel, spread);
        }
        return;
    }
    for (int64_t k = 0; k < rows; ++k) {
        const float* row = columns.at + k * columns.row_stride;
        for (int64_t j = 0; j < length; ++j) {
            if (whole) {
                from[j] = offset[0][j] < 0 ? zeros : row + offset[0][j] + pieces[0].channel - columns.first;
                continue;
            }
            from[j] = taps[j];
            for (int64_t i = 0; i < piece_count; ++i) {
                const Piece& piece = pieces[i];
                if (offset[i][j] < 0) continue;
                const float* at = row + offset[i][j] + piece.channel - columns.first;
                for (int64_t c = 0; c < piece.count; ++c) taps[j][piece.column + c] = at[c];
            }
        }
        put_row(transform, plan, from, to + k * kPanel, spread);
    }
}

int64_t panel_pieces(const PreparePlan& plan, const TileGroup& group, int64_t panel, Piece* pieces) {
    const int64_t end = smaller((panel + 1) * kPanel, group.target_count * plan.n);
    int64_t count = 0;
    for (int64_t c = panel * kPanel; c < end;) {
        const int64_t channel = c % plan.n, width = smaller(plan.n - channel, end - c);
        pieces[count++] = {group.targets[c / plan.n], channel, c - panel * kPanel, width};
        c += width;
    }
    return count;
}

int64_t segment_count(const PreparePlan& plan) {
    return plan.taps.segments[0] * plan.taps.segments[1] * plan.taps.segments[2];
}

int64_t panel_count(const PreparePlan& plan, const TileGroup& group) {
    return ceil_div(group.target_count * plan.n, kPanel);
}

void pack_panel(const PreparePlan& plan, const TileGroup& group, const Columns& columns, int64_t panel, int64_t k,
                int64_t rows, float* packed) {
    const int64_t segments = segment_count(plan), depth = segments * plan.k;
    Piece pieces[kPanel];
    const int64_t count = panel_pieces(plan, group, panel, pieces);
    const Spread spread{panel_count(plan, group) * depth * kPanel, kPanel, 0};
    for (int64_t s = 0; s < segments; ++s) {
        float* to = packed + group.packed + (panel * depth + s * plan.k + k) * kPanel;
        pack_segment(plan, columns, s, pieces, count, rows, to, spread);
    }
}

// Rows from `k` and a block of columns from `n` on of one group of channels: all taps are transposed, then packed.
void prepare_block(const PreparePlan& plan, const char* weights, int64_t k, int64_t n, float* room, float* packed) {
    const int64_t rows = smaller(row_block(plan), plan.k - k), stride = padded_block(plan);
    const int64_t block = column_block(plan), width = smaller(block, plan.n - n), all = row_block(plan) * stride;
    with_cell(plan.cell, weights + (k * plan.k_stride + n * plan.n_stride) * plan.item, [&](auto cell, const auto* at) {
        for (int64_t row = 0; row < rows; ++row) {
            // Columns are far apart: nobody else fetches their next lines.
            const auto* later = at + (row + kFetched) * plan.k_stride;
            for (int64_t c = 0; c < width; ++c) {
                _mm_prefetch(reinterpret_cast<const char*>(later + c * plan.n_stride), _MM_HINT_T0);
            }
            transpose_to<decltype(cell)>(at + row * plan.k_stride, plan.n_stride, tap_count(plan), width,
                                         room + row * stride, all);
        }
    });
    const Columns columns{room, n, stride, dense_taps(plan, all)};
    for (const TileGroup* group = plan.groups; group != plan.groups + plan.group_count; ++group) {
        if (block == plan.n) {
            const int64_t panels = panel_count(plan, *group);
            for (int64_t panel = 0; panel < panels; ++panel) pack_panel(plan, *group, columns, panel, k, rows, packed);
            continue;
        }
        for (int64_t target = 0; target < group->target_count; ++target) {
            for (int64_t c = n; c < n + width; c += kPanel) {
                pack_panel(plan, *group, columns, (target * plan.n + c) / kPanel, k, rows, packed);
            }
        }
    }
}

void prepare_together(const PreparePlan& plan, const char* weights, float* room, float* packed) {
    const int64_t rows = row_block(plan), columns = column_block(plan);
    const int64_t blocks = ceil_div(plan.n, columns), row_blocks = ceil_div(plan.k, rows);
#pragma omp parallel for schedule(static) num_threads(plan.threads)
    for (int64_t task = 0; task < plan.channel_groups * row_blocks * blocks; ++task) {
        const int64_t g = task / (row_blocks * blocks), row = task % row_blocks, column = task / row_blocks % blocks;
        prepare_block(plan, weights + g * plan.group_stride * plan.item, row * rows, column * columns,
                      room + omp_get_thread_num() * prepare_room(plan), packed + g * plan.packed);
    }
}

void prepare_by_tap(const PreparePlan& plan, const char* weights, float* packed) {
    const int64_t segments = segment_count(plan), depth = segments * plan.k;
    for (int64_t g = 0; g < plan.channel_groups * plan.group_count; ++g) {
        const TileGroup& group = plan.groups[g % plan.group_count];
        const int64_t panels = panel_count(plan, group);
        const Spread spread{panels * depth * kPanel, kPanel, 0};
        const char* from = weights + g / plan.group_count * plan.group_stride * plan.item;
        float* to = packed + g / plan.group_count * plan.packed + group.packed;
#pragma omp parallel for schedule(static) num_threads(plan.threads)
        for (int64_t task = 0; task < panels * segments; ++task) {
            // The panels of a segment one after the other share pages of the weights.
            const int64_t panel = task % panels, segment = task / panels;
            Piece pieces[kPanel];
            const int64_t count = panel_pieces(plan, group, panel, pieces);
            pack_taps(plan, from, segment, pieces, count, to + (panel * depth + segment * plan.k) * kPanel, spread);
        }
    }
}

}  // namespace

int64_t prepare_room(const PreparePlan& plan) {
    return taps_together(plan) ? tap_count(plan) * row_block(plan) * padded_block(plan) + kPanel : 0;
}

void run_prepare(const PreparePlan& plan, const char* weights, float* room, float* packed) {
    if (taps_together(plan)) prepare_together(plan, weights, room, packed);
    else prepare_by_tap(plan, weights, packed);
}

}  // namespace dgo::DGO_ISA
