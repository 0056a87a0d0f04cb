// Products that are results, of rows that lie a step apart on both sides: along a line of the last axis, away from its
// ends, nothing is looked for, and narrow results are written where they belong.
#pragma once

#include "kernels/isa/filtering/product_in_place.hpp"

namespace dgo::DGO_ISA {

// Rows of a register tile: one vector of columns leaves room for more of them.
template <int kVectors>
constexpr int kStripRows = kVectors == 1 ? 12 : kTileRows;

constexpr int kFewestRows = 4;            // of a strip
constexpr int64_t kStripFloats = 1 << 12;  // results that a tail finds in the first cache level

// to[i * to_step][:] = bias + sum over the terms of at[i * row_step][k] * panel[begin + k][:], for rows from `first` on,
// whole tiles of kRows. Of the last vector `last` columns are written.
template <int kVectors, int kRows>
__attribute__((noinline)) void multiply_terms(const Term* terms, int64_t term_count, Strip strip, int64_t first,
                                              const float* panel, const float* bias, float* to, int64_t last) {
    const int64_t row_step = strip.row_step, to_step = strip.to_step;
    Lanes sum[kRows][kVectors];
    to += first * to_step;
    for (int64_t t = first; t < strip.count; t += kRows, to += kRows * to_step) {
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) sum[i][j] = *reinterpret_cast<const LanesAt*>(bias + j * kLanes);
        }
        for (const Term* term = terms; term != terms + term_count; ++term) {
            const float* a[kRows];
#pragma GCC unroll 16
            for (int i = 0; i < kRows; ++i) a[i] = term->at + (t + i) * row_step;
            const float* b = panel + term->begin * kPanel;
            int64_t k = 0;
            for (; k + kSteps <= term->count; k += kSteps, b += kSteps * kPanel) {
#pragma GCC unroll 8
                for (int u = 0; u < kSteps; ++u) tile_step(a, k + u, b + u * kPanel, sum);
            }
            for (; k < term->count; ++k, b += kPanel) tile_step(a, k, b, sum);
        }
        float* row = to;
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i, row += to_step) {
#pragma GCC unroll 2
            for (int j = 0; j + 1 < kVectors; ++j) *reinterpret_cast<LanesAt*>(row + j * kLanes) = sum[i][j];
            store_some(row + (kVectors - 1) * kLanes, sum[i][kVectors - 1], last);
        }
    }
}

// The same for any number of rows from kFewestRows on; some of the last ones are computed twice.
template <int kVectors>
inline void multiply_strip(const Term* terms, int64_t term_count, Strip strip, const float* panel, const float* bias,
                           float* to, int64_t last) {
    constexpr int kMost = kStripRows<kVectors>, kThird = kMost / 3;
    const int64_t count = strip.count, whole = count / kMost * kMost, rest = count - whole;
    strip.count = whole;
    multiply_terms<kVectors, kMost>(terms, term_count, strip, 0, panel, bias, to, last);
    if (rest == 0) return;
    strip.count = count;
    if (rest <= kThird) {
        multiply_terms<kVectors, kThird>(terms, term_count, strip, count - kThird, panel, bias, to, last);
    } else if (rest > 2 * kThird && count >= kMost) {
        multiply_terms<kVectors, kMost>(terms, term_count, strip, count - kMost, panel, bias, to, last);
    } else if (count >= 2 * kThird) {
        multiply_terms<kVectors, 2 * kThird>(terms, term_count, strip, count - 2 * kThird, panel, bias, to, last);
        if (rest > 2 * kThird) {
            strip.count = kThird;
            multiply_terms<kVectors, kThird>(terms, term_count, strip, 0, panel, bias, to, last);
        }
    } else {
        multiply_terms<kVectors, kThird>(terms, term_count, strip, count - kThird, panel, bias, to, last);
        strip.count = kThird;
        multiply_terms<kVectors, kThird>(terms, term_count, strip, 0, panel, bias, to, last);
    }
}

// Of tiles [begin, end) of a line those whose runs, the first of them at `position`, are whole.
inline void keep_whole(const FilterImage& image, int64_t position, int64_t& begin, int64_t& end) {
    constexpr int last = kFilterAxes - 1;
    const int64_t step = image.step[last], room = image.size[last] - image.fold - position;
    begin = larger(begin, position < 0 ? ceil_div(-position, step) : 0);
    end = room < 0 ? 0 : smaller(end, room / step + 1);
}

struct StripWriter {
    const ProductParams& params;
    const FilterImage& image;
    const TargetGroup& group;
    const char* src;
    char* dst;
    const float *packed, *bias;
    const ProductScratch& scratch;
    int64_t edges = 0;  // tiles that were found

    int64_t columns() const { return group_columns(params, group); }
    int64_t run() const { return group.targets[0] / image.fold; }
    int64_t all_spans() const {
        const int64_t depth = params.src.segments * params.src.channels;
        return params.zero == nullptr ? spans_between(params, 0, depth, scratch.spans) : 0;
    }
    bool is_half(int64_t column) const { return columns() - column <= kLanes; }

    // Tiles [first, first + count).
    void write(int64_t first, int64_t count) {
        find_spans(params, group, 0, columns(), scratch);
        for_each_line(group.tiles, group.base, params.outputs, first, count,
                      [&](int64_t t, int64_t n, const TilePlace& p) { write_line(first + t, n, p); });
        write_edges();
    }

    void write_line(int64_t first, int64_t n, const TilePlace& p) {
        constexpr int axis = kFilterAxes - 1;
        const LineRun to = line_run(image, p, run());
        if (to.absent) return;
        int64_t begin = 0, end = n;
        keep_whole(image, to.position, begin, end);
        for (int64_t r = 0; r < params.src.runs; ++r) {
            const LineRun from = line_run(params.src, p, r);
            scratch.starts[r] = nullptr;
            if (from.absent) continue;
            keep_whole(params.src, from.position, begin, end);
            const int64_t offset = from.offset + from.position * params.src.strides[axis];
            scratch.starts[r] = reinterpret_cast<const float*>(src) + offset;
        }
        if (end - begin < kFewestRows) begin = end = n;
        add_edges(first, begin);
        add_edges(first + end, n - end);
        const int64_t step = params.src.step[axis] * params.src.strides[axis];
        const int64_t to_step = image.step[axis] * image.strides[axis];
        float* const at = reinterpret_cast<float*>(dst) + to.offset + to.position * image.strides[axis];
        const int64_t chunk = larger(kStripFloats / columns() / kTileRows, 2) * kTileRows;
        for (int64_t t = begin, stop; t < end; t = stop) {
            stop = end - t < chunk + kTileRows ? end : t + chunk;
            multiply(t, {stop - t, step, to_step}, at + t * to_step);
            if (scratch.tail != nullptr) finish(at + t * to_step, stop - t, to_step);
        }
    }

    void multiply(int64_t first, Strip strip, float* to) const {
        const int64_t all = all_spans(), width = columns();
        int64_t count = 0;
        for (int64_t column = 0; column < width; column += kPanel) {
            if (column == 0 || params.zero != nullptr) {
                count = 0;
                const Spans spans = spans_at(params, column, all, scratch);
                for (const Span* span = spans.at; span != spans.at + spans.count; ++span) {
                    if (scratch.starts[span->run] == nullptr) continue;
                    const float* at = scratch.starts[span->run] + first * strip.row_step + span->begin;
                    const int64_t begin = span->run * row_run(params) + span->begin;
                    scratch.terms[count++] = {at, begin, span->end - span->begin};
                }
            }
            const float* panel = panel_at(params, group, 0, column, packed);
            const bool half = is_half(column);
            const int64_t last = smaller(width - column - (half ? 0 : kLanes), kLanes);
            const auto strips = half ? &multiply_strip<1> : &multiply_strip<kTileVectors>;
            strips(scratch.terms, count, strip, panel, bias + column, to + column, last);
        }
    }

    void finish(float* at, int64_t count, int64_t step) const {
        const int64_t width = columns();
        if (step == width && params.channel_groups == 1) {
            scratch.tail->add(at, at, 0, count * width);
        } else {
            for (int64_t i = 0; i < count; ++i, at += step) scratch.tail->add(at, at, 0, width);
        }
        scratch.tail->flush();
    }

    // Tiles with positions that are absent: those of several lines are multiplied together.
    void add_edges(int64_t first, int64_t count) {
        for (int64_t n; count > 0; first += n, count -= n) {
            n = smaller(count, kStagedRows - edges);
            ProductScratch found = scratch;
            found.rows += edges * params.src.runs;
            found.left += edges * left_stride(params);
            find_block(params, group, first, n, src, found);
            find_targets(params, image, group, first, n, run(), dst, found.targets + edges);
            edges += n;
            if (edges == kStagedRows) write_edges();
        }
    }

    void write_edges() {
        if (edges == 0) return;
        const int64_t runs = row_runs(params), width = columns(), stride = round_up(width, kPanel);
        const int64_t all = all_spans();
        for (int64_t column = 0; column < width; column += kPanel) {
            const Spans spans = spans_at(params, column, all, scratch);
            const float* panel = panel_at(params, group, 0, column, packed);
            const auto tile = is_half(column) ? &tile_product<1> : &tile_product<kTileVectors>;
            for (int64_t row = 0; row < edges; row += kTileRows) {
                float* to[kTileRows];
                for (int64_t i = 0; i < kTileRows; ++i) to[i] = scratch.result + (row + i) * stride + column;
                tile(scratch.rows + row * runs, runs, spans.at, spans.count, row_run(params), panel, bias + column, to,
                     Ahead{reinterpret_cast<const char*>(panel), 0});
            }
        }
        write_staged_rows(image, 0, width, 0, edges, stride, scratch.targets, 0, false, scratch.result, scratch.tail);
        edges = 0;
    }
};

}  // namespace dgo::DGO_ISA
