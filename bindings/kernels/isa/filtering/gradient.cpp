// Backward weights: windows of src and of diff_dst -> transforms -> one product over tiles per plane -> taps.
#include <omp.h>

#include "kernels/isa/filtering/gradient_in_place.hpp"
#include "kernels/isa/filtering/tiles.hpp"
#include "kernels/isa/filtering/transpose_panels.hpp"
#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/parts.hpp"

namespace dgo::DGO_ISA {
namespace {

// In channels finished together: whole cache lines of weights whose in channels are contiguous, whole register tiles.
constexpr int64_t kRowBlock = 48;
constexpr int64_t kTapFloats = 65536;  // of a task that puts taps together, where there is a choice

// Columns of the products: (segment of diff_dst, out channel), channels fastest, in panels.
struct Sizes {
    int64_t rows, strips, columns, panels, plane;  // plane: accumulators of one plane, [panel][row][kPanel]
};

Sizes sizes_of(const GradientPlan& plan) {
    Sizes s;
    s.strips = ceil_div(plan.src.channels, kStrip);
    s.rows = round_up(plan.src.channels, kTileRows);
    s.columns = plan.diff.segments * plan.diff.channels;
    s.panels = ceil_div(s.columns, kPanel);
    s.plane = s.rows * s.panels * kPanel;
    return s;
}

// What one thread sums: in channels [row, row_end), panels [panel, panel_end), tiles [tile, tile_end).
struct Share {
    int64_t row, row_end, panel, panel_end, tile, tile_end;
    float* sums;
};

struct Room {
    float *zeros, *wide, *line, *left, *right, *values, *taps, *flat, *sums, *lines;
};

int64_t tap_count(const GradientPlan& plan) { return plan.kernel[0] * plan.kernel[1] * plan.kernel[2]; }

// How the taps lie in memory decides in which order they are put together.
enum class Order { rows, columns, taps, none };

Order order_of(const GradientPlan& plan) {
    if (plan.out_stride == 1) return Order::columns;
    if (plan.in_stride == 1) return Order::rows;
    const int64_t dense[] = {plan.kernel[1] * plan.kernel[2], plan.kernel[2], 1};
    for (int a = 0; a < kFilterAxes; ++a) {
        if (plan.kernel[a] > 1 && plan.tap_strides[a] != dense[a]) return Order::none;
    }
    return Order::taps;
}

// An item of the last step: a block of in channels and all taps of some out channels, or of all of them where panels
// straddle the taps.
bool aligned(const GradientPlan& plan) { return plan.diff.channels % kPanel == 0; }
int64_t item_columns(const GradientPlan& plan) { return aligned(plan) ? kPanel : plan.diff.channels; }
int64_t item_panels(const GradientPlan& plan) { return aligned(plan) ? plan.diff.segments : sizes_of(plan).panels; }
int64_t item_panel(const GradientPlan& plan, int64_t column, int64_t i) {
    return aligned(plan) ? (i * plan.diff.channels + column) / kPanel : i;
}
int64_t item_rows(const GradientPlan& plan) {
    if (order_of(plan) != Order::taps) return kRowBlock;
    const int64_t rows = kTapFloats / (tap_count(plan) * item_columns(plan)) / kTileRows * kTileRows;
    return larger(kTileRows, smaller(rows, kRowBlock));
}

Room divide(const GradientPlan& plan, char* scratch, int64_t* bytes) {
    const Sizes s = sizes_of(plan);
    Parts parts(scratch);
    Room room;
    const int64_t widest = larger(plan.src.channels, plan.diff.run) + kLanes;
    const int64_t panels = ceil_div(s.panels, plan.column_parts);
    room.zeros = parts.take(widest);
    room.wide = parts.take(widest * plan.planes);
    room.line = parts.take(plan.planes * (panels * kPanel + kLanes));
    const int64_t block = in_lines(plan) ? 0 : plan.block;
    room.left = parts.take(plan.planes * ceil_div(s.strips, plan.row_parts) * block * kStrip);
    room.right = parts.take(plan.planes * panels * block * kPanel);
    const int64_t length = plan.taps.length[0] * plan.taps.length[1] * plan.taps.length[2];
    const int64_t rows = item_rows(plan), together = tap_count(plan) * item_columns(plan);
    room.values = parts.take((length * rows + kMaxLength) * kPanel);
    room.taps = parts.take(order_of(plan) == Order::taps ? rows * together : 0);
    room.flat = parts.take(plan.weights_cell == Cell::f32 ? 0 : larger(together, rows * kPanel));
    room.sums = parts.take(plan.in_items ? plan.planes * item_panels(plan) * rows * kPanel : 0);
    room.lines = parts.take(in_lines(plan) ? line_sums(plan) : 0);
    *bytes = parts.bytes;
    return room;
}

// The windows of diff_dst of tiles t .. t + n - 1 -> those rows of the panels of a share.
void transform_right(const GradientPlan& plan, const Share& share, const TilePlace& p, int64_t t, int64_t n,
                     const char* diff, const Room& room) {
    const Sizes s = sizes_of(plan);
    const int64_t panels = share.panel_end - share.panel;
    const int64_t plane = panels * plan.block * kPanel, line = panels * kPanel + kLanes;
    const int64_t begin = share.panel * kPanel, end = smaller(share.panel_end * kPanel, s.columns);
    const bool aligned = plan.diff.run % kPanel == 0;
    const Windows windows{plan.diff,
                          diff,
                          plan.points,
                          plan.window[kFilterAxes - 1],
                          window_transform(plan.window_shape),
                          aligned ? Spread{plane, kPanel, plan.block * kPanel} : Spread{line, s.columns, 0},
                          kPanel,
                          room.zeros,
                          room.wide};
    for (int64_t column = begin; column < end;) {
        const int64_t run = column / plan.diff.run, from = column % plan.diff.run;
        const int64_t count = smaller(plan.diff.run - from, end - column);
        float* to = aligned ? room.right + ((column - begin) / kPanel * plan.block + t) * kPanel
                            : room.line + column - begin;
        windows.to(to, p, n, run, from, count);
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

// The direct form in f32 only moves runs: whole lines of tiles at a time, without the search for each one's place.
bool moves(const GradientPlan& plan) {
    return plan.planes == 1 && plan.src.cell == Cell::f32 && plan.diff.cell == Cell::f32 && plan.diff.run % kPanel == 0;
}

void move_left(const GradientPlan& plan, const Share& share, int64_t t, int64_t n, const TilePlace& p, const char* src,
               const Room& room) {
    const LineRun line = line_run(plan.src, p, 0);
    const int64_t step = plan.src.strides[kFilterAxes - 1];
    const float* from = reinterpret_cast<const float*>(src) + line.offset + line.position * step + share.row;
    const int64_t rows = share.row_end - share.row;
    for (int64_t i = t; i < t + n; ++i, from += step) {
        float* to = room.left + i * kStrip;
        for (int64_t row = 0; row < rows; row += kStrip, to += plan.block * kStrip) {
#pragma GCC unroll 3
            for (int64_t c = 0; c < kStrip; c += kLanes) {
                if (row + c < rows) store_bytes(to + c, load_some(from + row + c, rows - row - c));
            }
        }
    }
}

void move_right(const GradientPlan& plan, const Share& share, int64_t t, int64_t n, const TilePlace& p,
                const char* diff, const Room& room) {
    const FilterImage& image = plan.diff;
    const int64_t step = image.strides[kFilterAxes - 1];
    const int64_t end = smaller(share.panel_end * kPanel, sizes_of(plan).columns);
    float* panel = room.right;
    for (int64_t column = share.panel * kPanel; column < end;) {
        const int64_t run = column / image.run, from = column % image.run;
        const int64_t count = smaller(image.run - from, end - column);
        const LineRun line = line_run(image, p, run);
        int64_t position = line.position;
        for (int64_t i = t; i < t + n; ++i, position += image.step[kFilterAxes - 1]) {
            const float* at = reinterpret_cast<const float*>(diff) + line.offset + position * step + from;
            const int64_t left_out = larger(0, -position), present = image.size[kFilterAxes - 1] - position;
            if (line.absent || left_out >= image.fold || present <= 0) {
                at = room.zeros;
            } else if (left_out > 0 || present < image.fold) {
                const int64_t low = left_out * image.channels, high = smaller(present, image.fold) * image.channels;
                widen_run(image, reinterpret_cast<const char*>(at - from), from, from + count, low, high, room.wide);
                at = room.wide;
            }
            float* to = panel + i * kPanel;
            for (int64_t c = 0; c < count; c += kPanel, to += plan.block * kPanel) {
#pragma GCC unroll 2
                for (int64_t v = 0; v < kPanel; v += kLanes) store_bytes(to + v, load_bytes<Lanes>(at + c + v));
            }
        }
        panel += count * plan.block;
        column += count;
    }
}

void transform_block(const GradientPlan& plan, const Share& share, int64_t first, int64_t count, const char* src,
                     const char* diff, const Room& room) {
    static constexpr Axes kOrigin{{0, 0, 0}};
    if (moves(plan)) {
        for_each_line(plan.tiles, kOrigin, plan.window, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
            move_left(plan, share, t, n, p, src, room);
            move_right(plan, share, t, n, p, diff, room);
        });
        return;
    }
    const int64_t strips = ceil_div(share.row_end - share.row, kStrip);
    const Windows left{plan.src,
                       src,
                       plan.window,
                       plan.window[kFilterAxes - 1],
                       filter_transform(plan.window_shape),
                       Spread{strips * plan.block * kStrip, kStrip, plan.block * kStrip},
                       kStrip,
                       room.zeros,
                       room.wide};
    // Panels that do not begin with a run are put together tile by tile.
    const bool alone = plan.diff.run % kPanel != 0;
    for_each_line(plan.tiles, kOrigin, plan.window, first, count, [&](int64_t t, int64_t n, TilePlace p) {
        left.to(room.left + t * kStrip, p, n, 0, share.row, share.row_end - share.row);
        if (!alone) return transform_right(plan, share, p, t, n, diff, room);
        for (const int64_t end = t + n; t < end; ++t, p.at[kFilterAxes - 1] += plan.window[kFilterAxes - 1]) {
            transform_right(plan, share, p, t, 1, diff, room);
        }
    });
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
    const int64_t strips = ceil_div(share.row_end - share.row, kStrip);
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

// Where sums are: plane, panel, in channel from `row` on.
struct Sums {
    float* at;
    int64_t plane, panel, row;
};

template <class C>
void write_taps(const float* values, int64_t count, int64_t stride, char* to) {
    auto* at = reinterpret_cast<typename C::T*>(to);
    for (int64_t c = 0; c < count; ++c) C::put(at + c * stride, values[c]);
}

// weights[i * stride + j] = from[i + j * from_stride]
void write_transposed(const GradientPlan& plan, const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                      int64_t stride, char* weights, const Room& room) {
    const auto* bits_of = reinterpret_cast<const F32::T*>(from);
    if (plan.weights_cell == Cell::f32) {
        transpose_to<F32>(bits_of, from_stride, rows, columns, reinterpret_cast<float*>(weights), stride);
        return;
    }
    transpose_to<F32>(bits_of, from_stride, rows, columns, room.flat, columns);
    for (int64_t i = 0; i < rows; ++i) {
        narrow(plan.weights_cell, room.flat + i * columns, columns, weights + i * stride * plan.weights_item);
    }
}

// One tap of `rows` in channels from `row` on and `count` out channels from `channel` on. `column`: of the item.
void write_tap(const GradientPlan& plan, const float* values, int64_t tap, int64_t row, int64_t rows, int64_t channel,
               int64_t column, int64_t count, char* weights, const Room& room) {
    const Order order = order_of(plan);
    char* out = weights + (row * plan.in_stride + channel * plan.out_stride + tap) * plan.weights_item;
    if (order == Order::rows) {
        write_transposed(plan, values, kPanel, count, rows, plan.out_stride, out, room);
        return;
    }
    const int64_t columns = item_columns(plan), together = tap_count(plan) * columns;
    for (int64_t r = 0; r < rows; ++r, values += kPanel, out += plan.in_stride * plan.weights_item) {
        if (order == Order::taps) {
            float* to = room.taps + r * together + tap * columns + column;
            for (int64_t c = 0; c < count; ++c) to[c] = values[c];
        } else if (order == Order::columns) {
            narrow(plan.weights_cell, values, count, out);
        } else if (plan.weights_cell == Cell::bf16) {
            write_taps<Bf16>(values, count, plan.out_stride, out);
        } else if (plan.weights_cell == Cell::f16) {
            write_taps<F16>(values, count, plan.out_stride, out);
        } else {
            write_taps<F32>(values, count, plan.out_stride, out);
        }
    }
}

// The sums of in channels [row, row_end) and the item's panels -> taps -> diff_weights. `own`: the sums are only the
// item's.
void finish(const GradientPlan& plan, int64_t row, int64_t row_end, int64_t first, const Sums& sums, bool own,
            char* weights, const Room& room) {
    const Sizes s = sizes_of(plan);
    const GatherFn transform = output_transform(plan.tap_shape);
    const int64_t length = plan.taps.length[0] * plan.taps.length[1] * plan.taps.length[2];
    const int64_t rows = row_end - row, channels = plan.diff.channels;
    float* to[kMaxLength];
    int64_t offset[kMaxLength];
    for (int64_t i = 0; i < item_panels(plan); ++i) {
        const int64_t panel = item_panel(plan, first, i);
        float* from = sums.at + (own ? i : panel) * sums.panel + (row - sums.row) * kPanel;
        for (int64_t r = 0; r < rows; ++r, from += kPanel) {
            if (!own && plan.tile_parts > 1) add_parts(plan, panel, from);
            for (int64_t j = 0; j < kMaxLength; ++j) {
                to[j] = room.values + (j < length ? j * rows + r : length * rows) * kPanel;
            }
            transform(from, sums.plane, kPanel, room.zeros, to);
        }
        const int64_t begin = panel * kPanel, end = smaller(begin + kPanel, s.columns);
        for (int64_t column = begin; column < end;) {
            const int64_t channel = column % channels, count = smaller(channels - channel, end - column);
            tap_offsets(plan.taps, plan.tap_strides, column / channels, 0, offset);
            for (int64_t j = 0; j < length; ++j) {
                if (offset[j] < 0) continue;
                write_tap(plan, room.values + j * rows * kPanel + column - begin, offset[j], row, rows, channel,
                          channel - first, count, weights, room);
            }
            column += count;
        }
    }
    if (order_of(plan) != Order::taps) return;
    const int64_t taps = tap_count(plan), columns = item_columns(plan);
    for (int64_t r = 0; r < rows; ++r) {
        write_transposed(plan, room.taps + r * taps * columns, columns, smaller(columns, channels - first), taps,
                         plan.out_stride,
                         weights + ((row + r) * plan.in_stride + first * plan.out_stride) * plan.weights_item, room);
    }
}

Share share_of(const GradientPlan& plan, int64_t rank, char* scratch) {
    const Sizes s = sizes_of(plan);
    const int64_t tiles = plan.batch * plan.tiles[0] * plan.tiles[1] * plan.tiles[2];
    const int64_t row = rank % plan.row_parts;
    const int64_t column = rank / plan.row_parts % plan.column_parts;
    const int64_t tile = rank / plan.row_parts / plan.column_parts;
    const int64_t strips = ceil_div(s.strips, plan.row_parts);
    const int64_t panels = ceil_div(s.panels, plan.column_parts);
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
    if (in_lines(plan)) {
        sum_lines(plan, share.tile, share.tile_end, src, diff, room.lines, room.wide);
        put_lines(plan, room.lines, sizes_of(plan).rows, share.sums);
        return;
    }
    for (int64_t first = share.tile; first < share.tile_end; first += plan.block) {
        const int64_t count = smaller(plan.block, share.tile_end - first);
        transform_block(plan, share, first, count, src, diff, room);
        accumulate(plan, share, count, first != share.tile, room);
    }
}

// Few tiles: the sums of an item are complete after one step, so that they need not go through memory.
void sum_and_finish(const GradientPlan& plan, const Share& share, const char* src, const char* diff, char* weights,
                    const Room& room) {
    if (share.row == share.row_end) return;
    const int64_t tiles = share.tile_end - share.tile, panels = item_panels(plan), block = item_rows(plan);
    const int64_t strips = ceil_div(share.row_end - share.row, kStrip), all = share.panel_end - share.panel;
    transform_block(plan, share, share.tile, tiles, src, diff, room);
    Sums sums{room.sums, panels * block * kPanel, block * kPanel, 0};
    for (int64_t column = 0; column < plan.diff.channels; column += item_columns(plan)) {
        for (int64_t row = share.row; row < share.row_end; row += block) {
            const int64_t end = smaller(row + block, share.row_end);
            sums.row = row;
            for (int p = 0; p < plan.planes; ++p) {
                for (int64_t i = 0; i < panels; ++i) {
                    const int64_t panel = item_panel(plan, column, i);
                    if (unused(plan, p, panel)) continue;
                    const float* b = room.right + (p * all + panel) * plan.block * kPanel;
                    float* c = sums.at + p * sums.plane + i * sums.panel;
                    for (int64_t r = row; r < end; r += kTileRows, c += kTileRows * kPanel) {
                        const int64_t inside = r - share.row;
                        const float* a = room.left + (p * strips + inside / kStrip) * plan.block * kStrip;
                        tile_product_transposed(a + inside % kStrip, tiles, b, c, kPanel, false);
                    }
                }
            }
            finish(plan, row, end, column, sums, true, weights, room);
        }
    }
}

}  // namespace

int64_t gradient_scratch(const GradientPlan& plan) {
    int64_t bytes = 0;
    divide(plan, nullptr, &bytes);
    return bytes;
}

int64_t gradient_sums(const GradientPlan& plan) {
    if (plan.in_items) return 0;
    return plan.tile_parts * plan.planes * sizes_of(plan).plane * static_cast<int64_t>(sizeof(float));
}

void run_gradient(const GradientPlan& plan, const char* src, const char* diff, char* scratch, char* weights) {
    const Sizes s = sizes_of(plan);
    const int64_t rows = item_rows(plan), columns = item_columns(plan);
    const int64_t blocks = ceil_div(plan.src.channels, rows), wide = ceil_div(plan.diff.channels, columns);
    const Sums sums{reinterpret_cast<float*>(scratch + plan.sums), s.plane, s.rows * kPanel, 0};
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
            for (int64_t rank = 0; rank < shares; ++rank) {
                const Share share = share_of(plan, rank, scratch);
                if (plan.in_items) sum_and_finish(plan, share, x, y, w, room);
                else sum_share(plan, share, x, y, room);
            }
            if (plan.in_items) continue;
#pragma omp for schedule(static)
            for (int64_t item = 0; item < blocks * wide; ++item) {
                const int64_t row = item / wide * rows;
                finish(plan, row, smaller(row + rows, plan.src.channels), item % wide * columns, sums, false, w, room);
            }
        }
    }
}

}  // namespace dgo::DGO_ISA
