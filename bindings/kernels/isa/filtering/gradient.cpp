// Wgrad: windows of src and of diff_dst -> transforms -> one product over tiles per plane -> sums.
#include "kernels/team.hpp"
#include "kernels/isa/filtering/gradient_taps.hpp"

namespace dgo::DGO_ISA {
namespace {

// A thread's part of the sums: in channels [row, row_end), panels [panel, panel_end), tiles [tile, tile_end).
struct SumTask {
    int64_t row, row_end, panel, panel_end, tile, tile_end;
    float* sums;
};

// Transforms the windows of diff_dst of tiles t .. t + n - 1 to rows t .. t + n - 1 of a task's panels.
void transform_right(const GradientParams& params, const SumTask& task, const TilePlace& p, int64_t t, int64_t n,
                     const char* diff, const GradientScratch& scratch) {
    const Sizes s = sizes_of(params);
    const int64_t panels = task.panel_end - task.panel;
    const int64_t plane = panels * params.block * kPanel, line = panels * kPanel + kLanes;
    const int64_t begin = task.panel * kPanel, end = smaller(task.panel_end * kPanel, s.columns);
    const bool aligned = params.diff.run % kPanel == 0;
    const Windows<float, float> windows{
        params.diff,
        diff,
        params.points,
        params.window[kFilterAxes - 1],
        window_transform(params.window_shape),
        aligned ? Spread{plane, kPanel, params.block * kPanel} : Spread{line, s.columns, 0},
        kPanel,
        scratch.zeros,
        scratch.wide};
    for (int64_t column = begin; column < end;) {
        const int64_t run = column / params.diff.run, from = column % params.diff.run;
        const int64_t count = smaller(params.diff.run - from, end - column);
        float* to = aligned ? scratch.right + ((column - begin) / kPanel * params.block + t) * kPanel
                            : scratch.line + column - begin;
        windows.to(to, p, n, run, from, count);
        column += count;
    }
    if (aligned) return;
    for (int64_t i = 0; i < params.planes; ++i) {
        for (int64_t panel = 0; panel < panels; ++panel) {
            float* to = scratch.right + i * plane + (panel * params.block + t) * kPanel;
            __builtin_memcpy(to, scratch.line + i * line + panel * kPanel, kPanel * sizeof(float));
        }
    }
}

// Whether the factors are runs of f32 as they lie (the direct form): whole lines of tiles are moved at once.
bool moves(const GradientParams& params) {
    return params.planes == 1 && params.src.type == ElementType::f32 && params.diff.type == ElementType::f32 &&
           params.diff.run % kPanel == 0;
}

void move_left(const GradientParams& params, const SumTask& task, int64_t t, int64_t n, const TilePlace& p,
               const char* src, const GradientScratch& scratch) {
    const LineRun line = line_run(params.src, p, 0);
    const int64_t step = params.src.strides[kFilterAxes - 1];
    const float* from = reinterpret_cast<const float*>(src) + line.offset + line.position * step + task.row;
    const int64_t rows = task.row_end - task.row;
    for (int64_t i = t; i < t + n; ++i, from += step) {
        float* to = scratch.left + i * kStrip;
        for (int64_t row = 0; row < rows; row += kStrip, to += params.block * kStrip) {
#pragma GCC unroll 3
            for (int64_t c = 0; c < kStrip; c += kLanes) {
                if (row + c < rows) store_bytes(to + c, load_some(from + row + c, rows - row - c));
            }
        }
    }
}

void move_right(const GradientParams& params, const SumTask& task, int64_t t, int64_t n, const TilePlace& p,
                const char* diff, const GradientScratch& scratch) {
    const FilterImage& image = params.diff;
    const int64_t step = image.strides[kFilterAxes - 1];
    const int64_t end = smaller(task.panel_end * kPanel, sizes_of(params).columns);
    float* panel = scratch.right;
    for (int64_t column = task.panel * kPanel; column < end;) {
        const int64_t run = column / image.run, from = column % image.run;
        const int64_t count = smaller(image.run - from, end - column);
        const LineRun line = line_run(image, p, run);
        int64_t position = line.position;
        for (int64_t i = t; i < t + n; ++i, position += image.step[kFilterAxes - 1]) {
            const float* at = reinterpret_cast<const float*>(diff) + line.offset + position * step + from;
            const int64_t left_out = larger(0, -position), present = image.size[kFilterAxes - 1] - position;
            if (line.absent || left_out >= image.fold || present <= 0) {
                at = scratch.zeros;
            } else if (left_out > 0 || present < image.fold) {
                const int64_t low = left_out * image.channels, high = smaller(present, image.fold) * image.channels;
                widen_run(image, reinterpret_cast<const char*>(at - from), from, from + count, low, high, scratch.wide);
                at = scratch.wide;
            }
            float* to = panel + i * kPanel;
            for (int64_t c = 0; c < count; c += kPanel, to += params.block * kPanel) {
#pragma GCC unroll 2
                for (int64_t v = 0; v < kPanel; v += kLanes) store_bytes(to + v, load_bytes<Lanes>(at + c + v));
            }
        }
        panel += count * params.block;
        column += count;
    }
}

void transform_block(const GradientParams& params, const SumTask& task, int64_t first, int64_t count, const char* src,
                     const char* diff, const GradientScratch& scratch) {
    static constexpr Axes kOrigin{{0, 0, 0}};
    if (moves(params)) {
        for_each_line(params.tiles, kOrigin, params.window, first, count,
                      [&](int64_t t, int64_t n, const TilePlace& p) {
                          move_left(params, task, t, n, p, src, scratch);
                          move_right(params, task, t, n, p, diff, scratch);
                      });
        return;
    }
    const int64_t strips = ceil_div(task.row_end - task.row, kStrip);
    const Windows<float, float> left{params.src,
                                     src,
                                     params.window,
                                     params.window[kFilterAxes - 1],
                                     filter_transform(params.window_shape),
                                     Spread{strips * params.block * kStrip, kStrip, params.block * kStrip},
                                     kStrip,
                                     scratch.zeros,
                                     scratch.wide};
    // Panels in which a run begins elsewhere than at column 0 are put together tile by tile.
    const bool alone = params.diff.run % kPanel != 0;
    for_each_line(params.tiles, kOrigin, params.window, first, count, [&](int64_t t, int64_t n, TilePlace p) {
        left.to(scratch.left + t * kStrip, p, n, 0, task.row, task.row_end - task.row);
        if (!alone) return transform_right(params, task, p, t, n, diff, scratch);
        for (const int64_t end = t + n; t < end; ++t, p.at[kFilterAxes - 1] += params.window[kFilterAxes - 1]) {
            transform_right(params, task, p, t, 1, diff, scratch);
        }
    });
}

// Zeros what products read beyond the rows and columns of a task: denormal numbers that are left in memory take long to
// multiply.
void clear_rest(const GradientParams& params, const SumTask& task, const GradientScratch& scratch) {
    const int64_t rows = task.row_end - task.row, strips = ceil_div(rows, kStrip);
    const int64_t panels = task.panel_end - task.panel, first = task.panel * kPanel;
    const int64_t columns = smaller(task.panel_end * kPanel, sizes_of(params).columns) - first;
    const auto zero = [](float* at, int64_t used, int64_t read) {
        for (int64_t i = used; i < read; ++i) at[i] = 0.0f;
    };
    const int64_t row = rows - (strips - 1) * kStrip, column = columns - (panels - 1) * kPanel;
    for (int64_t p = 0; p < params.planes; ++p) {
        float* left = scratch.left + (p * strips + strips - 1) * params.block * kStrip;
        float* right = scratch.right + (p * panels + panels - 1) * params.block * kPanel;
        for (int64_t t = 0; t < params.block; ++t, left += kStrip, right += kPanel) {
            zero(left, row, round_up(row, kTileRows));
            zero(right, column, kPanel);
        }
        zero(scratch.line + p * (panels * kPanel + kLanes), columns, panels * kPanel);
    }
}

// Memory of src and diff_dst that the next step copies: each register tile of a step fetches an equal part of it.
struct Following {
    Ahead ahead{nullptr, 0}, other{nullptr, 0};
    int64_t tiles = 0;  // that fetch of the first side

    Ahead part(int64_t count) {
        const Ahead fetched = ahead;
        ahead.at += count * ahead.step;
        if (--tiles == 0) ahead = other;
        return fetched;
    }
};

// Returns the register tiles of a panel.
int64_t panel_tiles(int64_t rows) {
    const int64_t strips = rows / kStrip;
    return strips * (kStrip / kTileRows) + TileCounts(rows - strips * kStrip).all();
}

// Returns the bytes of an image that a tile stands for.
int64_t tile_bytes(const GradientParams& params, const FilterImage& image) {
    int64_t elements = image.channels;
    for (int a = 0; a < kFilterAxes; ++a) elements = larger(elements, image.strides[a] * image.size[a]);
    return elements * image.item / (params.tiles[0] * params.tiles[1] * params.tiles[2]);
}

// Returns what a step of `steps` tiles fetches of the `count` tiles from `first` on: nothing where a task reads a part of
// each position, or positions are skipped.
Following following(const GradientParams& params, const SumTask& task, int64_t first, int64_t count, int64_t steps,
                    const char* src, const char* diff) {
    static constexpr Axes kOrigin{{0, 0, 0}};
    constexpr int last = kFilterAxes - 1;
    const bool parts = params.channel_groups * params.row_parts * params.column_parts > 1;
    if (count <= 0 || params.planes > 1 || parts || params.diff.step[last] > params.diff.fold) return {};
    const int64_t tiles = (task.panel_end - task.panel) * panel_tiles(task.row_end - task.row);
    const TilePlace p = place(first, params.tiles, kOrigin, params.window);
    const auto address = [&](const FilterImage& image, const char* data, int64_t run) {
        const LineRun line = line_run(image, p, run);
        return data + (line.offset + line.position * image.strides[last]) * image.item;
    };
    const int64_t left = count * tile_bytes(params, params.src), right = count * tile_bytes(params, params.diff);
    const int64_t share = smaller(larger(tiles * left / larger(left + right, 1), 1), larger(tiles - 1, 1));
    return {{address(params.src, src, 0), ceil_div(left, share * steps)},
            {address(params.diff, diff, params.diff.runs - 1), ceil_div(right, larger(tiles - share, 1) * steps)},
            share};
}

// Multiplies rows of a strip by a panel.
struct RowsProduct {
    const float *left, *panel;
    int64_t count;
    float* sums;
    bool add;
    Following& next;

    template <int kVectors, int kRows>
    DGO_INLINE void some(int64_t tiles) {
        for (; tiles > 0; --tiles, left += kRows, sums += kRows * kPanel) {
            tile_product_transposed<kVectors, kRows>(left, count, panel, sums, add, next.part(count));
        }
    }
    template <int kVectors>
    void run(const TileCounts& rows) {
        some<kVectors, 3 * kFewRows>(rows.whole);
        some<kVectors, 2 * kFewRows>(rows.two_thirds);
        some<kVectors, kFewRows>(rows.third);
    }
};

// sums[0 .. end - row)[:] (+)= rows [row, end) of a plane of a task times a panel with `columns` columns.
void multiply_panel(const GradientParams& params, const float* left, int64_t row, int64_t end, int64_t count,
                    const float* panel, int64_t columns, float* sums, bool add, Following& next) {
    for (int64_t rows; row < end; row += rows, sums += rows * kPanel) {
        rows = smaller(end - row, kStrip - row % kStrip);
        RowsProduct product{left + row / kStrip * params.block * kStrip + row % kStrip, panel, count, sums, add, next};
        if (columns > kLanes)
            product.run<kTileVectors>(TileCounts(rows));
        else
            product.run<1>(TileCounts(rows));
    }
}

void accumulate(const GradientParams& params, const SumTask& task, int64_t count, bool add, Following next,
                const GradientScratch& scratch) {
    const Sizes s = sizes_of(params);
    const int64_t strips = ceil_div(task.row_end - task.row, kStrip);
    const int64_t panels = task.panel_end - task.panel;
    for (int p = 0; p < params.planes; ++p) {
        const float* left = scratch.left + p * strips * params.block * kStrip;
        for (int64_t panel = 0; panel < panels; ++panel) {
            if (unused(params, p, task.panel + panel)) continue;
            const float* b = scratch.right + (p * panels + panel) * params.block * kPanel;
            float* c = task.sums + p * s.plane + ((task.panel + panel) * s.rows + task.row) * kPanel;
            const int64_t columns = s.columns - (task.panel + panel) * kPanel;
            multiply_panel(params, left, 0, task.row_end - task.row, count, b, columns, c, add, next);
        }
    }
}

SumTask task_of(const GradientParams& params, int64_t rank, char* memory) {
    const Sizes s = sizes_of(params);
    const int64_t tiles = params.batch * params.tiles[0] * params.tiles[1] * params.tiles[2];
    const int64_t row = rank % params.row_parts;
    const int64_t column = rank / params.row_parts % params.column_parts;
    const int64_t tile = rank / params.row_parts / params.column_parts;
    const int64_t strips = ceil_div(s.strips, params.row_parts);
    const int64_t panels = ceil_div(s.panels, params.column_parts);
    SumTask task;
    task.row = smaller(row * strips * kStrip, params.src.channels);
    task.row_end = smaller((row + 1) * strips * kStrip, params.src.channels);
    task.panel = smaller(column * panels, s.panels);
    task.panel_end = smaller((column + 1) * panels, s.panels);
    task.tile = tiles * tile / params.tile_parts;
    task.tile_end = tiles * (tile + 1) / params.tile_parts;
    task.sums = reinterpret_cast<float*>(memory + params.sums) + tile * params.planes * s.plane;
    return task;
}

void sum_task(const GradientParams& params, const SumTask& task, const char* src, const char* diff,
              const GradientScratch& scratch) {
    if (task.row == task.row_end || task.panel == task.panel_end) return;
    if (params.in_lines) {
        sum_lines(params, task.tile, task.tile_end, src, diff, scratch.lines, scratch.wide);
        put_lines(params, scratch.lines, sizes_of(params).rows, task.sums);
        return;
    }
    clear_rest(params, task, scratch);
    for (int64_t first = task.tile; first < task.tile_end; first += params.block) {
        const int64_t count = smaller(params.block, task.tile_end - first);
        const int64_t behind = smaller(params.block, task.tile_end - first - count);
        transform_block(params, task, first, count, src, diff, scratch);
        accumulate(params, task, count, first != task.tile,
                   following(params, task, first + count, behind, count, src, diff), scratch);
    }
}

// Multiplies and finishes rows [row, end) and the columns of an item from `column` on.
void finish_item(const GradientParams& params, const SumTask& task, int64_t row, int64_t end, int64_t column,
                 char* weights, const GradientScratch& scratch) {
    const int64_t tiles = task.tile_end - task.tile, panels = item_panels(params), block = item_rows(params);
    const int64_t strips = ceil_div(task.row_end - task.row, kStrip), all = task.panel_end - task.panel;
    const Sums sums{scratch.sums, panels * block * kPanel, block * kPanel, row};
    Following nothing;
    for (int p = 0; p < params.planes; ++p) {
        const float* left = scratch.left + p * strips * params.block * kStrip;
        for (int64_t i = 0; i < panels; ++i) {
            const int64_t panel = item_panel(params, column, i);
            if (unused(params, p, panel)) continue;
            const float* b = scratch.right + (p * all + panel) * params.block * kPanel;
            multiply_panel(params, left, row - task.row, end - task.row, tiles, b,
                           sizes_of(params).columns - panel * kPanel, sums.at + p * sums.plane + i * sums.panel, false,
                           nothing);
        }
    }
    finish(params, row, end, column, sums, true, weights, scratch);
}

// Sums a task and writes its taps at once, in the order of memory. With few tiles the sums of an item are complete after
// one step, and need not go through memory.
void sum_and_finish(const GradientParams& params, const SumTask& task, const char* src, const char* diff, char* weights,
                    const GradientScratch& scratch) {
    if (task.row == task.row_end) return;
    const int64_t block = item_rows(params), columns = item_columns(params);
    clear_rest(params, task, scratch);
    transform_block(params, task, task.tile, task.tile_end - task.tile, src, diff, scratch);
    const auto item = [&](int64_t row, int64_t column) {
        finish_item(params, task, row, smaller(row + block, task.row_end), column, weights, scratch);
    };
    if (params.in_stride > params.out_stride) {
        for (int64_t row = task.row; row < task.row_end; row += block) {
            for (int64_t column = 0; column < params.diff.channels; column += columns) item(row, column);
        }
        return;
    }
    for (int64_t column = 0; column < params.diff.channels; column += columns) {
        for (int64_t row = task.row; row < task.row_end; row += block) item(row, column);
    }
}

}  // namespace

int64_t gradient_scratch(const GradientParams& params) { return divide(params, nullptr).bytes; }

int64_t gradient_sums(const GradientParams& params) {
    if (params.in_items) return 0;
    return params.tile_parts * params.planes * sizes_of(params).plane * static_cast<int64_t>(sizeof(float));
}

void run_gradient(const GradientParams& params, const char* src, const char* diff, char* memory, char* weights) {
    const Sizes s = sizes_of(params);
    const int64_t rows = item_rows(params), columns = item_columns(params);
    const int64_t blocks = ceil_div(params.src.channels, rows), wide = ceil_div(params.diff.channels, columns);
    const Sums sums{reinterpret_cast<float*>(memory + params.sums), s.plane, s.rows * kPanel, 0};
    const int64_t tasks = params.row_parts * params.column_parts * params.tile_parts;
    Turns turns;
    run_team(params.threads, [&](int thread, int size) {
        const GradientScratch scratch = divide(params, memory + thread * params.scratch_per_thread);
        Loops loops(turns, size);
        __builtin_memset(scratch.zeros, 0, static_cast<size_t>(widest_row(params)) * sizeof(float));
        for (int64_t g = 0; g < params.channel_groups; ++g) {
            const char* x = src + g * params.src.channels * params.src.item;
            const char* y = diff + g * params.diff.channels * params.diff.item;
            char* w = weights + g * params.group_stride * params.weights_item;
            loops.run(tasks, [&](int64_t rank) {
                const SumTask task = task_of(params, rank, memory);
                if (params.in_items)
                    sum_and_finish(params, task, x, y, w, scratch);
                else
                    sum_task(params, task, x, y, scratch);
            });
            if (params.streams) _mm_sfence();
            dgo_team_barrier();
            if (params.in_items) continue;
            const int64_t items = blocks * wide;
            for (int64_t item = items * thread / size; item < items * (thread + 1) / size; ++item) {
                const int64_t row = item / wide * rows;
                finish(params, row, smaller(row + rows, params.src.channels), item % wide * columns, sums, false, w,
                       scratch);
            }
            dgo_team_barrier();
        }
    });
}

}  // namespace dgo::DGO_ISA
