// dst rows = sums of src rows, where both lie a step apart: along a line of the last axis, away from its ends, no
// address is looked up, and narrow results are written straight to dst.
#pragma once

#include "kernels/isa/filtering/product_in_place.hpp"
#include "kernels/isa/vector/elements_of_rows.hpp"

namespace dgo::DGO_ISA {

constexpr int kOneVectorRows = kWide ? 24 : 12;

// Rows of a register tile: one vector of columns leaves registers for more rows.
template <int kVectors>
constexpr int kStripRows = kVectors == 1 ? kOneVectorRows : kTileRows;

constexpr int kMoreRows = 28;  // of one vector: tiles for strips of which tiles of 24 rows leave a rest

constexpr int kFewestRows = 8;  // rows of a strip
constexpr int64_t kStripFloats = 1 << 13;  // results that stay near for the epilogue
constexpr int kFewSteps = 4;  // steps of the depth without a branch

// Multiplies elements of rows that lie a step apart, a few at a time. kIndexed: an instruction addresses them by two
// registers.
template <int kVectors, int kRows, bool kIndexed = kWide && kVectors == 1>
struct RowElements {
    const float* at[kRows];
    int64_t done = 0;

    DGO_INLINE RowElements(const float* first, int64_t step) {
#pragma GCC unroll 28
        for (int i = 0; i < kRows; ++i) at[i] = first + i * step;
    }
    template <int kCount>
    DGO_INLINE void multiply(const float* weights, Lanes (&sum)[kRows][kVectors]) {
#pragma GCC unroll 8
        for (int u = 0; u < kCount; ++u) tile_step(at, done + u, weights + u * panel_pitch(kVectors * kLanes), sum);
        done += kCount;
    }
};

// With one vector of columns, computing addresses would take too long: five rows share a pointer.
template <int kRows>
struct RowElements<1, kRows, true> {
    static constexpr int kPointers = (kRows + 4) / 5;
    const float* at[kPointers];
    int64_t step, three;  // bytes

    DGO_INLINE RowElements(const float* first, int64_t apart) : step(apart * 4), three(apart * 12) {
#pragma GCC unroll 6
        for (int i = 0; i < kPointers; ++i) at[i] = first + 5 * i * apart;
    }
    template <int kByte, int kRow>
    DGO_INLINE void row(Lanes weights, Lanes (&sum)[kRows][1]) const {
        const float* const base = at[kRow / 5];
        Lanes& to = sum[kRow][0];
        if constexpr (kRow % 5 == 0) {
            asm("vfmadd231ps %c3(%2)%{1to16%}, %1, %0" : "+v"(to) : "v"(weights), "r"(base), "i"(kByte));
        } else if constexpr (kRow % 5 == 3) {
            asm("vfmadd231ps %c4(%2,%3)%{1to16%}, %1, %0" : "+v"(to) : "v"(weights), "r"(base), "r"(three), "i"(kByte));
        } else {
            asm("vfmadd231ps %c4(%2,%3,%c5)%{1to16%}, %1, %0"
                : "+v"(to)
                : "v"(weights), "r"(base), "r"(step), "i"(kByte), "i"(kRow % 5));
        }
        if constexpr (kRow + 1 < kRows) row<kByte, kRow + 1>(weights, sum);
    }
    template <int kCount, int kFirst = 0>
    DGO_INLINE void multiply(const float* weights, Lanes (&sum)[kRows][1]) {
        row<kFirst * 4, 0>(*reinterpret_cast<const LanesAt*>(weights + kFirst * kLanes), sum);
        if constexpr (kFirst + 1 < kCount) {
            multiply<kCount, kFirst + 1>(weights, sum);
        } else {
#pragma GCC unroll 6
            for (int i = 0; i < kPointers; ++i) at[i] += kCount;
        }
    }
};

// The operands of post-ops of some rows, which lie as the rows of dst do.
struct RowsBeside {
    const char* at[Beside::kMost];
    int64_t step;  // bytes
    int count;

    RowsBeside(const Beside& beside, const char* dst, int64_t bytes) : step(bytes), count(beside.count) {
        for (int i = 0; i < count; ++i) at[i] = dst + beside.from_dst[i];
    }
    DGO_INLINE void fetch(int64_t row, int64_t end, int64_t bytes) const {
        for (int i = 0; i < count; ++i) {
            for (int64_t r = row; r < end; ++r) {
                for (int64_t b = 0; b < bytes; b += 64) _mm_prefetch(at[i] + r * step + b, _MM_HINT_T0);
            }
        }
    }
};

constexpr int64_t kFarBytes = 1 << 20;  // results of more bytes leave the second cache level

// Rows of results in their type, the steps of a Strip apart. Of the last vector `last` columns are written. ahead: bytes
// from a row to the one that is fetched, for which stores would wait; 0: none.
struct StripRows {
    ElementType type;
    char* at;
    int64_t last, ahead;
};

// to[i * to_step][:] = bias + sum over the terms of at[i * row_step][k] * panel[begin + k][:], for rows from `first` on,
// whole tiles of kRows, rounded to the type of `to`.
template <int kVectors, int kRows>
__attribute__((noinline)) void multiply_terms(const Term* terms, int64_t term_count, Strip strip, int64_t first,
                                              const float* panel, const float* bias, const StripRows& to,
                                              const FusedActivation& activation, const RowsBeside& beside) {
    constexpr int64_t kPitch = panel_pitch(kVectors * kLanes);
    const int64_t row_step = strip.row_step, item = to.type == ElementType::f32 ? 4 : 2;
    Lanes sum[kRows][kVectors];
    for (int64_t t = first; t < strip.count; t += kRows) {
#pragma GCC unroll 28
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) sum[i][j] = *reinterpret_cast<const LanesAt*>(bias + j * kLanes);
        }
        beside.fetch(t + kRows, t + 2 * kRows, kVectors * kLanes * 4);
        for (int64_t i = 0; to.ahead != 0 && i < kRows; ++i) {
            const char* const row = to.at + (t + i) * strip.to_step * item + to.ahead;
            for (int j = 0; j < kVectors; ++j) __builtin_prefetch(row + j * kLanes * item, 1);
        }
        for (const Term* term = terms; term != terms + term_count; ++term) {
            RowElements<kVectors, kRows> rows(term->at + t * row_step, row_step);
            const float* b = panel + term->begin * kPitch;
            int64_t k = 0;
            for (; k + kSteps <= term->count; k += kSteps, b += kSteps * kPitch) {
                rows.template multiply<kSteps>(b, sum);
            }
            for (; k + kFewSteps <= term->count; k += kFewSteps, b += kFewSteps * kPitch) {
                rows.template multiply<kFewSteps>(b, sum);
            }
            for (; k < term->count; ++k, b += kPitch) rows.template multiply<1>(b, sum);
        }
        activate_tile(activation, sum);
        with_type(to.type, [&](auto type) __attribute__((always_inline)) {
            using D = decltype(type);
            auto* row = reinterpret_cast<typename D::T*>(to.at) + t * strip.to_step;
#pragma GCC unroll 28
            for (int i = 0; i < kRows; ++i, row += strip.to_step) {
#pragma GCC unroll 2
                for (int j = 0; j + 1 < kVectors; ++j) store_float<D, kLanes>(row + j * kLanes, sum[i][j]);
                store_lanes<D>(row + (kVectors - 1) * kLanes, sum[i][kVectors - 1], to.last);
            }
        });
    }
}

// Computes any number of rows from kFewestRows on; some of the last ones are computed twice.
template <int kVectors>
inline void multiply_strip(const Term* terms, int64_t term_count, Strip strip, const float* panel, const float* bias,
                           const StripRows& to, const FusedActivation& activation, const RowsBeside& beside) {
    constexpr int kMost = kStripRows<kVectors>, kThird = kMost / 3;
    const int64_t count = strip.count, whole = count / kMost * kMost, rest = count - whole;
    const auto run = [&](auto multiply, int64_t first, int64_t end) {
        strip.count = end;
        multiply(terms, term_count, strip, first, panel, bias, to, activation, beside);
    };
    const auto most = multiply_terms<kVectors, kMost>, third = multiply_terms<kVectors, kThird>;
    if constexpr (kWide && kVectors == 1) {
        const int64_t tiles = ceil_div(count, kMoreRows);
        if (rest != 0 && count >= kMoreRows && tiles * kMost <= count) {
            const int64_t more = ceil_div(count - tiles * kMost, kMoreRows - kMost), fewer = (tiles - more) * kMost;
            const auto wider = multiply_terms<kVectors, kMoreRows>;
            run(most, 0, fewer);
            run(wider, fewer, fewer + (more - 1) * kMoreRows);
            return run(wider, count - kMoreRows, count);
        }
    }
    run(most, 0, whole);
    if (rest == 0) return;
    if (rest > 2 * kThird && count >= kMost) return run(most, count - kMost, count);
    const bool two = rest > kThird && count >= 2 * kThird;
    run(two ? multiply_terms<kVectors, 2 * kThird> : third, count - (two ? 2 : 1) * kThird, count);
    if (rest > (two ? 2 : 1) * kThird) run(third, 0, kThird);
}

// Narrows tiles [begin, end) of a line to those whose runs lie inside the image; the first run begins at `position`.
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
    int64_t copied_length = 0;  // elements of a run in scratch memory
    LineRun copies[kKeptRuns] = {};  // the runs there

    int64_t columns() const { return group_columns(params, group); }
    int64_t run() const { return group.targets[0] / image.fold; }
    int64_t all_spans() const {
        const int64_t depth = params.src.segments * params.src.channels;
        return params.zero == nullptr ? spans_between(params, 0, depth, scratch.spans) : 0;
    }
    bool is_far() const { return params.batch * params.dst.batch_stride * params.dst.item > kFarBytes; }
    bool is_half(int64_t column) const { return columns() - column <= kLanes; }

    // Computes tiles [first, first + count).
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
        const bool copied = params.line_rows > 0;  // with the zeros beside a line
        int64_t begin = 0, end = n;
        keep_whole(image, to.position, begin, end);
        for (int64_t r = 0; r < params.src.runs; ++r) {
            const LineRun from = line_run(params.src, p, r);
            scratch.starts[r] = nullptr;
            if (from.absent || copied) continue;
            keep_whole(params.src, from.position, begin, end);
            const int64_t offset = from.offset + from.position * params.src.strides[axis];
            scratch.starts[r] = reinterpret_cast<const float*>(src) + offset;
        }
        if (end - begin < kFewestRows) begin = end = n;
        add_edges(first, begin);
        add_edges(first + end, n - end);
        const int64_t step = params.src.step[axis] * params.src.strides[axis];
        const int64_t to_step = image.step[axis] * image.strides[axis];
        char* const at = dst + (to.offset + to.position * image.strides[axis]) * image.item;
        const int64_t most = larger(kStripFloats / columns() / kTileRows, 2) * kTileRows;
        // post-ops read results that are to be rounded, or lie where the results go
        const bool moved = image.type != ElementType::f32 ? epilogue_behind(params, scratch) != nullptr
                                                          : scratch.epilogue != nullptr && scratch.beside->over;
        const auto next = [&](int64_t t, int64_t last, int64_t rows) {
            return last - t < rows + kTileRows ? last : t + rows;
        };
        for (int64_t t = begin, stop, ready = copied ? begin : end; t < end; t = stop) {
            if (copied && t == ready) {
                ready = next(t, end, params.line_rows);
                copy_runs(p, t, ready - t, step);
            }
            stop = next(t, ready, most);
            char* const there = at + t * to_step * image.item;
            float* const here = moved ? scratch.result : reinterpret_cast<float*>(there);
            const Strip strip{stop - t, step, moved ? columns() : to_step};
            multiply(t, strip, moved ? ElementType::f32 : image.type, here, there, to_step * image.item);
            if (epilogue_behind(params, scratch) != nullptr) {
                finish(here, strip.to_step, there, to_step * image.item, strip.count);
            }
            if (moved) move(here, strip.count, there, to_step * image.item);
        }
    }

    // Copies the runs of `count` tiles from tile t of a line to scratch memory, as f32, with zeros for absent positions;
    // `step` elements from tile to tile. Runs that earlier lines of results have read are there already.
    void copy_runs(const TilePlace& p, int64_t t, int64_t count, int64_t step) {
        constexpr int last = kFilterAxes - 1;
        const FilterImage& from = params.src;
        const int64_t length = (count - 1) * step + from.run;
        const bool kept = from.runs <= kKeptRuns;
        if (length != copied_length) {
            for (LineRun& run : copies) run.absent = true;
        }
        copied_length = length;
        uint32_t found = 0, taken = 0;  // runs of this line that are there, and their places, as bits
        for (int64_t r = 0; kept && r < from.runs; ++r) {
            const LineRun run = run_at(p, r, t);
            for (int64_t i = 0; !run.absent && i < from.runs; ++i) {
                if (copies[i].absent || copies[i].offset != run.offset || copies[i].position != run.position) continue;
                scratch.starts[r] = scratch.lines + i * length - t * step;
                found |= 1u << r;
                taken |= 1u << i;
                break;
            }
        }
        for (int64_t r = 0; r < from.runs; ++r) {
            const LineRun run = run_at(p, r, t);
            if (run.absent || (kept && (found >> r & 1) != 0)) continue;
            const int64_t i = kept ? __builtin_ctz(~taken) : r;
            if (kept) {
                taken |= 1u << i;
                copies[i] = run;
            }
            float* const to = scratch.lines + i * length;
            widen_run(from, src + (run.offset + run.position * from.channels) * from.item, 0, length,
                      larger(0, -run.position) * from.channels, (from.size[last] - run.position) * from.channels, to);
            scratch.starts[r] = to - t * step;
        }
    }

    // Returns run r of a line of tiles, from tile t on.
    LineRun run_at(const TilePlace& p, int64_t r, int64_t t) const {
        LineRun run = line_run(params.src, p, r);
        run.position += t * params.src.step[kFilterAxes - 1];
        return run;
    }

    // Multiplies rows from tile `first` on, whose results belong to `there` in dst.
    void multiply(int64_t first, Strip strip, ElementType type, void* to, const char* there, int64_t bytes) const {
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
            const RowsBeside beside(*scratch.beside, there + column * image.item, bytes);
            const int64_t item = type == ElementType::f32 ? 4 : 2, before = column * item;
            // the next columns of these rows, or the first of the next strip
            const int64_t ahead = (column + kPanel < width ? kPanel : strip.count * strip.to_step - column) * item;
            strips(scratch.terms, count, strip, panel, bias + column,
                   {type, static_cast<char*>(to) + before, last, is_far() ? ahead : 0}, params.activation, beside);
        }
    }

    // Applies the post-ops to rows that lie `apart`, and belong to `there` in dst, `bytes` from row to row.
    void finish(float* rows, int64_t apart, const char* there, int64_t bytes, int64_t count) const {
        const int64_t width = columns();
        if (bytes == width * image.item && params.channel_groups == 1) {
            scratch.epilogue->add(rows, there, 0, count * width);
        } else {
            for (int64_t i = 0; i < count; ++i) scratch.epilogue->add(rows + i * apart, there + i * bytes, 0, width);
        }
        scratch.epilogue->flush();
    }

    void move(const float* rows, int64_t count, char* to, int64_t bytes) const {
        const int64_t width = columns();
        const bool follow = bytes == width * image.item;
        for (int64_t i = 0, n = follow ? 1 : count; i < n; ++i, rows += width, to += bytes) {
            narrow(image.type, rows, follow ? count * width : width, to);
        }
    }

    // Collects tiles with absent positions: tiles of several lines are multiplied together.
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
            for (int64_t row = 0; row < edges; row += kTileRows) {
                float* to[kTileRows];
                for (int64_t i = 0; i < kTileRows; ++i) to[i] = scratch.result + (row + i) * stride + column;
                tile_of(edges - row, width - column)(scratch.rows + row * runs, runs, spans.at, spans.count,
                                                     row_run(params), panel, bias + column, to,
                                                     Ahead{reinterpret_cast<const char*>(panel), 0}, params.activation);
            }
        }
        write_staged_rows(image, 0, width, 0, edges, stride, reinterpret_cast<const DotTarget*>(scratch.targets), 0,
                          false, scratch.result, epilogue_behind(params, scratch));
        edges = 0;
    }
};

}  // namespace dgo::DGO_ISA
