// Products that are results, written without a transform.
#pragma once

#include "kernels/isa/product/scratch.hpp"

namespace dgo::DGO_ISA {

// Finds the rows of the left factor as addresses of runs in src; only cut runs and runs of bf16 or f16 are copied. Runs
// of bf16 or f16 that overlap or follow each other on a line are widened once, as one row.
inline void find_block(const ProductParams& params, const TargetGroup& group, int64_t first, int64_t count,
                       const char* src, const ProductScratch& scratch) {
    constexpr int last = kFilterAxes - 1;
    const FilterImage& image = params.src;
    const int64_t stride = left_stride(params);
    const bool direct = image.type == ElementType::f32;
    const int64_t step = image.step[last] * image.channels;
    const bool together = !direct && image.strides[last] == image.channels && step <= image.run;
    for_each_line(group.tiles, group.base, params.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        for (int64_t run = 0; run < image.runs; ++run) {
            const LineRun line = line_run(image, p, run);
            int64_t position = line.position;
            const char* data = src + line.offset * image.item;
            if (together && !line.absent) {
                const int64_t length = (n - 1) * step + image.run;
                float* copy = scratch.left + t * stride + run * length;
                widen_run(image, data + position * image.strides[last] * image.item, 0, length,
                          larger(0, -position) * image.channels, (image.size[last] - position) * image.channels, copy);
                for (int64_t i = 0; i < n; ++i) scratch.rows[(t + i) * image.runs + run] = copy + i * step;
                continue;
            }
            for (int64_t i = t; i < t + n; ++i, position += image.step[last]) {
                const float*& row = scratch.rows[i * image.runs + run];
                const char* at = data + position * image.strides[last] * image.item;
                const bool whole = position >= 0 && position + image.fold <= image.size[last];
                if (line.absent || position <= -image.fold || position >= image.size[last]) {
                    row = scratch.zeros;
                } else if (whole && direct) {
                    row = reinterpret_cast<const float*>(at);
                } else {
                    float* copy = scratch.left + i * stride + run * image.run;
                    widen_run(image, at, 0, image.run, larger(0, -position) * image.channels,
                              smaller(image.fold, image.size[last] - position) * image.channels, copy);
                    row = copy;
                }
            }
        }
    });
    const float** end = scratch.rows + count * image.runs;
    for (int64_t i = 0; i < kTileRows * image.runs; ++i) end[i] = end[i - image.runs];
}

// Whether sums are results, in whole panels of a run, or with half a panel after those of the only run: they need no
// scratch memory.
inline bool direct(const ProductParams& params, const FilterImage& image, const TargetGroup& group) {
    const int64_t whole = group_columns(params, group) == image.run ? kLanes : kPanel;
    return in_place(params) && image.type == ElementType::f32 && image.run % whole == 0;
}

// Columns [column, end) of a group, which are elements n, n + 1, ... of one run.
struct ColumnRange {
    int64_t column, end, n;
    const Target* targets;
};

// Copies the elements of [n, n + kPanel) of a run that exist to `scratch`, or back.
inline void copy_cut(const Target& target, int64_t n, float* scratch, bool back) {
    const int64_t from = larger(n, target.low), until = smaller(n + kPanel, target.high);
    if (from >= until) return;
    float *there = target.at + from, *here = scratch + from - n;
    __builtin_memcpy(back ? there : here, back ? here : there, static_cast<size_t>(until - from) * sizeof(float));
}

// Whether register tiles have two panels: both stay near from one tile to the next.
inline bool makes_pairs(int64_t deep) { return kPairs && 2 * deep * kPanel * 4 <= kNearBytes; }

// A pass of all tiles over a part of the depth.
struct Pass {
    const float *packed, *bias;  // this part of the depth adds to earlier sums, without a bias
    bool last;  // the sums are complete after this part of the depth
    int64_t span_count;
    int64_t further;  // distance of the panels to fetch, or 0
    int64_t lines;  // cache lines of src to fetch with each panel
    int64_t deep;
    bool pairs;
    FetchSplit split, second;  // of the next panel; of the one behind it, by tiles of two panels

    Pass(const float* weights, const float* start, bool ends, int64_t deep, int64_t count)
        : packed(weights), bias(start), last(ends), span_count(0), further(0), lines(0), deep(deep),
          pairs(makes_pairs(deep)), split(deep, count),
          second(deep, larger(ceil_div(count, kPairRows) / 2, 1) * kTileRows) {}
};

// Returns how many panels of so many rows are multiplied before further ones.
inline int64_t panels_of(int64_t deep) {
    const int64_t some = larger(kNearBytes / 2 / (deep * kPanel * 4), 1);
    return makes_pairs(deep) ? larger(some, 2) : some;
}

// Computes the results of one row of register tiles, by way of scratch memory where a part of them does not exist.
template <class Rows>
inline void write_tiles(const ProductParams& params, const TargetGroup& group, int64_t t, int64_t count, ColumnRange at,
                        const Pass& pass, Fetch<Rows>& fetch, const ProductScratch& scratch) {
    const int64_t all = params.src.segments * params.src.channels, present = smaller(count - t, kTileRows);
    const int64_t runs = row_runs(params), length = row_run(params);
    const float* panel = panel_at(params, group, 0, at.column, pass.packed);
    float *to[kTileRows], *below[kTileRows];
    bool whole = true;
    const int64_t begin = at.n;
    for (int64_t i = 0; i < kTileRows; ++i) {
        const Target& target = at.targets[smaller(t + i, count - 1)];
        whole = whole && at.n >= target.low && at.n + at.end - at.column <= target.high;
        to[i] = target.at + at.n;
        below[i] = at.targets[smaller(t + kTileRows + i, count - 1)].at + at.n;
    }
    // Fetches the lines of the results, for which stores would wait one after the other.
    const auto fetch_below = [&](int64_t columns) __attribute__((always_inline)) {
        for (float*& line : below) {
            for (int64_t j = 0; j < columns; j += 16) __builtin_prefetch(line + j, 1);
            line += columns;
        }
    };
    // Returns what is fetched between multiplications: panels to come, or where these stay near, rows of src. Other rows
    // are fetched at once, and multiplications wait for them.
    const auto ahead_of = [&](const float* one, const FetchSplit& split) __attribute__((always_inline)) {
        const Ahead rows = pass.further == 0 ? fetch.spread(pass.lines, pass.deep) : Ahead{nullptr, 0};
        if (rows.step == 0) fetch.lines(pass.lines);
        return pass.further == 0 ? rows : split.of(one + pass.further, t);
    };
    const FusedActivation activation = pass.last ? params.activation : FusedActivation{};
    const bool pairs = pass.pairs && whole && params.zero == nullptr;
    for (; pairs && at.column + 2 * kPanel <= at.end; at.column += 2 * kPanel, at.n += 2 * kPanel) {
        const float* bias = pass.bias == nullptr ? nullptr : pass.bias + at.n;
        fetch_below(2 * kPanel);
        for (int64_t i = 0; i < present; i += kPairRows) {
            const Ahead ahead = i == 0 ? ahead_of(panel, pass.split) : ahead_of(panel + all * kPanel, pass.second);
            pair_of(present - i)(scratch.rows + (t + i) * runs, runs, scratch.spans, pass.span_count, length, panel,
                                 all * kPanel, bias, to + i, ahead, activation);
        }
        for (float*& line : to) line += 2 * kPanel;
        panel += 2 * all * kPanel;
    }
    for (; at.column < at.end; at.column += kPanel, at.n += kPanel, panel += all * kPanel) {
        const int64_t columns = smaller(at.end - at.column, kPanel);
        for (int64_t i = 0; !whole && i < kTileRows; ++i) {
            to[i] = scratch.result + smaller(i, present - 1) * kPanel;
            if (pass.bias == nullptr && i < present) copy_cut(at.targets[t + i], at.n, to[i], false);
        }
        const Spans spans = spans_at(params, at.column, pass.span_count, scratch);
        fetch_below(columns);
        const Ahead ahead = spans.count == 0 ? Ahead{nullptr, 0} : ahead_of(panel, pass.split);
        const float* bias = pass.bias == nullptr ? nullptr : pass.bias + at.n;
        tile_of(present, columns)(scratch.rows + t * runs, runs, spans.at, spans.count, length, panel, bias, to, ahead,
                                  activation);
        for (int64_t i = 0; !whole && i < present; ++i) copy_cut(at.targets[t + i], at.n, to[i], true);
        for (int64_t i = 0; i < kTileRows; ++i) to[i] += kPanel;
    }
    if (epilogue_behind(params, scratch) == nullptr || !pass.last) return;
    for (int64_t i = 0; i < present; ++i) {
        const Target& target = at.targets[t + i];
        const int64_t low = larger(begin, target.low), high = smaller(at.n, target.high);
        scratch.epilogue->add(target.at + low, target.at + low, low, high - low);
    }
    scratch.epilogue->flush();
}

// Returns the parts of the depth in which a panel is multiplied whose weights stay near: threads with few tasks each read
// it once, from far away, and fetch a part while they multiply the one before.
inline int64_t parts_of_panel(const ProductParams& params) {
    if (!params.fetches_parts || params.zero != nullptr) return 1;
    const int64_t bytes = depth_of(params).all * kPanel * static_cast<int64_t>(sizeof(float));
    return larger(bytes / kFetchedPartBytes, 1);
}

// Computes columns [begin, end) of the results: as many panels at a time as stay near, for one row of tiles after the
// other, so that the rows of both sides are touched in order.
inline void write_products(const ProductParams& params, const FilterImage& image, const TargetGroup& group,
                           int64_t first, int64_t count, int64_t begin, int64_t end, const float* packed,
                           const float* bias, char* dst, const ProductScratch& scratch) {
    Depth depth = depth_of(params);
    const bool all = depth.all * (end - begin) * 4 <= kNearBytes && end <= (begin / image.run + kNearRuns) * image.run;
    if (all) depth.parts = parts_of_panel(params);
    const int64_t deep = depth.all / depth.parts, runs = row_runs(params);
    const int64_t panels = all ? ceil_div(end - begin, kPanel) : panels_of(deep);
    const int64_t first_column = begin;
    find_spans(params, group, begin, end, scratch);
    int64_t found = -1;  // the run of scratch.targets[0]
    for (int64_t stop; begin < end; begin = stop) {
        stop = smaller(begin + panels * kPanel, end);
        if (!all) stop = smaller(stop, (begin / image.run + 1) * image.run);
        const int64_t base = begin / image.run;
        for (int64_t run = base; found != base && run * image.run < stop; ++run) {
            find_targets(params, image, group, first, count, group.targets[run * image.fold] / image.fold, dst,
                         scratch.targets + (run - base) * params.block);
        }
        found = base;
        // The first columns fetch the rows of src, a few lines next to each panel; later columns find them near.
        int64_t multiplied = 0;  // panels that have weights
        for (int64_t column = begin; column < stop; column += kPanel) {
            multiplied += params.zero == nullptr || spans_at(params, column, 0, scratch).count > 0 ? 1 : 0;
        }
        const int64_t row_lines = kTileRows * (depth.all / 16 + runs);
        const int64_t once = begin > first_column ? 0 : row_lines / larger(multiplied, 1) + 1;
        for (int64_t part = 0; part < depth.parts; ++part) {
            // fetches the next panels of this part of the depth, or these panels in the next part
            const bool deeper = part + 1 < depth.parts;
            Pass pass(packed, part == 0 ? bias : nullptr, !deeper, deep, count);
            if (part == 0) pass.lines = once;
            if (params.zero == nullptr) {
                pass.span_count = spans_between(params, depth.begin(part), depth.begin(part + 1), scratch.spans);
            }
            if (deeper || !all) pass.further = deeper ? depth.begin(part + 1) * kPanel : (stop - begin) * depth.all;
            for (int64_t t = 0; t < count; t += kTileRows) {
                Fetch fetch{[&](int64_t i) { return scratch.rows[i]; }, smaller(t + kTileRows, count) * runs,
                            smaller(t + 2 * kTileRows, count) * runs, row_run(params)};
                ColumnRange at{begin, begin, 0, scratch.targets};
                for (; at.column < stop; at.column = at.end, at.targets += params.block) {
                    at.end = smaller((at.column / image.run + 1) * image.run, stop);
                    at.n = at.column % image.run;
                    write_tiles(params, group, t, count, at, pass, fetch, scratch);
                }
            }
        }
    }
}

// Whether rows of columns are put together in scratch memory before they are written: results that are rounded, or whose
// panels straddle the runs of dst.
inline bool is_staged(const ProductParams& params, const FilterImage& image, const TargetGroup& group) {
    return in_place(params) && image.run % kLanes == 0 && !direct(params, image, group) && depth_of(params).parts == 1;
}

// Writes rows [t, end) of columns [begin, stop) from scratch memory to dst.
inline void write_staged_rows(const FilterImage& image, int64_t begin, int64_t stop, int64_t t, int64_t end,
                              int64_t stride, const DotTarget* targets, int64_t block, bool vast, float* from,
                              EpilogueRows* epilogue) {
    for (int64_t column = begin, next; column < stop; column = next, targets += block) {
        next = smaller((column / image.run + 1) * image.run, stop);
        const int64_t n = column % image.run, until = n + next - column;
        const auto for_each_row = [&](auto visit) __attribute__((always_inline)) {
            visit_targets(targets + t, end - t, n, until, image.item, from + column - begin, stride, visit);
        };
        if (epilogue != nullptr) {
            for_each_row([&](float* row, char* to, int64_t low, int64_t count) { epilogue->add(row, to, low, count); });
            epilogue->flush();
        }
        for_each_row([&](const float* row, char* to, int64_t, int64_t count) {
            if (vast && reinterpret_cast<uintptr_t>(to) % (kLanes * sizeof(float)) == 0) {
                stream(row, count, reinterpret_cast<float*>(to));
            } else {
                narrow(image.type, row, count, to);
            }
        });
    }
}

// Computes columns [begin, end) of the results by way of scratch memory.
inline void write_staged(const ProductParams& params, const FilterImage& image, const TargetGroup& group, int64_t first,
                         int64_t count, int64_t begin, int64_t end, const float* packed, const float* bias, char* dst,
                         const ProductScratch& scratch) {
    const int64_t depth = depth_of(params).all, runs = row_runs(params), length = row_run(params);
    const bool near = depth * (end - begin) * 4 <= kNearBytes, vast = is_vast(params);
    const int64_t most = near ? kStagedColumns : larger(kNearBytes / 2 / (depth * kPanel * 4), 1) * kPanel;
    const FetchSplit split(depth, count);
    const Depth parts{depth, near ? parts_of_panel(params) : 1};
    const FetchSplit split_part(depth / parts.parts, smaller(count, kStagedRows));
    int64_t span_count = params.zero == nullptr ? spans_between(params, 0, depth, scratch.spans) : 0;
    auto* const targets = reinterpret_cast<DotTarget*>(scratch.targets);
    find_spans(params, group, begin, end, scratch);
    for (int64_t column = begin, stop; column < end; column = stop) {
        const int64_t base = column / image.run;
        const int64_t reach = (base + kNearRuns) * image.run / kPanel * kPanel;
        stop = smaller(column + smaller(most, kStagedColumns), smaller(end, reach));
        const int64_t stride = round_up(stop - column, kPanel);
        for (int64_t run = base; run * image.run < stop; ++run) {
            find_targets(params, image, group, first, count, group.targets[run * image.fold] / image.fold, dst,
                         targets + (run - base) * params.block);
        }
        for (int64_t c = column; c < column + stride; ++c) scratch.columns_bias[c - column] = bias[c % image.run];
        const int64_t row_lines = kTileRows * (depth / 16 + runs);
        const int64_t lines = column > begin ? 0 : row_lines * kPanel / (stop - column) + 1;
        for (int64_t t = 0; t < count; t += kStagedRows) {
            const int64_t rows_end = smaller(t + kStagedRows, count);
            Fetch fetch{[&](int64_t i) { return scratch.rows[i]; }, rows_end * runs,
                        smaller(rows_end + kStagedRows, count) * runs, length};
            for (int64_t c = column; c < stop; c += kPanel) {
                Spans spans = spans_at(params, c, span_count, scratch);
                const float* panel = panel_at(params, group, 0, c, packed);
                for (int64_t part = 0; part < parts.parts; ++part) {
                    const bool deeper = part + 1 < parts.parts;
                    if (parts.parts > 1) {
                        const int64_t part_end = parts.begin(part + 1);
                        spans.count = spans_between(params, parts.begin(part), part_end, scratch.spans);
                    }
                    for (int64_t row = t; row < rows_end; row += kTileRows) {
                        float* to[kTileRows];
                        for (int64_t i = 0; i < kTileRows; ++i)
                            to[i] = scratch.result + (row - t + i) * stride + c - column;
                        fetch.lines(lines);
                        const Ahead ahead = deeper ? split_part.of(panel + parts.begin(part + 1) * kPanel, row - t)
                                            : near ? Ahead{reinterpret_cast<const char*>(panel), 0}
                                                   : split.of(panel + (stop - column) * depth, row);
                        tile_of(rows_end - row, stop - c)(scratch.rows + row * runs, runs, spans.at, spans.count,
                                                          length, panel,
                                                          part == 0 ? scratch.columns_bias + c - column : nullptr, to,
                                                          ahead, deeper ? FusedActivation{} : params.activation);
                    }
                }
            }
            write_staged_rows(image, column, stop, t, rows_end, stride, targets, params.block, vast, scratch.result,
                              epilogue_behind(params, scratch));
        }
    }
    if (vast) _mm_sfence();
}

}  // namespace dgo::DGO_ISA
