// Forward and backward data: windows -> transform -> one small product per plane -> inverse transform. On direct
// axes the taps are segments of the windows, and nothing is transformed.
#include <omp.h>

#include "filter_code.hpp"
#include "filter_tiles.hpp"

namespace dgo::DGO_ISA {
namespace {

// Results whose runs are narrower than this are put together to whole lines before they are written.
constexpr int64_t kLineRun = 64;

// Floats of one plane of a block's results, up to the last row of a register tile.
int64_t result_stride(const ProductPlan& plan) {
    return (plan.block + kTileRows - 1) / kTileRows * kTileRows * kFilterChunk;
}

// Weights that stay in the second cache level from one row of tiles to the next, alone or beside those to come.
constexpr int64_t kNearBytes = 256 * 1024;
constexpr int64_t kNearRuns = 16;
constexpr int64_t kDepth = 2048;  // of the inner dimension at once

// A run of the destination: of it elements [low, high) exist.
struct Target {
    float* at;
    int64_t low, high;
};

struct Room {
    float *zeros, *bias, *trash, *wide, *left, *result, *lines;
    const float** rows;    // [tile][run]: the left factor, a run at a time, the last one repeated for a register tile
    Target* targets;       // [run][tile]: where products go that are results
    Span* spans;           // [panel of a group][span]
    int64_t* span_counts;  // [panel of a group]
};

// On direct axes alone nothing is transformed: the left factor is read where it is.
bool in_place(const ProductPlan& plan) { return plan.planes == 1; }

// The runs that a row of the left factor consists of, and their length.
int64_t row_runs(const ProductPlan& plan) { return in_place(plan) ? plan.src.runs : 1; }
int64_t row_run(const ProductPlan& plan) {
    return in_place(plan) ? plan.src.run : plan.src.segments * plan.src.channels;
}

int64_t most_spans(const ProductPlan& plan) { return plan.src.segments + 1; }

int64_t group_columns(const ProductPlan& plan, const TileGroup& group) {
    return group.target_count * plan.dst.channels;
}

template <class T>
constexpr int64_t kFloatsPer = static_cast<int64_t>(sizeof(T) / sizeof(float));

// Every part starts at a multiple of 64 bytes.
Room divide(const ProductPlan& plan, char* scratch, int64_t* bytes) {
    float* at = reinterpret_cast<float*>(scratch);
    int64_t used = 0;
    const auto take = [&](int64_t count) {
        float* part = at + used;
        used += (count + 15) / 16 * 16;
        return part;
    };
    Room room;
    const int64_t outputs = plan.outputs[0] * plan.outputs[1] * plan.outputs[2];
    const int64_t widest = larger(plan.src.run * plan.planes, kFilterChunk * outputs);
    room.zeros = take(larger(plan.src.run, kFilterChunk) + kLanes);
    room.bias = take(plan.channel_groups * plan.dst.run + kLanes);
    room.trash = take(kFilterChunk + kLanes);
    room.wide = take(widest);
    room.left = take(plan.planes * plan.block * left_stride(plan));
    room.result = take(plan.planes * result_stride(plan) + kLanes);
    room.lines = take(plan.dst.gapless ? outputs * (plan.block * smaller(plan.dst.run, kLineRun) + kLanes) : 0);
    const int64_t rows = (plan.block + kTileRows) * row_runs(plan);
    room.rows = reinterpret_cast<const float**>(take(rows * kFloatsPer<const float*>));
    room.targets = reinterpret_cast<Target*>(
        take(in_place(plan) ? smaller(plan.dst.segments, kNearRuns) * plan.block * kFloatsPer<Target> : 0));
    int64_t panels = 1;
    for (int64_t g = 0; plan.zero != nullptr && g < plan.group_count; ++g) {
        panels = larger(panels, group_columns(plan, plan.groups[g]) / kPanel);
    }
    room.spans = reinterpret_cast<Span*>(take(panels * most_spans(plan) * kFloatsPer<Span>));
    room.span_counts = reinterpret_cast<int64_t*>(take(panels * kFloatsPer<int64_t>));
    *bytes = used * static_cast<int64_t>(sizeof(float));
    return room;
}

// The spans of the inner dimension whose weights are not all zero in columns [column, column + kPanel).
int64_t spans_of(const ProductPlan& plan, const TileGroup& group, int plane, int64_t column, Span* spans) {
    const int64_t depth = plan.src.channels, runs = row_runs(plan), per_run = plan.src.segments / runs;
    int64_t count = 0;
    const int64_t first = column / plan.dst.channels;
    const int64_t last = smaller((column + kPanel - 1) / plan.dst.channels, group.target_count - 1);
    for (int64_t s = 0; s < plan.src.segments; ++s) {
        const uint8_t* zero = plan.zero + (plane * plan.src.segments + s) * plan.dst.segments;
        bool all = true;
        for (int64_t t = first; t <= last; ++t) all = all && zero[group.targets[t]];
        if (all) continue;
        const int64_t run = s / per_run, begin = s % per_run * depth;
        if (count > 0 && spans[count - 1].run == run && spans[count - 1].end == begin) {
            spans[count - 1].end += depth;
        } else {
            spans[count++] = {run, begin, begin + depth};
        }
    }
    return count;
}

void transform_block(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, const char* src,
                     const Room& room) {
    const int64_t stride = left_stride(plan);
    const Windows windows{plan.src,
                          src,
                          plan.points,
                          plan.outputs[kFilterAxes - 1],
                          find<Transform::window>(window_code(plan.filter_shape).code),
                          Spread{plan.block * stride, plan.src.run, 0},
                          stride,
                          room.zeros,
                          room.wide};
    for (int64_t t = 0; t < count; ++t) room.rows[t] = room.left + t * stride;
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
}

// A panel of a plane: its weights, and where they lie among those of the group.
const float* panel_at(const ProductPlan& plan, const TileGroup& group, int64_t plane, int64_t column,
                      const float* packed) {
    const int64_t panels = (group_columns(plan, group) + kPanel - 1) / kPanel;
    return packed + (plane * panels + column / kPanel) * plan.src.segments * plan.src.channels * kPanel;
}

// The inner dimension in parts, so that those of both factors stay in the second cache level. Where some of its weights
// are all zero it is one.
struct Depth {
    int64_t all, parts;

    int64_t begin(int64_t part) const { return all * part / parts; }
};

Depth depth_of(const ProductPlan& plan) {
    const int64_t all = plan.src.segments * plan.src.channels;
    return {all, plan.zero == nullptr ? larger((all + kDepth - 1) / kDepth, 1) : 1};
}

// The tiles of a block share out between them what is to be fetched: `depth` rows of a later panel.
struct Shares {
    int64_t size, step;  // bytes

    Shares(int64_t depth, int64_t count) {
        const int64_t tiles = (count + kTileRows - 1) / kTileRows, bytes = kPanel * static_cast<int64_t>(sizeof(float));
        size = depth * bytes / tiles;
        step = larger(bytes / tiles, 1);
    }

    Ahead of(const float* panel, int64_t t) const {
        return {reinterpret_cast<const char*>(panel) + t / kTileRows * size, step};
    }
};

// Elements [begin, end) of the inner dimension.
int64_t spans_between(const ProductPlan& plan, int64_t begin, int64_t end, Span* spans) {
    const int64_t length = row_run(plan);
    int64_t count = 0;
    for (int64_t run = begin / length; run * length < end; ++run) {
        spans[count++] = {run, larger(begin - run * length, 0), smaller(end - run * length, length)};
    }
    return count;
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
    for (int p = 0; p < plan.planes; ++p) {
        const int64_t offset = p * plan.block * left_stride(plan);
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
                for (int64_t t = 0; t < count; t += kTileRows) {
                    float* to[kTileRows];
                    for (float*& row : to) {
                        row = result;
                        result += kFilterChunk;
                    }
                    tile(room.rows + t * runs, runs, offset, room.spans, span_count, length, panel, start, to,
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
    const GatherFn transform = find<Transform::output>(plan.output_shape);
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

// Larger results than caches hold are written past them: nothing is read in to be overwritten.
constexpr int64_t kVastBytes = 24 * 1024 * 1024;

void stream(const float* from, int64_t count, float* to) {
    constexpr int64_t kStep = 8;
    int64_t c = 0;
    for (; c < count && reinterpret_cast<uintptr_t>(to + c) % (kStep * sizeof(float)) != 0; ++c) to[c] = from[c];
    for (; c + kStep <= count; c += kStep) _mm256_stream_ps(to + c, _mm256_loadu_ps(from + c));
    for (; c < count; ++c) to[c] = from[c];
}

// Whole runs that follow each other in memory from tile to tile: a line of them is written at once.
void write_lines(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, const Piece& piece,
                 char* dst, const Room& room) {
    constexpr int last = kFilterAxes - 1;
    const FilterImage& image = plan.dst;
    const GatherFn transform = find<Transform::output>(plan.output_shape);
    const int64_t lines = plan.outputs[0] * plan.outputs[1], per_line = plan.outputs[2];
    const int64_t width = (image.run + kLanes - 1) / kLanes * kLanes;
    const int64_t bytes = plan.batch * image.batch_stride * image.item;
    const bool vast = image.cell == Cell::f32 && bytes > kVastBytes;
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

// Products that are results, whole panels of a run at a time: they need not go through the room.
bool direct(const ProductPlan& plan, const FilterImage& image) {
    return in_place(plan) && image.cell == Cell::f32 && image.run % kPanel == 0;
}

// Where one run of a block's tiles goes.
void find_targets(const ProductPlan& plan, const FilterImage& image, const TileGroup& group, int64_t first,
                  int64_t count, int64_t run, char* dst, Target* targets) {
    constexpr int last = kFilterAxes - 1;
    for_each_line(group.tiles, group.base, plan.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        const LineRun line = line_run(image, p, run);
        int64_t position = line.position;
        for (int64_t i = t; i < t + n; ++i, position += image.step[last]) {
            targets[i].at = reinterpret_cast<float*>(dst + (line.offset + position * image.strides[last]) * image.item);
            targets[i].low = larger(0, -position) * image.channels;
            targets[i].high =
                line.absent ? 0 : smaller(image.fold, image.size[last] - position) * image.channels;
        }
    });
}

// Columns [column, end) of a group that are elements of one run from `n` on.
struct Columns {
    int64_t column, end, n;
    const Target* targets;
};

// Elements [n, n + kPanel) of a run as far as they exist, to or from `room`.
void copy_cut(const Target& target, int64_t n, float* room, bool back) {
    const int64_t from = larger(n, target.low), until = smaller(n + kPanel, target.high);
    if (from >= until) return;
    float *there = target.at + from, *here = room + from - n;
    __builtin_memcpy(back ? there : here, back ? here : there, static_cast<size_t>(until - from) * sizeof(float));
}

// What the tiles of one part of the depth share.
struct Pass {
    const float *packed, *bias;  // no bias: the sums go on
    int64_t span_count;
    int64_t further;  // distance of the panels to fetch, or 0
    int64_t lines;    // of src to fetch beside each panel
    Shares shares;
};

// The results of one row of register tiles, by way of the room where a part of them does not exist.
template <class Rows>
void write_tiles(const ProductPlan& plan, const TileGroup& group, int64_t t, int64_t count, Columns at,
                 const Pass& pass, Fetch<Rows>& fetch, const Room& room) {
    const int64_t all = plan.src.segments * plan.src.channels, present = smaller(count - t, kTileRows);
    const int64_t runs = row_runs(plan), length = row_run(plan);
    const float* panel = panel_at(plan, group, 0, at.column, pass.packed);
    float *to[kTileRows], *below[kTileRows];
    bool whole = true;
    for (int64_t i = 0; i < kTileRows; ++i) {
        const Target& target = at.targets[smaller(t + i, count - 1)];
        whole = whole && at.n >= target.low && at.n + at.end - at.column <= target.high;
        to[i] = target.at + at.n;
        below[i] = at.targets[smaller(t + kTileRows + i, count - 1)].at + at.n;
    }
    for (; at.column < at.end; at.column += kPanel, at.n += kPanel, panel += all * kPanel) {
        for (int64_t i = 0; !whole && i < kTileRows; ++i) {
            to[i] = room.result + smaller(i, present - 1) * kPanel;
            if (pass.bias == nullptr && i < present) copy_cut(at.targets[t + i], at.n, to[i], false);
        }
        const Span* spans = room.spans;
        int64_t span_count = pass.span_count;
        if (plan.zero != nullptr) {
            spans += at.column / kPanel * most_spans(plan);
            span_count = room.span_counts[at.column / kPanel];
        }
        // Stores would wait for their lines one after the other.
        for (float*& line : below) {
            for (int j = 0; j < kPanel; j += 16) __builtin_prefetch(line + j, 1);
            line += kPanel;
        }
        fetch.lines(pass.lines);
        const Ahead ahead = pass.further == 0 ? Ahead{reinterpret_cast<const char*>(panel), 0}
                                              : pass.shares.of(panel + pass.further, t);
        const float* bias = pass.bias == nullptr ? nullptr : pass.bias + at.n;
        tile_product(room.rows + t * runs, runs, 0, spans, span_count, length, panel, bias, to, ahead);
        for (int64_t i = 0; !whole && i < present; ++i) copy_cut(at.targets[t + i], at.n, to[i], true);
        for (int64_t i = 0; i < kTileRows; ++i) to[i] += kPanel;
    }
}

// Columns [begin, end) of products that are results: as many panels at a time as stay near, for one row of tiles after
// the other, so that the rows of both sides are touched in order.
void write_products(const ProductPlan& plan, const FilterImage& image, const TileGroup& group, int64_t first,
                    int64_t count, int64_t begin, int64_t end, const float* packed, const float* bias, char* dst,
                    const Room& room) {
    Depth depth = depth_of(plan);
    const bool all = depth.all * (end - begin) * 4 <= kNearBytes && end <= (begin / image.run + kNearRuns) * image.run;
    if (all) depth.parts = 1;
    const int64_t deep = depth.all / depth.parts, runs = row_runs(plan);
    const int64_t panels = all ? (end - begin) / kPanel : larger(kNearBytes / 2 / (deep * kPanel * 4), 1);
    const int64_t first_column = begin;
    for (int64_t column = begin; plan.zero != nullptr && column < end; column += kPanel) {
        Span* spans = room.spans + column / kPanel * most_spans(plan);
        room.span_counts[column / kPanel] = spans_of(plan, group, 0, column, spans);
    }
    int64_t found = -1;  // the run that room.targets begin with
    for (int64_t stop; begin < end; begin = stop) {
        stop = smaller(begin + panels * kPanel, end);
        if (!all) stop = smaller(stop, (begin / image.run + 1) * image.run);
        const int64_t base = begin / image.run;
        for (int64_t run = base; found != base && run * image.run < stop; ++run) {
            find_targets(plan, image, group, first, count, group.targets[run * image.fold] / image.fold, dst,
                         room.targets + (run - base) * plan.block);
        }
        found = base;
        // The rows of src are fetched once, a few lines beside each panel; later columns find them near.
        const int64_t row_lines = kTileRows * (depth.all / 16 + runs);
        const int64_t once = begin > first_column ? 0 : row_lines * kPanel / (stop - begin) + 1;
        for (int64_t part = 0; part < depth.parts; ++part) {
            Pass pass{packed, part == 0 ? bias : nullptr, 0, 0, part == 0 ? once : 0, {deep, count}};
            if (plan.zero == nullptr) {
                pass.span_count = spans_between(plan, depth.begin(part), depth.begin(part + 1), room.spans);
            }
            // the next panels of this part of the depth, or these of the next
            const bool deeper = part + 1 < depth.parts;
            if (!all) pass.further = deeper ? depth.begin(part + 1) * kPanel : (stop - begin) * depth.all;
            for (int64_t t = 0; t < count; t += kTileRows) {
                Fetch fetch{[&](int64_t i) { return room.rows[i]; }, smaller(t + kTileRows, count) * runs,
                            smaller(t + 2 * kTileRows, count) * runs, row_run(plan)};
                Columns at{begin, begin, 0, room.targets};
                for (; at.column < stop; at.column = at.end, at.targets += plan.block) {
                    at.end = smaller((at.column / image.run + 1) * image.run, stop);
                    at.n = at.column % image.run;
                    write_tiles(plan, group, t, count, at, pass, fetch, room);
                }
            }
        }
    }
}

void run_task(const ProductPlan& plan, int64_t task, const char* src, const float* packed, const float* bias, char* dst,
              const Room& room) {
    const TileGroup* group = plan.groups;
    while (task >= group->first_task + group->blocks * group->parts) ++group;
    task -= group->first_task;
    const int64_t tiles = plan.batch * group->tiles[0] * group->tiles[1] * group->tiles[2];
    // Blocks of equal size: a short last one would leave a thread idle.
    const int64_t block = task / group->parts, part = task % group->parts;
    const int64_t first = tiles * block / group->blocks;
    const int64_t count = tiles * (block + 1) / group->blocks - first;
    const int64_t all = group_columns(plan, *group);
    const int64_t chunks = (all + kFilterChunk - 1) / kFilterChunk;
    const FilterImage image = group->folded ? plan.dst : unfolded(plan.dst);
    if (in_place(plan)) find_block(plan, *group, first, count, src, room);
    else transform_block(plan, *group, first, count, src, room);
    const int64_t runs = row_runs(plan);
    for (int64_t i = count * runs; i < (count + kTileRows) * runs; ++i) room.rows[i] = room.rows[i - runs];
    if (direct(plan, image)) {
        const int64_t panels = all / kPanel, stop = panels * (part + 1) / group->parts * kPanel;
        write_products(plan, image, *group, first, count, panels * part / group->parts * kPanel, stop,
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
