// Forward and backward data: windows -> transform -> one small product per plane -> inverse transform. On direct
// axes the taps are segments of the windows, and nothing is transformed.
#include <omp.h>

#include "kernels/isa/filtering/product_in_place.hpp"

namespace dgo::DGO_ISA {
namespace {

void transform_block(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, const char* src,
                     const Room& room) {
    const int64_t stride = left_stride(plan);
    const Windows windows{plan.src,
                          src,
                          plan.points,
                          plan.outputs[kFilterAxes - 1],
                          window_transform(plan.filter_shape),
                          Spread{left_plane(plan), plan.src.run, 0},
                          stride,
                          room.zeros,
                          room.wide};
    for_each_line(group.tiles, group.base, plan.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        for (int64_t run = 0; run < plan.src.runs; ++run) {
            windows.to(room.left + t * stride + run * plan.src.run, p, n, run, 0, plan.src.run);
        }
    });
}

// The rows of the left factor as addresses of runs; only what is cut off or of a narrow type is copied.
void find_block(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, const char* src,
                const Room& room) {
    constexpr int last = kFilterAxes - 1;
    const FilterImage& image = plan.src;
    const int64_t stride = left_stride(plan);
    const bool direct = image.cell == Cell::f32;
    for_each_line(group.tiles, group.base, plan.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        for (int64_t run = 0; run < image.runs; ++run) {
            const LineRun line = line_run(image, p, run);
            int64_t position = line.position;
            const char* data = src + line.offset * image.item;
            for (int64_t i = t; i < t + n; ++i, position += image.step[last]) {
                const float*& row = room.rows[i * image.runs + run];
                const char* at = data + position * image.strides[last] * image.item;
                const bool whole = position >= 0 && position + image.fold <= image.size[last];
                if (line.absent || position <= -image.fold || position >= image.size[last]) {
                    row = room.zeros;
                } else if (whole && direct) {
                    row = reinterpret_cast<const float*>(at);
                } else {
                    float* copy = room.left + i * stride + run * image.run;
                    widen_run(image, at, 0, image.run, larger(0, -position) * image.channels,
                              smaller(image.fold, image.size[last] - position) * image.channels, copy);
                    row = copy;
                }
            }
        }
    });
    const float** end = room.rows + count * image.runs;
    for (int64_t i = 0; i < kTileRows * image.runs; ++i) end[i] = end[i - image.runs];
}

// Columns [column, column + columns) of every plane to room.result.
void multiply(const ProductPlan& plan, const TileGroup& group, int64_t column, int64_t columns, int64_t count,
              const float* packed, const Room& room) {
    const Depth depth = depth_of(plan);
    const Shares shares(depth.all / depth.parts, count);
    const int64_t runs = row_runs(plan), length = row_run(plan);
    const auto weights = [&](int p, int64_t part, int64_t n) {
        return panel_at(plan, group, p, column + n, packed) + depth.begin(part) * kPanel;
    };
    const Strip strip{round_up(count, kTileRows), left_stride(plan), kFilterChunk};
    for (int p = 0; p < plan.planes; ++p) {
        const float* left = room.left + p * left_plane(plan);
        for (int64_t part = 0; part < depth.parts; ++part) {
            int64_t span_count = spans_between(plan, depth.begin(part), depth.begin(part + 1), room.spans);
            for (int64_t n = 0; n < columns; n += kPanel) {
                if (plan.zero != nullptr) span_count = spans_of(plan, group, p, column + n, room.spans);
                const float* next = n + kPanel < columns         ? weights(p, part, n + kPanel)
                                    : part + 1 < depth.parts     ? weights(p, part + 1, 0)
                                    : p + 1 < plan.planes        ? weights(p + 1, 0, 0)
                                                                 : weights(0, 0, columns);
                const auto tile = columns - n > kLanes ? &tile_product<kTileVectors> : &tile_product<1>;
                const float *panel = weights(p, 0, n), *start = part == 0 ? room.zeros : nullptr;
                float* result = room.result + p * result_stride(plan) + n;
                if (!in_place(plan)) {
                    const auto product = columns - n > kLanes ? &strip_product<kTileVectors> : &strip_product<1>;
                    product(left, strip, room.spans, span_count, panel, start, result,
                            shares.of(next, 0));
                    continue;
                }
                for (int64_t t = 0; t < count; t += kTileRows) {
                    float* to[kTileRows];
                    for (float*& row : to) {
                        row = result;
                        result += kFilterChunk;
                    }
                    tile(room.rows + t * runs, runs, room.spans, span_count, length, panel, start, to,
                         shares.of(next, t));
                }
            }
        }
    }
}

FilterImage unfolded(FilterImage image) {
    image.fold = 1;
    image.run = image.channels;
    image.runs = image.segments;
    image.gapless = false;
    return image;
}

// Columns of a chunk that belong to one run of the destination: its elements [begin, begin + count).
struct Piece {
    int64_t run, begin, count, column;
    const float* bias;
};

void write_piece(const ProductPlan& plan, const FilterImage& image, const TileGroup& group, int64_t first,
                 int64_t count, const Piece& piece, char* dst, const Room& room) {
    const GatherFn transform = output_transform(plan.output_shape);
    const int64_t outputs = plan.outputs[0] * plan.outputs[1] * plan.outputs[2];
    const int64_t end = piece.begin + piece.count;
    const int64_t tile = plan.outputs[kFilterAxes - 1], step = line_step(image, tile);
    const auto write = [&](int64_t t, int64_t m, const RunOffsets& runs) {
        float* to[kFilterPlanes];
        bool later = false;
        for (int64_t i = 0; i < outputs; ++i) {
            if (runs.at[i] == kAbsent) {
                to[i] = room.trash;
            } else if (image.cell == Cell::f32 && runs.has(i, plan.outputs, piece.begin, end)) {
                to[i] = reinterpret_cast<float*>(dst + runs.at[i]) + piece.begin;
            } else {
                to[i] = room.wide + i * kFilterChunk;
                later = true;
            }
        }
        char* moved = dst;
        for (const int64_t stop = t + m; t < stop; ++t, moved += step) {
            // Stores to lines not yet owned would wait for them one after the other.
            for (int64_t i = 0; t + 1 < stop && !later && image.run <= kLineRun && i < outputs; ++i) {
                const char* next = reinterpret_cast<const char*>(to[i]) + step;
                for (int64_t c = 0; c < piece.count * image.item; c += 64) __builtin_prefetch(next + c, 1);
            }
            transform(room.result + t * kFilterChunk + piece.column, result_stride(plan), piece.count, piece.bias, to);
            for (int64_t i = 0; i < outputs; ++i) {
                if (!later) {
                    to[i] += step / static_cast<int64_t>(sizeof(float));
                } else if (to[i] == room.wide + i * kFilterChunk) {
                    const int64_t k = i % plan.outputs[2];
                    const int64_t from = larger(piece.begin, runs.low[k]), until = smaller(end, runs.high[k]);
                    char* at = moved + runs.at[i] + from * image.item;
                    narrow(image.cell, to[i] + from - piece.begin, until - from, at);
                }
            }
        }
    };
    for_each_line(group.tiles, group.base, plan.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        for_each_runs(image, p, piece.run, plan.outputs, tile, t, n, write);
    });
}

// Whole runs that follow each other in memory from tile to tile: a line of them is written at once.
void write_lines(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, const Piece& piece,
                 char* dst, const Room& room) {
    constexpr int last = kFilterAxes - 1;
    const FilterImage& image = plan.dst;
    const GatherFn transform = output_transform(plan.output_shape);
    const int64_t lines = plan.outputs[0] * plan.outputs[1], per_line = plan.outputs[2];
    const int64_t width = round_up(image.run, kLanes);
    const bool vast = is_vast(plan);
    // Whole vectors are stored in rising order: what they spill is overwritten.
    const bool straight = width == image.run || lines * per_line == 1;
    for_each_line(group.tiles, group.base, plan.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        const int64_t stride = n * per_line * image.run + kLanes, step = per_line * image.run * image.item;
        const Axes& begin = image.first[piece.run * image.fold];
        const int64_t start = image.step[last] * p.at[last] + begin[last];
        const int64_t low = larger(0, -start), high = smaller(n * per_line * image.fold, image.size[last] - start);
        char* there[kFilterPlanes];
        for (int64_t l = 0; l < lines; ++l) {
            const int64_t at0 = image.step[0] * (p.at[0] + l / plan.outputs[1]) + begin[0];
            const int64_t at1 = image.step[1] * (p.at[1] + l % plan.outputs[1]) + begin[1];
            const bool absent = at0 < 0 || at0 >= image.size[0] || at1 < 0 || at1 >= image.size[1];
            const int64_t offset = p.image * image.batch_stride + at0 * image.strides[0] + at1 * image.strides[1];
            there[l] = absent ? nullptr : dst + (offset + start * image.channels) * image.item;
        }
        float* to[kFilterPlanes];
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t l = 0; l < lines; ++l) {
                for (int64_t k = 0; k < per_line; ++k) {
                    to[l * per_line + k] = straight ? room.lines + l * stride + (i * per_line + k) * image.run
                                                    : room.wide + (l * per_line + k) * kFilterChunk;
                }
                for (int64_t c = 0; !vast && there[l] != nullptr && c < step; c += 64) {
                    __builtin_prefetch(there[l] + i * step + c, 1);
                }
            }
            transform(room.result + (t + i) * kFilterChunk + piece.column, result_stride(plan), width, piece.bias, to);
            for (int64_t l = 0; !straight && l < lines; ++l) {
                float* line = room.lines + l * stride + i * per_line * image.run;
                for (int64_t k = 0; k < per_line; ++k, line += image.run) {
                    const float* from = to[l * per_line + k];
                    for (int64_t c = 0; c < width; c += kLanes) {
                        *reinterpret_cast<LanesAt*>(line + c) = *reinterpret_cast<const LanesAt*>(from + c);
                    }
                }
            }
        }
        for (int64_t l = 0; l < lines && low < high; ++l) {
            if (there[l] == nullptr) continue;
            const float* from = room.lines + l * stride + low * image.channels;
            const int64_t length = (high - low) * image.channels;
            char* at = there[l] + low * image.channels * image.item;
            if (vast) stream(from, length, reinterpret_cast<float*>(at));
            else narrow(image.cell, from, length, at);
        }
    });
    if (vast) _mm_sfence();
}

void run_task(const ProductPlan& plan, int64_t task, const char* src, const float* packed, const float* bias, char* dst,
              const Room& room) {
    const TileGroup* group = plan.groups;
    while (task >= group->first_task + group->blocks * group->parts) ++group;
    task -= group->first_task;
    const int64_t tiles = plan.batch * group->tiles[0] * group->tiles[1] * group->tiles[2];
    // Blocks of equal size, as a short last one would leave a thread idle, and of whole register tiles.
    const int64_t block = task / group->parts, part = task % group->parts;
    const int64_t units = ceil_div(tiles, kTileRows);
    const int64_t first = units * block / group->blocks * kTileRows;
    const int64_t count = smaller(units * (block + 1) / group->blocks * kTileRows, tiles) - first;
    const int64_t all = group_columns(plan, *group);
    const int64_t chunks = ceil_div(all, kFilterChunk);
    const FilterImage image = group->folded ? plan.dst : unfolded(plan.dst);
    if (in_place(plan)) find_block(plan, *group, first, count, src, room);
    else transform_block(plan, *group, first, count, src, room);
    if (direct(plan, image) || is_staged(plan, image)) {
        const int64_t panels = ceil_div(all, kPanel), stop = panels * (part + 1) / group->parts * kPanel;
        const auto write = is_staged(plan, image) ? &write_staged : &write_products;
        write(plan, image, *group, first, count, panels * part / group->parts * kPanel, smaller(stop, all),
              packed + group->packed, bias, dst, room);
        return;
    }
    for (int64_t chunk = chunks * part / group->parts; chunk < chunks * (part + 1) / group->parts; ++chunk) {
        const int64_t column = chunk * kFilterChunk, end = smaller(column + kFilterChunk, all);
        multiply(plan, *group, column, end - column, count, packed + group->packed, room);
        for (int64_t c = column; c < end;) {
            const int64_t target = group->targets[c / image.run * image.fold], begin = c % image.run;
            const int64_t width = smaller(image.run - begin, end - c);
            const Piece piece{target / image.fold, begin, width, c - column, bias + begin};
            if (image.gapless && width == image.run && width < kLineRun) {
                write_lines(plan, *group, first, count, piece, dst, room);
            } else {
                write_piece(plan, image, *group, first, count, piece, dst, room);
            }
            c += width;
        }
    }
}

}  // namespace

int64_t products_scratch(const ProductPlan& plan) {
    int64_t bytes = 0;
    divide(plan, nullptr, &bytes);
    return bytes;
}

void run_products(const ProductPlan& plan, const char* src, const float* packed, const char* bias, char* scratch,
                  char* dst) {
#pragma omp parallel num_threads(plan.threads)
    {
        int64_t bytes = 0;
        const Room room = divide(plan, scratch + omp_get_thread_num() * plan.scratch_per_thread, &bytes);
        const int64_t zeros = larger(plan.src.run, kFilterChunk) + kLanes;
        const int64_t outputs = plan.channel_groups * plan.dst.run + kLanes;
        __builtin_memset(room.zeros, 0, static_cast<size_t>(zeros) * sizeof(float));
        __builtin_memset(room.bias, 0, static_cast<size_t>(outputs) * sizeof(float));
        for (int64_t i = 0; plan.has_bias && i < plan.channel_groups * plan.dst.fold; ++i) {
            const int64_t channels = plan.dst.channels, g = i / plan.dst.fold;
            const char* from = bias + g * channels * (plan.bias_cell == Cell::f32 ? 4 : 2);
            widen(plan.bias_cell, from, channels, room.bias + i * channels);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < plan.tasks * plan.channel_groups; ++task) {
            const int64_t g = task / plan.tasks;
            run_task(plan, task % plan.tasks, src + g * plan.src.channels * plan.src.item, packed + g * plan.packed,
                     room.bias + g * plan.dst.run, dst + g * plan.dst.channels * plan.dst.item, room);
        }
    }
}

}  // namespace dgo::DGO_ISA
