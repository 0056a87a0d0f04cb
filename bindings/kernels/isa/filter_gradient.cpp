// Backward weights: windows of src and of diff_dst -> transforms -> one product over tiles per plane -> taps.
#include <omp.h>

#include "filter_code.hpp"
#include "filter_tiles.hpp"

namespace dgo::DGO_ISA {
namespace {

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// What one thread sums: in channels [row, row_end), panels [panel, panel_end) of all (phase, out channel) panels.
struct Share {
    int64_t row, row_end, panel, panel_end;
    int64_t tile, tile_end;
    float* sums;
};

struct Sizes {
    int64_t rows, strips, panels, phase_panels, columns, plane;  // plane: accumulators of one plane
};

Sizes sizes_of(const GradientPlan& plan) {
    Sizes s;
    s.strips = (plan.src.channels + kStrip - 1) / kStrip;
    s.rows = round_up(plan.src.channels, kTileRows);
    s.phase_panels = (plan.diff.channels + kPanel - 1) / kPanel;
    s.panels = s.phase_panels * plan.diff.segments;
    s.columns = s.panels * kPanel;
    s.plane = s.rows * s.columns;
    return s;
}

struct Room {
    float *zeros, *wide, *left, *right;
};

int64_t widest_part(int64_t count, int64_t parts) { return (count + parts - 1) / parts; }

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
    const int64_t widest = larger(plan.src.channels, plan.diff.channels) + kLanes;
    room.zeros = take(widest);
    room.wide = take(widest * plan.planes);
    room.left = take(plan.planes * widest_part(s.strips, plan.row_parts) * plan.block * kStrip);
    room.right = take(plan.planes * widest_part(s.panels, plan.column_parts) * plan.block * kPanel);
    *bytes = used * static_cast<int64_t>(sizeof(float));
    return room;
}

void transform_block(const GradientPlan& plan, const Share& share, int64_t first, int64_t count, const char* src,
                                          const char* diff, const Room& room) {
    static constexpr Axes kOrigin{{0, 0, 0}};
    const Sizes s = sizes_of(plan);
    const SpreadFn left = find<Transform::filter>(plan.window_shape);
    const SpreadFn right = find<Transform::window>(window_code(plan.window_shape).code);
    const int64_t strips = (share.row_end - share.row + kStrip - 1) / kStrip;
    const int64_t panels = share.panel_end - share.panel;
    const Spread left_spread{strips * plan.block * kStrip, kStrip, plan.block * kStrip};
    const Spread right_spread{panels * plan.block * kPanel, kPanel, plan.block * kPanel};
    for (int64_t t = 0; t < count; ++t) {
        const TilePlace p = place(first + t, plan.tiles, kOrigin, plan.window);
        transform_window(plan.src, src + share.row * plan.src.item, p, 0, plan.window, share.row_end - share.row,
                                          room.zeros, room.wide, left, room.left + t * kStrip, left_spread);
        for (int64_t panel = share.panel; panel < share.panel_end;) {
            const int64_t phase = panel / s.phase_panels, inside = panel % s.phase_panels;
            const int64_t end = smaller((phase + 1) * s.phase_panels, share.panel_end);
            const int64_t channel = inside * kPanel;
            const int64_t channels = smaller((end - panel) * kPanel, plan.diff.channels - channel);
            transform_window(plan.diff, diff + channel * plan.diff.item, p, phase, plan.points, channels, room.zeros,
                                              room.wide, right,
                                              room.right + (panel - share.panel) * plan.block * kPanel + t * kPanel, right_spread);
            panel = end;
        }
    }
}

void accumulate(const GradientPlan& plan, const Share& share, int64_t count, bool add, const Room& room) {
    const Sizes s = sizes_of(plan);
    const int64_t strips = (share.row_end - share.row + kStrip - 1) / kStrip;
    const int64_t panels = share.panel_end - share.panel;
    for (int p = 0; p < plan.planes; ++p) {
        for (int64_t panel = 0; panel < panels; ++panel) {
            const int64_t phase = (share.panel + panel) / s.phase_panels;
            if (plan.zero[p * plan.diff.segments + phase]) continue;
            const float* b = room.right + (p * panels + panel) * plan.block * kPanel;
            float* c = share.sums + p * s.plane + (share.panel + panel) * kPanel;
            for (int64_t row = share.row; row < share.row_end; row += kTileRows) {
                const int64_t inside = row - share.row;
                const float* a = room.left + (p * strips + inside / kStrip) * plan.block * kStrip + inside % kStrip;
                tile_product_transposed(a, count, b, c + row * s.columns, s.columns, add);
            }
        }
    }
}

// The sums of one in channel and one panel -> its taps -> diff_weights.
void finish(const GradientPlan& plan, int64_t row, int64_t panel, float* sums, const float* zeros, char* weights) {
    const Sizes s = sizes_of(plan);
    const GatherFn transform = find<Transform::output>(plan.tap_shape);
    const int64_t phase = panel / s.phase_panels, channel = panel % s.phase_panels * kPanel;
    const int64_t channels = smaller(kPanel, plan.diff.channels - channel);
    float* from = sums + row * s.columns + panel * kPanel;
    for (int64_t part = 1; part < plan.tile_parts; ++part) {
        for (int p = 0; p < plan.planes; ++p) {
            if (plan.zero[p * plan.diff.segments + phase]) continue;
            float* to = from + p * s.plane;
            const float* other = to + part * plan.planes * s.plane;
            for (int64_t c = 0; c < kPanel; ++c) to[c] += other[c];
        }
    }
    float taps[27][kPanel];
    float* to[27];
    for (int i = 0; i < 27; ++i) to[i] = taps[i];
    transform(from, s.plane, channels, zeros, to);
    const Axes& first = plan.first_tap[phase];
    const Axes& count = plan.tap_count[phase];
    const int64_t start = row * plan.in_stride + channel * plan.out_stride;
    const auto write = [&](auto tag) {
        using C = decltype(tag);
        auto* at = reinterpret_cast<typename C::T*>(weights) + start;
        for (int64_t i = 0; i < count[0]; ++i) {
            for (int64_t j = 0; j < count[1]; ++j) {
                for (int64_t k = 0; k < count[2]; ++k) {
                    const float* values = taps[(i * plan.taps[1] + j) * plan.taps[2] + k];
                    const int64_t offset = (first[0] + plan.stride[0] * i) * plan.tap_strides[0] +
                                                                  (first[1] + plan.stride[1] * j) * plan.tap_strides[1] +
                                                                  (first[2] + plan.stride[2] * k) * plan.tap_strides[2];
                    for (int64_t c = 0; c < channels; ++c) C::put(at + offset + c * plan.out_stride, values[c]);
                }
            }
        }
    };
    if (plan.weights_cell == Cell::bf16) write(Bf16{});
    else if (plan.weights_cell == Cell::f16) write(F16{});
    else write(F32{});
}

Share share_of(const GradientPlan& plan, int64_t rank, char* scratch) {
    const Sizes s = sizes_of(plan);
    const int64_t tiles = plan.batch * plan.tiles[0] * plan.tiles[1] * plan.tiles[2];
    const int64_t row = rank % plan.row_parts;
    const int64_t column = rank / plan.row_parts % plan.column_parts;
    const int64_t tile = rank / plan.row_parts / plan.column_parts;
    Share share;
    const int64_t strips = widest_part(s.strips, plan.row_parts);
    const int64_t panels = widest_part(s.panels, plan.column_parts);
    share.row = smaller(row * strips * kStrip, plan.src.channels);
    share.row_end = smaller((row + 1) * strips * kStrip, plan.src.channels);
    share.panel = smaller(column * panels, s.panels);
    share.panel_end = smaller((column + 1) * panels, s.panels);
    share.tile = tiles * tile / plan.tile_parts;
    share.tile_end = tiles * (tile + 1) / plan.tile_parts;
    share.sums = reinterpret_cast<float*>(scratch + plan.sums) + tile * plan.planes * s.plane;
    return share;
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
    const int64_t shares = plan.row_parts * plan.column_parts * plan.tile_parts;
    const int64_t widest = larger(plan.src.channels, plan.diff.channels) + kLanes;
#pragma omp parallel num_threads(plan.threads)
    {
        int64_t bytes = 0;
        const Room room = divide(plan, scratch + omp_get_thread_num() * plan.scratch_per_thread, &bytes);
        __builtin_memset(room.zeros, 0, static_cast<size_t>(widest) * sizeof(float));
#pragma omp for schedule(dynamic, 1)
        for (int64_t rank = 0; rank < shares; ++rank) {
            const Share share = share_of(plan, rank, scratch);
            if (share.row == share.row_end || share.panel == share.panel_end) continue;
            for (int64_t first = share.tile; first < share.tile_end; first += plan.block) {
                const int64_t count = smaller(plan.block, share.tile_end - first);
                transform_block(plan, share, first, count, src, diff, room);
                accumulate(plan, share, count, first != share.tile, room);
            }
        }
#pragma omp for schedule(static)
        for (int64_t item = 0; item < s.panels * plan.src.channels; ++item) {
            finish(plan, item % plan.src.channels, item / plan.src.channels, reinterpret_cast<float*>(scratch + plan.sums),
                          room.zeros, weights);
        }
    }
}

}  // namespace dgo::DGO_ISA
