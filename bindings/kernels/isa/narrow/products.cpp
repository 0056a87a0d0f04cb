// Forward and backward data in the direct form: rows of src by the packed weights of all taps that share them. Rows that
// lie a step apart are read where they are; others are copied.
#include <omp.h>

#include "kernels/isa/filtering/product_scratch.hpp"
#include "kernels/isa/narrow/finish.hpp"
#include "kernels/isa/narrow/vtable.hpp"
#include "kernels/narrow/call.hpp"

namespace dgo::DGO_ISA {
namespace {

// Of results and of the depth at once: the rows of a block stay in the first cache level, and in the second the weights,
// with the rows and the sums of a task.
constexpr int64_t kChunk = 256, kPart = 1024 / kNarrowItem;
constexpr int64_t kColumnBytes = kNarrowColumns * kNarrowItem;  // of a panel, for each element of the depth

// A run of the destination: of it elements [low, high) exist.
struct NarrowTarget {
    char* at;
    int64_t low, high;
};

// Some of the depth whose weights are not all zero: elements of a run, and where their units begin in a panel.
struct NarrowSpan {
    int64_t run, begin, depth, panel;
};

struct NarrowScratch {
    char *zeros, *left;
    NarrowFinish finish;
    NarrowSum *columns_start, *result;
    NarrowRows* rows;  // [16 tiles][run]
    NarrowTarget* targets;  // [run of a chunk][tile]
    NarrowSpan* spans;  // [panel of a chunk][span]
    int64_t* span_counts;
    NarrowTerm* terms;
    TailRows* tail;  // null: nothing
};

int64_t units(const ProductParams& params) { return ceil_div(params.src.channels, kNarrowUnit); }
int64_t panel_bytes(const ProductParams& params) { return params.src.segments * units(params) * kNarrowUnitBytes; }
int64_t parts(const ProductParams& params) { return ceil_div(panel_bytes(params), kPart * kColumnBytes); }
int64_t most_narrow_spans(const ProductParams& params) { return params.src.segments + parts(params); }

// From one copied row to the next: not a multiple of 4 KB apart, which would share one cache set.
int64_t copy_pitch(const ProductParams& params) {
    const int64_t bytes = round_up(params.src.run, kNarrowUnit) * kNarrowItem;
    return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

int64_t runs_of_chunk(const ProductParams& params) {
    return smaller(params.dst.segments, kChunk / params.dst.channels + 2);
}

NarrowScratch divide_narrow(const ProductParams& params, char* memory, int64_t* bytes) {
    ScratchCarver carver(memory);
    NarrowScratch scratch;
    const int64_t groups = ceil_div(params.block, kNarrowRows), runs = params.src.runs;
    scratch.zeros = carver.take<char>(round_up(params.src.run, kNarrowUnit) * kNarrowItem);
    scratch.left = carver.take<char>(groups * runs * kNarrowRows * copy_pitch(params));
    scratch.finish.carve(params, carver);
    scratch.columns_start = carver.take<NarrowSum>(kChunk);
    // what finishes a row may read a panel beyond it
    scratch.result =
        carver.take<NarrowSum>((parts(params) > 1 ? params.block : kNarrowBlockRows) * kChunk + kNarrowColumns);
    scratch.rows = carver.take<NarrowRows>((groups + 1) * runs);
    scratch.targets = carver.take<NarrowTarget>(runs_of_chunk(params) * params.block);
    scratch.spans = carver.take<NarrowSpan>(kChunk / kNarrowColumns * most_narrow_spans(params));
    scratch.span_counts = carver.take<int64_t>(kChunk / kNarrowColumns);
    scratch.terms = carver.take<NarrowTerm>(most_narrow_spans(params));
    scratch.tail = nullptr;
    *bytes = carver.bytes;
    return scratch;
}

// Tiles that follow each other on a line.
struct Piece {
    int64_t t, count;
    TilePlace place;
};

// One run of 16 tiles, copied; what is absent, or fills up, is the filling.
void copy_rows(const FilterImage& image, const char* src, const Piece* pieces, int64_t piece_count, int64_t run,
               int filling, char* to, int64_t pitch) {
    constexpr int last = kFilterAxes - 1;
    const auto width = static_cast<size_t>(round_up(image.run, kNarrowStep) * kNarrowItem);
    int64_t done = 0;
    for (const Piece* piece = pieces; piece != pieces + piece_count; ++piece) {
        const LineRun line = line_run(image, piece->place, run);
        int64_t position = line.position;
        const char* data = src + line.offset * kNarrowItem;
        for (int64_t i = 0; i < piece->count; ++i, ++done, position += image.step[last]) {
            char* row = to + done * pitch;
            const int64_t low = larger(0, -position) * image.channels;
            const int64_t high = line.absent ? 0 : smaller(image.fold, image.size[last] - position) * image.channels;
            if (low > 0 || high * kNarrowItem < static_cast<int64_t>(width)) __builtin_memset(row, filling, width);
            if (low >= high) continue;
            const char* from = data + (position * image.strides[last] + low) * kNarrowItem;
            __builtin_memcpy(row + low * kNarrowItem, from, static_cast<size_t>((high - low) * kNarrowItem));
        }
    }
    for (; done < kNarrowRows; ++done) __builtin_memset(to + done * pitch, filling, width);
}

// The rows of the left factor, 16 at a time.
void find_rows(const ProductParams& params, const TargetGroup& group, int64_t first, int64_t count, const char* src,
               int filling, const NarrowScratch& scratch) {
    constexpr int last = kFilterAxes - 1;
    const FilterImage& image = params.src;
    const int64_t pitch = copy_pitch(params);
    NarrowRows* rows = scratch.rows;
    char* left = scratch.left;
    for (int64_t t = 0; t < count; t += kNarrowRows) {
        Piece pieces[kNarrowRows];
        int64_t piece_count = 0;
        for_each_line(group.tiles, group.base, params.outputs, first + t, smaller(kNarrowRows, count - t),
                      [&](int64_t at, int64_t n, const TilePlace& p) { pieces[piece_count++] = {at, n, p}; });
        for (int64_t run = 0; run < image.runs; ++run, ++rows) {
            const LineRun line = line_run(image, pieces[0].place, run);
            const int64_t end = line.position + (kNarrowRows - 1) * image.step[last] + image.fold;
            const bool alone = pieces[0].count == kNarrowRows;
            if (alone && line.absent) {
                *rows = {scratch.zeros, 0};
            } else if (alone && line.position >= 0 && end <= image.size[last] && image.run % kNarrowStep == 0) {
                *rows = {src + (line.offset + line.position * image.strides[last]) * kNarrowItem,
                         image.step[last] * image.strides[last] * kNarrowItem};
            } else {
                copy_rows(image, src, pieces, piece_count, run, filling, left, pitch);
                *rows = {left, pitch};
                left += kNarrowRows * pitch;
            }
        }
    }
}

void find_narrow_targets(const ProductParams& params, const FilterImage& image, const TargetGroup& group, int64_t first,
                         int64_t count, int64_t run, char* dst, NarrowTarget* targets) {
    constexpr int last = kFilterAxes - 1;
    for_each_line(group.tiles, group.base, params.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        const LineRun line = line_run(image, p, run);
        int64_t position = line.position;
        for (int64_t i = t; i < t + n; ++i, position += image.step[last]) {
            targets[i].at = dst + (line.offset + position * image.strides[last]) * image.item;
            targets[i].low = larger(0, -position) * image.channels;
            targets[i].high = line.absent ? 0 : smaller(image.fold, image.size[last] - position) * image.channels;
        }
    });
}

// The spans of the panel at a column of a group, none in two parts of the depth; neighbours in a run become one where no
// unit is filled up.
int64_t find_narrow_spans(const ProductParams& params, const TargetGroup& group, int64_t column, NarrowSpan* spans) {
    constexpr int64_t kPartBytes = kPart * kColumnBytes;
    const int64_t channels = params.src.channels, fold = params.src.fold;
    const int64_t first = column / params.dst.channels;
    const int64_t last = smaller((column + kNarrowColumns - 1) / params.dst.channels, group.target_count - 1);
    int64_t count = 0;
    for (int64_t s = 0; s < params.src.segments; ++s) {
        bool all = params.zero != nullptr;
        for (int64_t t = first; all && t <= last; ++t) {
            all = params.zero[s * params.dst.segments + group.targets[t]] != 0;
        }
        int64_t panel = s * units(params) * kNarrowUnitBytes;
        for (int64_t done = 0, depth; !all && done < channels; done += depth, panel += depth * kColumnBytes) {
            const int64_t begin = s % fold * channels + done, room = (kPartBytes - panel % kPartBytes) / kColumnBytes;
            depth = smaller(channels - done, room);
            NarrowSpan* before = spans + count - 1;
            if (count > 0 && before->run == s / fold && before->begin + before->depth == begin &&
                before->panel + before->depth * kColumnBytes == panel && panel % kPartBytes != 0) {
                before->depth += depth;
            } else {
                spans[count++] = {s / fold, begin, depth, panel};
            }
        }
    }
    return count;
}

// The terms of up to 32 rows for the spans of one part of the depth, or of all. `below`: so many rows on the second 16
// begin, or 0 where there are none.
int64_t find_terms(const NarrowRows* rows, int64_t below, const NarrowSpan* spans, int64_t count, int64_t part,
                   NarrowTerm* terms) {
    constexpr int64_t kPartBytes = kPart * kColumnBytes;
    int64_t found = 0;
    for (const NarrowSpan* span = spans; span != spans + count; ++span) {
        if (part >= 0 && span->panel / kPartBytes != part) continue;
        const NarrowRows &first = rows[span->run], &second = rows[below + span->run];
        const int64_t begin = span->begin * kNarrowItem;
        terms[found++] = {
            {{first.at + begin, first.pitch}, {second.at + begin, second.pitch}}, span->panel, span->depth};
    }
    return found;
}

// Rows [t, end) of columns [begin, stop) from `result` to where they belong.
void write_rows(const ProductParams& params, const FilterImage& image, int64_t begin, int64_t stop, int64_t t,
                int64_t end, NarrowSum* result, const NarrowScratch& scratch) {
    const NarrowTarget* targets = scratch.targets;
    for (int64_t column = begin, next; column < stop; column = next, targets += params.block) {
        next = smaller((column / image.run + 1) * image.run, stop);
        const int64_t n = column % image.run, until = n + next - column;
        const auto for_each_row = [&](auto visit) __attribute__((always_inline)) {
            for (int64_t i = t; i < end; ++i) {
                const NarrowTarget& target = targets[i];
                const int64_t low = larger(n, target.low), high = smaller(until, target.high);
                if (low >= high) continue;
                visit(result + (i - t) * kChunk + column - begin + low - n, target.at + low * image.item, low,
                      high - low);
            }
        };
        const NarrowFinish& finish = scratch.finish;
        if (scratch.tail == nullptr) {
            for_each_row([&](NarrowSum* row, char* to, int64_t low, int64_t n) {
                finish.scale_and_round(image.cell, row, to, low, n);
            });
        } else {
            for_each_row([&](NarrowSum* row, char* to, int64_t low, int64_t n) { finish.scale(row, to, low, n); });
            for_each_row([&](NarrowSum* row, char* to, int64_t low, int64_t n) {
                scratch.tail->add(reinterpret_cast<float*>(row), to, low, n);
            });
            scratch.tail->flush();
            for_each_row(
                [&](const NarrowSum* row, char* to, int64_t, int64_t n) { finish.round(image.cell, row, n, to); });
        }
    }
}

// Columns [begin, end) of a block of tiles.
void write_columns(const ProductParams& params, const FilterImage& image, const TargetGroup& group, int64_t first,
                   int64_t count, int64_t begin, int64_t end, const char* packed, char* dst,
                   const NarrowScratch& scratch) {
    const int64_t bytes = panel_bytes(params), runs = params.src.runs, most = most_narrow_spans(params);
    // rows of one block find all of their weights once: in order
    const int64_t part_count = count > kNarrowBlockRows ? parts(params) : 1;
    // without zeros all panels have the same spans
    const bool alike = params.zero == nullptr;
    for (int64_t column = begin, stop; column < end; column = stop) {
        stop = smaller(column + kChunk, end);
        const int64_t base = column / image.run;
        for (int64_t run = base; run * image.run < stop; ++run) {
            find_narrow_targets(params, image, group, first, count, group.targets[run * image.fold] / image.fold, dst,
                                scratch.targets + (run - base) * params.block);
        }
        scratch.finish.start(group, image, column, round_up(stop - column, kNarrowColumns), scratch.columns_start);
        for (int64_t c = column; c < (alike ? column + 1 : stop); c += kNarrowColumns) {
            const int64_t panel = (c - column) / kNarrowColumns;
            scratch.span_counts[panel] = find_narrow_spans(params, group, c, scratch.spans + panel * most);
        }
        for (int64_t part = 0; part < part_count; ++part) {
            for (int64_t t = 0; t < count; t += kNarrowBlockRows) {
                const NarrowRows* rows = scratch.rows + t / kNarrowRows * runs;
                const int64_t rows_end = smaller(t + kNarrowBlockRows, count);
                NarrowSum* result = scratch.result + (part_count > 1 ? t * kChunk : 0);
                int64_t terms = 0;
                for (int64_t c = column; c < stop; c += kNarrowColumns) {
                    const int64_t panel = alike ? 0 : (c - column) / kNarrowColumns;
                    if (c == column || !alike) {
                        const int64_t below = rows_end - t > kNarrowRows ? runs : 0;
                        terms = find_terms(rows, below, scratch.spans + panel * most, scratch.span_counts[panel],
                                           part_count > 1 ? part : -1, scratch.terms);
                    }
                    NarrowSum* to = result + c - column;
                    const NarrowSum* start = scratch.columns_start + c - column;
                    const NarrowSums sums{part == 0 ? start : to, part == 0 ? 0 : kChunk, to, kChunk};
                    if (part > 0 && terms == 0) continue;
                    narrow_product(scratch.terms, terms, packed + c / kNarrowColumns * bytes, sums, rows_end - t,
                                   stop - c);
                }
                if (part == part_count - 1) write_rows(params, image, column, stop, t, rows_end, result, scratch);
            }
        }
    }
}

void run_narrow_task(const ProductParams& params, int64_t task, const char* src, const char* packed, char* dst,
                     const NarrowScratch& scratch) {
    const TargetGroup* group = params.groups;
    while (task >= group->first_task + group->blocks * group->parts) ++group;
    task -= group->first_task;
    const int64_t tiles = params.batch * group->tiles[0] * group->tiles[1] * group->tiles[2];
    const int64_t block = task / group->parts, part = task % group->parts;
    const int64_t blocks = ceil_div(tiles, kNarrowBlockRows);
    const int64_t first = blocks * block / group->blocks * kNarrowBlockRows;
    const int64_t count = smaller(blocks * (block + 1) / group->blocks * kNarrowBlockRows, tiles) - first;
    const int64_t all = group_columns(params, *group), panels = ceil_div(all, kNarrowColumns);
    const int64_t begin = panels * part / group->parts * kNarrowColumns;
    const int64_t end = smaller(panels * (part + 1) / group->parts * kNarrowColumns, all);
    find_rows(params, *group, first, count, src, scratch.finish.filling, scratch);
    write_columns(params, group->folded ? params.dst : unfolded(params.dst), *group, first, count, begin, end,
                  packed + group->packed * kNarrowItem, dst, scratch);
}

}  // namespace

int64_t narrow_products_scratch(const ProductParams& params) {
    int64_t bytes = 0;
    divide_narrow(params, nullptr, &bytes);
    return bytes;
}

void run_narrow_products(const ProductParams& params, const NarrowCall& call, char* memory, char* dst) {
#pragma omp parallel num_threads(params.threads)
    {
        int64_t bytes = 0;
        NarrowScratch scratch =
            divide_narrow(params, memory + omp_get_thread_num() * params.scratch_per_thread, &bytes);
        TailRows rows(call.tail, dst, params.dst.item, params.dst.channels);
        if (call.tail.params != nullptr) scratch.tail = &rows;
        scratch.finish.prepare(params, call, dst);
        __builtin_memset(scratch.zeros, scratch.finish.filling,
                         static_cast<size_t>(round_up(params.src.run, kNarrowUnit) * kNarrowItem));
        const NarrowState state;
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < params.tasks * params.channel_groups; ++task) {
            const int64_t g = task / params.tasks;
            rows.first_channel = g * params.dst.channels;
            scratch.finish.group = g;
            run_narrow_task(params, task % params.tasks, call.src + g * params.src.channels * kNarrowItem,
                            call.packed + g * params.packed * kNarrowItem,
                            dst + g * params.dst.channels * params.dst.item, scratch);
        }
    }
}

}  // namespace dgo::DGO_ISA
