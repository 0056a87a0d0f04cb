// A thread's scratch memory for dgrad and fprop, and spans and panels of the inner dimension: for the products
// in place and by strips.
#pragma once

#include "kernels/isa/product/tiles.hpp"
#include "kernels/isa/vector/scratch_carver.hpp"
#include "kernels/isa/epilogue/rows.hpp"
#include "kernels/kernel.hpp"

namespace dgo::DGO_ISA {

// Elements of a run below which results are put together to whole lines before they are written.
constexpr int64_t kLineRun = 64;

// Floats of one plane of the results of a block, or of all tiles, up to the last row of a register tile.
inline int64_t result_stride(const ProductParams& params) {
    return plane_stride(round_up(larger(params.block, params.shared), kTileRows) * kFilterChunk);
}

constexpr int64_t kNearRuns = 16;
constexpr int64_t kDepth = 2048;  // steps of the inner dimension in one pass

inline bool is_vast(const ProductParams& params) {
    return params.dst.type == ElementType::f32 && params.batch * params.dst.batch_stride * params.dst.item > kVastBytes;
}

constexpr int64_t kFetchedPartBytes = 16 * 1024;  // weights of a panel that are fetched while others are multiplied

// Rows and columns of results that are put together in scratch memory: a few register tiles, so that panels stay near.
constexpr int64_t kStagedRows = 4 * kTileRows;
constexpr int64_t kStagedColumns = 512;

using Target = RunTarget<float>;

// A part of the inner dimension: the address of its elements in the first row, and where its weights begin in a panel.
struct Term {
    const float* at;
    int64_t begin, count;
};

// The operands of post-ops that lie as dst does.
struct Beside {
    static constexpr int kMost = 3;
    int64_t from_dst[kMost];  // bytes
    int count = 0;  // operands that are fetched while sums are computed
    bool over = false;  // an operand lies where the results go

    Beside(const EpilogueCall& epilogue, const char* dst, bool fetched) {
        if (epilogue.params == nullptr) return;
        for (const EpilogueStep *step = epilogue.params->steps, *end = step + epilogue.params->count; step != end;
             ++step) {
            const int64_t sides[] = {step->left, step->right};
            for (const int64_t number : sides) {
                const int64_t operand = number - kEpilogueOperands;
                if (operand < 0) continue;
                const EpilogueOperand& read = epilogue.params->operands[operand];
                if (read.spread != EpilogueSpread::full || read.type != ElementType::f32) continue;
                const int64_t distance = epilogue.operands[operand] - dst;
                over = over || distance == 0;
                if (fetched && count < kMost) from_dst[count++] = distance;
            }
        }
    }
};

struct ProductScratch {
    int64_t bytes;
    float *zeros, *bias, *trash, *wide, *left, *result, *lines, *columns_bias;
    const float** rows;  // [tile][run]: the left factor, a run at a time, the last one repeated for a register tile
    Target* targets;  // [run][tile]: the addresses of results
    Span* spans;  // [panel of a group][span]
    int64_t* span_counts;  // [panel of a group]
    const float** starts;  // [run]: of the first row of a line; null where there is none
    Term* terms;  // [span]
    DotTerm* dot_terms;  // [segment]
    const Beside* beside;
    EpilogueRows* epilogue;  // the post-ops of results; null: none
};

// Returns the epilogue of results that are written already; null if registers have applied all of it.
inline EpilogueRows* epilogue_behind(const ProductParams& params, const ProductScratch& scratch) {
    return params.activation.as == FusedActivation::As::it_is ? scratch.epilogue : nullptr;
}

// Returns the number of tiles whose rows, targets and copies are looked up at once.
inline int64_t found_tiles(const ProductParams& params) { return params.strips ? kStagedRows : params.block; }

// Returns the elements (f32, or bf16 with a dot) from one plane of the left factor to the next.
inline int64_t left_plane(const ProductParams& params) {
    const int64_t elements = larger(found_tiles(params), params.shared) * left_stride(params);
    return params.dot != nullptr ? 2 * plane_stride(ceil_div(elements, 2)) : plane_stride(elements);
}

inline int64_t left_floats(const ProductParams& params) {
    return params.planes * left_plane(params) / (params.dot != nullptr ? 2 : 1);
}

// Returns the bytes of a packed weight.
inline int64_t packed_item(const ProductParams& params) { return params.dot != nullptr ? params.dot->item : 4; }

// Whether the left factor is read in src: with direct axes alone nothing is transformed.
inline bool in_place(const ProductParams& params) { return params.planes == 1; }

// Returns the number of runs in a row of the left factor, and their length.
inline int64_t row_runs(const ProductParams& params) { return in_place(params) ? params.src.runs : 1; }
inline int64_t row_run(const ProductParams& params) {
    return in_place(params) ? params.src.run : params.src.segments * params.src.channels;
}

inline int64_t most_spans(const ProductParams& params) { return params.src.segments + 1; }

inline int64_t group_columns(const ProductParams& params, const TargetGroup& group) {
    return group.target_count * params.dst.channels;
}

// to[group][element of a run] = the bias.
inline void widen_bias(const ProductParams& params, const char* bias, float* to) {
    const int64_t channels = params.dst.channels, fold = params.dst.fold;
    for (int64_t i = 0; params.has_bias && i < params.channel_groups * fold; ++i) {
        const char* from = bias + i / fold * channels * (params.bias_type == ElementType::f32 ? 4 : 2);
        widen(params.bias_type, from, channels, to + i * channels);
    }
}

// Finds the addresses in dst of one run of a block's tiles.
template <class T>
void find_targets(const ProductParams& params, const FilterImage& image, const TargetGroup& group, int64_t first,
                  int64_t count, int64_t run, char* dst, RunTarget<T>* targets) {
    constexpr int last = kFilterAxes - 1;
    for_each_line(group.tiles, group.base, params.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        const LineRun line = line_run(image, p, run);
        int64_t position = line.position;
        for (int64_t i = t; i < t + n; ++i, position += image.step[last]) {
            targets[i].at = reinterpret_cast<T*>(dst + (line.offset + position * image.strides[last]) * image.item);
            targets[i].low = larger(0, -position) * image.channels;
            targets[i].high = line.absent ? 0 : smaller(image.fold, image.size[last] - position) * image.channels;
        }
    });
}

// Calls visit(row, to, low, count) for the elements that exist of [begin, end) of the targets' runs, `item` T apart; rows
// are `step` apart.
template <class T, class Row, class Visit>
DGO_INLINE void visit_targets(const RunTarget<T>* targets, int64_t count, int64_t begin, int64_t end, int64_t item,
                              Row* rows, int64_t step, Visit&& visit) {
    for (int64_t i = 0; i < count; ++i) {
        const RunTarget<T>& target = targets[i];
        const int64_t low = larger(begin, target.low), high = smaller(end, target.high);
        if (low < high) visit(rows + i * step + low - begin, target.at + low * item, low, high - low);
    }
}

inline ProductScratch divide(const ProductParams& params, char* memory) {
    ScratchCarver carver(memory);
    ProductScratch scratch;
    const int64_t outputs = params.outputs[0] * params.outputs[1] * params.outputs[2];
    const int64_t widest = larger(params.src.run * params.planes, kFilterChunk * outputs);
    const int64_t found = found_tiles(params);
    scratch.zeros = carver.take(larger(params.src.run, kFilterChunk) + kLanes);
    scratch.bias = carver.take(params.channel_groups * params.dst.run + kLanes);
    scratch.trash = carver.take(kFilterChunk + kLanes);
    scratch.wide = carver.take(widest);
    const bool shared = params.shared > 0;
    scratch.left = carver.take(shared ? 0 : left_floats(params));
    const int64_t staged = in_place(params) ? kStagedRows * kStagedColumns : 0;
    const int64_t results = params.strips || shared ? 0 : params.planes * result_stride(params);
    scratch.result = carver.take(larger(results, staged) + kLanes);
    scratch.columns_bias = carver.take(in_place(params) ? kStagedColumns : 0);
    const bool lines = params.dst.gapless && !params.strips;
    const int64_t row_step = params.src.step[kFilterAxes - 1] * params.src.channels;
    const int64_t of_run = (params.line_rows + kTileRows) * row_step + params.src.run + kLanes;
    scratch.lines = carver.take(lines ? outputs * (params.block * smaller(params.dst.run, kLineRun) + kLanes)
                                : params.line_rows > 0 ? params.src.runs * of_run
                                                       : 0);
    scratch.rows = carver.take<const float*>(in_place(params) ? (found + kTileRows) * params.src.runs : 0);
    scratch.targets = carver.take<Target>(in_place(params) ? smaller(params.dst.segments, kNearRuns) * found : 0);
    int64_t panels = 1;
    for (int64_t g = 0; params.zero != nullptr && g < params.group_count; ++g) {
        panels = larger(panels, ceil_div(group_columns(params, params.groups[g]), kPanel));
    }
    scratch.spans = carver.take<Span>(panels * most_spans(params));
    scratch.span_counts = carver.take<int64_t>(panels);
    scratch.starts = carver.take<const float*>(params.strips ? params.src.runs : 0);
    scratch.terms = carver.take<Term>(params.strips ? most_spans(params) : 0);
    scratch.dot_terms = carver.take<DotTerm>(params.dot != nullptr ? params.src.segments : 0);
    scratch.epilogue = nullptr;
    scratch.bytes = carver.bytes;
    return scratch;
}

// Whether the weights of a segment are all zero in `count` columns from `column` on.
inline bool all_zero(const ProductParams& params, const TargetGroup& group, int64_t plane, int64_t segment,
                     int64_t column, int64_t count) {
    if (params.zero == nullptr) return false;
    const uint8_t* zero = params.zero + (plane * params.src.segments + segment) * params.dst.segments;
    const int64_t last = smaller((column + count - 1) / params.dst.channels, group.target_count - 1);
    for (int64_t t = column / params.dst.channels; t <= last; ++t) {
        if (!zero[group.targets[t]]) return false;
    }
    return true;
}

// Lists the spans of the inner dimension whose weights are not all zero in columns [column, column + kPanel); returns
// their number.
inline int64_t spans_of(const ProductParams& params, const TargetGroup& group, int plane, int64_t column, Span* spans) {
    const int64_t depth = params.src.channels, runs = row_runs(params), per_run = params.src.segments / runs;
    int64_t count = 0;
    for (int64_t s = 0; s < params.src.segments; ++s) {
        if (all_zero(params, group, plane, s, column, kPanel)) continue;
        const int64_t run = s / per_run, begin = s % per_run * depth;
        if (count > 0 && spans[count - 1].run == run && spans[count - 1].end == begin) {
            spans[count - 1].end += depth;
        } else {
            spans[count++] = {run, begin, begin + depth};
        }
    }
    return count;
}

// Lists, for every panel of columns [begin, end), the spans of k with weights other than zero, in scratch.spans and
// scratch.span_counts.
inline void find_spans(const ProductParams& params, const TargetGroup& group, int64_t begin, int64_t end,
                       const ProductScratch& scratch) {
    for (int64_t column = begin; params.zero != nullptr && column < end; column += kPanel) {
        Span* spans = scratch.spans + column / kPanel * most_spans(params);
        scratch.span_counts[column / kPanel] = spans_of(params, group, 0, column, spans);
    }
}

struct Spans {
    const Span* at;
    int64_t count;
};

// Returns the spans of the panel at a column; the first `all` of scratch.spans if no weights are all zero.
inline Spans spans_at(const ProductParams& params, int64_t column, int64_t all, const ProductScratch& scratch) {
    if (params.zero == nullptr) return {scratch.spans, all};
    return {scratch.spans + column / kPanel * most_spans(params), scratch.span_counts[column / kPanel]};
}

// Returns the address of a panel of a plane within the packed weights of a group.
inline const float* panel_at(const ProductParams& params, const TargetGroup& group, int64_t plane, int64_t column,
                             const float* packed) {
    const int64_t width = round_up(group_columns(params, group), kLanes);
    return packed + (plane * width + column) * params.src.segments * params.src.channels;
}

// The inner dimension in parts, so that the part of each factor stays in the second cache level. It is one part where
// some of its weights are all zero.
struct Depth {
    int64_t all, parts;

    int64_t begin(int64_t part) const { return all * part / parts; }
};

inline Depth depth_of(const ProductParams& params) {
    const int64_t all = params.src.segments * params.src.channels;
    return {all, params.zero == nullptr ? larger(ceil_div(all, kDepth), 1) : 1};
}

// Divides the fetching of `depth` rows of a later panel between the tiles of a block.
struct FetchSplit {
    int64_t size, step;  // bytes

    FetchSplit(int64_t depth, int64_t count) {
        const int64_t tiles = ceil_div(count, kTileRows), bytes = kPanel * static_cast<int64_t>(sizeof(float));
        size = depth * bytes / tiles;
        step = larger(bytes / tiles, 1);
    }

    Ahead of(const float* panel, int64_t t) const {
        return {reinterpret_cast<const char*>(panel) + t / kTileRows * size, step};
    }
};

// Lists the spans of elements [begin, end) of the inner dimension; returns their number.
inline int64_t spans_between(const ProductParams& params, int64_t begin, int64_t end, Span* spans) {
    const int64_t length = row_run(params);
    int64_t count = 0;
    for (int64_t run = begin / length; run * length < end; ++run) {
        spans[count++] = {run, larger(begin - run * length, 0), smaller(end - run * length, length)};
    }
    return count;
}

}  // namespace dgo::DGO_ISA
