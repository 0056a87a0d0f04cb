// Backward weights: windows of src and of diff_dst -> transforms -> one product over tiles per plane -> taps.
#include <omp.h>

#include "filter_code.hpp"
#include "filter_tiles.hpp"

namespace dgo::DGO_ISA {
namespace {

// In channels finished together: a cache line of weights whose in channels are contiguous.
constexpr int64_t kRowBlock = 16;

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
int64_t widest_part(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

// Columns of the products: (segment of diff_dst, out channel), channels fastest, in panels.
struct Sizes {
    int64_t rows, strips, columns, panels, plane;  // plane: accumulators of one plane, [panel][row][kPanel]
};

Sizes sizes_of(const GradientPlan& plan) {
    Sizes s;
    s.strips = widest_part(plan.src.channels, kStrip);
    s.rows = round_up(plan.src.channels, kTileRows);
    s.columns = plan.diff.segments * plan.diff.channels;
    s.panels = widest_part(s.columns, kPanel);
    s.plane = s.rows * s.panels * kPanel;
    return s;
}

// What one thread sums: in channels [row, row_end), panels [panel, panel_end), tiles [tile, tile_end).
struct Share {
    int64_t row, row_end, panel, panel_end, tile, tile_end;
    float* sums;
};

struct Room {
    float *zeros, *wide, *line, *left, *right;
};

Room divide(const GradientPlan& plan, char* scratch, int64_t* bytes) {
    const Sizes s = sizes_of(plan);
    float* at = reinterpret_cast<float*>(scratch);
    int64_t used = 0;
    const auto take = [&](int64_t count) {
        float* part = at + used;
        used += round_up(count, 16);
        return part;
    };
    Room room;
    const int64_t widest = larger(plan.src.channels, plan.diff.run) + kLanes;
    const int64_t panels = widest_part(s.panels, plan.column_parts);
    room.zeros = take(widest);
    room.wide = take(widest * plan.planes);
    room.line = take(plan.planes * (panels * kPanel + kLanes));
    room.left = take(plan.planes * widest_part(s.strips, plan.row_parts) * plan.block * kStrip);
    room.right = take(plan.planes * panels * plan.block * kPanel);
    *bytes = used * static_cast<int64_t>(sizeof(float));
    return room;
}

// The window of diff_dst of one tile -> row `t` of the panels of a share.
void transform_right(const GradientPlan& plan, const Share& share, const TilePlace& p, int64_t t, const char* diff,
                     const Room& room) {
    const Sizes s = sizes_of(plan);
    const SpreadFn transform = find<Transform::window>(window_code(plan.window_shape).code);
    const int64_t panels = share.panel_end - share.panel;
    const int64_t plane = panels * plan.block * kPanel, line = panels * kPanel + kLanes;
    const int64_t begin = share.panel * kPanel, end = smaller(share.panel_end * kPanel, s.columns);
    const bool aligned = plan.diff.run % kPanel == 0;
    const Spread panelled{plane, kPanel, plan.block * kPanel}, linear{line, s.columns, 0};
    for (int64_t column = begin; column < end;) {
        const int64_t run = column / plan.diff.run, from = column % plan.diff.run;
        const int64_t count = smaller(plan.diff.run - from, end - column);
        float* to = aligned ? room.right + ((column - begin) / kPanel * plan.block + t) * kPanel
                            : room.line + column - begin;
        transform_window(plan.diff, diff, p, run, plan.points, from, count, room.zeros, room.wide, transform, to,
                         aligned ? panelled : linear);
        column += count;
    }
    if (aligned) return;
    for (int64_t i = 0; i < plan.planes; ++i) {
        for (int64_t panel = 0; panel < panels; ++panel) {
            float* to = room.right + i * plane + (panel * plan.block + t) * kPanel;
            __builtin_memcpy(to, room.line + i * line + panel * kPanel, kPanel * sizeof(float));
        }
    }
}

void transform_block(const GradientPlan& plan, const Share& share, int64_t first, int64_t count, const char* src,
                     const char* diff, const Room& room) {
    static constexpr Axes kOrigin{{0, 0, 0}};
    const SpreadFn left = find<Transform::filter>(plan.window_shape);
    const int64_t strips = widest_part(share.row_end - share.row, kStrip);
    const Spread spread{strips * plan.block * kStrip, kStrip, plan.block * kStrip};
    for (int64_t t = 0; t < count; ++t) {
        const TilePlace p = place(first + t, plan.tiles, kOrigin, plan.window);
        transform_window(plan.src, src, p, 0, plan.window, share.row, share.row_end - share.row, room.zeros, room.wide,
                         left, room.left + t * kStrip, spread);
        transform_right(plan, share, p, t, diff, room);
    }
}

bool unused(const GradientPlan& plan, int plane, int64_t panel) {
    if (plan.zero == nullptr) return false;
    const int64_t first = panel * kPanel / plan.diff.channels;
    const int64_t last = smaller(((panel + 1) * kPanel - 1) / plan.diff.channels, plan.diff.segments - 1);
    bool all = true;
    for (int64_t s = first; s <= last; ++s) all = all && plan.zero[plane * plan.diff.segments + s];
    return all;
}

void accumulate(const GradientPlan& plan, const Share& share, int64_t count, bool add, const Room& room) {
    const Sizes s = sizes_of(plan);
    const int64_t strips = widest_part(share.row_end - share.row, kStrip);
    const int64_t panels = share.panel_end - share.panel;
    for (int p = 0; p < plan.planes; ++p) {
        for (int64_t panel = 0; panel < panels; ++panel) {
            if (unused(plan, p, share.panel + panel)) continue;
            const float* b = room.right + (p * panels + panel) * plan.block * kPanel;
            float* c = share.sums + p * s.plane + (share.panel + panel) * s.rows * kPanel;
            for (int64_t row = share.row; row < share.row_end; row += kTileRows) {
                const int64_t inside = row - share.row;
                const float* a = room.left + (p * strips + inside / kStrip) * plan.block * kStrip + inside % kStrip;
                tile_product_transposed(a, count, b, c + row * kPanel, kPanel, add);
            }
        }
    }
}

// Adds the sums of the other parts of the tiles to the first's.
void add_parts(const GradientPlan& plan, int64_t panel, float* sums) {
    const Sizes s = sizes_of(plan);
    for (int p = 0; p < plan.planes; ++p) {
        if (unused(plan, p, panel)) continue;
        for (int64_t part = 1; part < plan.tile_parts; ++part) {
            float* to = sums + p * s.plane;
            const float* other = to + part * plan.planes * s.plane;
            for (int64_t c = 0; c < kPanel; ++c) to[c] += other[c];
        }
    }
}

template <class C>
void write_taps(const float* values, int64_t count, int64_t stride, char* to) {
    auto* at = reinterpret_cast<typename C::T*>(to);
    for (int64_t c = 0; c < count; ++c) C::put(at + c * stride, values[c]);
}

// The sums of one in channel and one panel -> taps -> diff_weights.
void finish(const GradientPlan& plan, int64_t row, int64_t panel, float* sums, const float* zeros, char* weights) {
    const Sizes s = sizes_of(plan);
    const GatherFn transform = find<Transform::output>(plan.tap_shape);
    const int64_t length = plan.taps.length[0] * plan.taps.length[1] * plan.taps.length[2];
    float* from = sums + (panel * s.rows + row) * kPanel;
    if (plan.tile_parts > 1) add_parts(plan, panel, from);
    float values[kMaxLength][kPanel];
    float* to[kMaxLength];
    for (int i = 0; i < kMaxLength; ++i) to[i] = values[i];
    transform(from, s.plane, kPanel, zeros, to);
    const int64_t begin = panel * kPanel, end = smaller(begin + kPanel, s.columns);
    for (int64_t column = begin; column < end;) {
        const int64_t channel = column % plan.diff.channels;
        const int64_t channels = smaller(plan.diff.channels - channel, end - column);
        int64_t offset[kMaxLength];
        tap_offsets(plan.taps, plan.tap_strides, column / plan.diff.channels, 0, offset);
        for (int64_t j = 0; j < length; ++j) {
            if (offset[j] < 0) continue;
            const float* at = values[j] + column - begin;
            char* out = weights + (row * plan.in_stride + channel * plan.out_stride + offset[j]) * plan.weights_item;
            if (plan.weights_cell == Cell::bf16) write_taps<Bf16>(at, channels, plan.out_stride, out);
            else if (plan.weights_cell == Cell::f16) write_taps<F16>(at, channels, plan.out_stride, out);
            else write_taps<F32>(at, channels, plan.out_stride, out);
        }
        column += channels;
    }
}

Share share_of(const GradientPlan& plan, int64_t rank, char* scratch) {
    const Sizes s = sizes_of(plan);
    const int64_t tiles = plan.batch * plan.tiles[0] * plan.tiles[1] * plan.tiles[2];
    const int64_t row = rank % plan.row_parts;
    const int64_t column = rank / plan.row_parts % plan.column_parts;
    const int64_t tile = rank / plan.row_parts / plan.column_parts;
    const int64_t strips = widest_part(s.strips, plan.row_parts);
    const int64_t panels = widest_part(s.panels, plan.column_parts);
    Share share;
    share.row = smaller(row * strips * kStrip, plan.src.channels);
    share.row_end = smaller((row + 1) * strips * kStrip, plan.src.channels);
    share.panel = smaller(column * panels, s.panels);
    share.panel_end = smaller((column + 1) * panels, s.panels);
    share.tile = tiles * tile / plan.tile_parts;
    share.tile_end = tiles * (tile + 1) / plan.tile_parts;
    share.sums = reinterpret_cast<float*>(scratch + plan.sums) + tile * plan.planes * s.plane;
    return share;
}

void sum_share(const GradientPlan& plan, const Share& share, const char* src, const char* diff, const Room& room) {
    if (share.row == share.row_end || share.panel == share.panel_end) return;
    for (int64_t first = share.tile; first < share.tile_end; first += plan.block) {
        const int64_t count = smaller(plan.block, share.tile_end - first);
        transform_block(plan, share, first, count, src, diff, room);
        accumulate(plan, share, count, first != share.tile, room);
    }
}

}  // namespace

int64_t gradient_scratch(const GradientPlan& plan) {
    int64_t bytes = 0;
    divide(plan, nullptr, &bytes);
    return bytes;
}

int64_t gradient_sums(const GradientPlan& plan) {
    return plan.tile_parts * plan.planes * sizes_of(plan).plane * static_cast<int64_t>(sizeof(float));
}

void run_gradient(const GradientPlan& plan, const char* src, const char* diff, char* scratch, char* weights) {
    const Sizes s = sizes_of(plan);
    const int64_t blocks = widest_part(plan.src.channels, kRowBlock);
    const int64_t shares = plan.row_parts * plan.column_parts * plan.tile_parts;
    const int64_t widest = larger(plan.src.channels, plan.diff.run) + kLanes;
#pragma omp parallel num_threads(plan.threads)
    {
        int64_t bytes = 0;
        const Room room = divide(plan, scratch + omp_get_thread_num() * plan.scratch_per_thread, &bytes);
        __builtin_memset(room.zeros, 0, static_cast<size_t>(larger(widest, kPanel)) * sizeof(float));
        for (int64_t g = 0; g < plan.channel_groups; ++g) {
            const char* x = src + g * plan.src.channels * plan.src.item;
            const char* y = diff + g * plan.diff.channels * plan.diff.item;
            char* w = weights + g * plan.group_stride * plan.weights_item;
#pragma omp for schedule(dynamic, 1)
            for (int64_t rank = 0; rank < shares; ++rank) sum_share(plan, share_of(plan, rank, scratch), x, y, room);
#pragma omp for schedule(static)
            for (int64_t item = 0; item < blocks * s.panels; ++item) {
                const int64_t row = item / s.panels * kRowBlock;
                for (int64_t r = row; r < smaller(row + kRowBlock, plan.src.channels); ++r) {
                    finish(plan, r, item % s.panels, reinterpret_cast<float*>(scratch + plan.sums), room.zeros, w);
                }
            }
        }
    }
}

}  // namespace dgo::DGO_ISA
