// What the two ways of computing forward and backward data share: the room of a thread, spans and panels of the inner
// dimension.
#pragma once

#include "kernels/isa/filtering/tiles.hpp"
#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/parts.hpp"

namespace dgo::DGO_ISA {

// Results whose runs are narrower than this are put together to whole lines before they are written.
constexpr int64_t kLineRun = 64;

// Floats of one plane of a block's results, up to the last row of a register tile.
inline int64_t result_stride(const ProductPlan& plan) {
    return plane_stride(round_up(plan.block, kTileRows) * kFilterChunk);
}

inline int64_t left_plane(const ProductPlan& plan) { return plane_stride(plan.block * left_stride(plan)); }

constexpr int64_t kNearRuns = 16;
constexpr int64_t kDepth = 2048;  // of the inner dimension at once

inline bool is_vast(const ProductPlan& plan) {
    return plan.dst.cell == Cell::f32 && plan.batch * plan.dst.batch_stride * plan.dst.item > kVastBytes;
}

// Results put together in the room before they are written: rows of a few register tiles, which find panels near.
constexpr int64_t kStagedRows = 4 * kTileRows;
constexpr int64_t kStagedColumns = 512;

// A run of the destination: of it elements [low, high) exist.
struct Target {
    float* at;
    int64_t low, high;
};

struct Room {
    float *zeros, *bias, *trash, *wide, *left, *result, *lines, *columns_bias;
    const float** rows;    // [tile][run]: the left factor, a run at a time, the last one repeated for a register tile
    Target* targets;       // [run][tile]: where products go that are results
    Span* spans;           // [panel of a group][span]
    int64_t* span_counts;  // [panel of a group]
};

// On direct axes alone nothing is transformed: the left factor is read where it is.
inline bool in_place(const ProductPlan& plan) { return plan.planes == 1; }

// The runs that a row of the left factor consists of, and their length.
inline int64_t row_runs(const ProductPlan& plan) { return in_place(plan) ? plan.src.runs : 1; }
inline int64_t row_run(const ProductPlan& plan) {
    return in_place(plan) ? plan.src.run : plan.src.segments * plan.src.channels;
}

inline int64_t most_spans(const ProductPlan& plan) { return plan.src.segments + 1; }

inline int64_t group_columns(const ProductPlan& plan, const TileGroup& group) {
    return group.target_count * plan.dst.channels;
}

inline Room divide(const ProductPlan& plan, char* scratch, int64_t* bytes) {
    Parts parts(scratch);
    Room room;
    const int64_t outputs = plan.outputs[0] * plan.outputs[1] * plan.outputs[2];
    const int64_t widest = larger(plan.src.run * plan.planes, kFilterChunk * outputs);
    room.zeros = parts.take(larger(plan.src.run, kFilterChunk) + kLanes);
    room.bias = parts.take(plan.channel_groups * plan.dst.run + kLanes);
    room.trash = parts.take(kFilterChunk + kLanes);
    room.wide = parts.take(widest);
    room.left = parts.take(plan.planes * left_plane(plan));
    const int64_t staged = in_place(plan) ? kStagedRows * kStagedColumns : 0;
    room.result = parts.take(larger(plan.planes * result_stride(plan), staged) + kLanes);
    room.columns_bias = parts.take(in_place(plan) ? kStagedColumns : 0);
    room.lines = parts.take(plan.dst.gapless ? outputs * (plan.block * smaller(plan.dst.run, kLineRun) + kLanes) : 0);
    room.rows = parts.take<const float*>(in_place(plan) ? (plan.block + kTileRows) * plan.src.runs : 0);
    room.targets = parts.take<Target>(in_place(plan) ? smaller(plan.dst.segments, kNearRuns) * plan.block : 0);
    int64_t panels = 1;
    for (int64_t g = 0; plan.zero != nullptr && g < plan.group_count; ++g) {
        panels = larger(panels, ceil_div(group_columns(plan, plan.groups[g]), kPanel));
    }
    room.spans = parts.take<Span>(panels * most_spans(plan));
    room.span_counts = parts.take<int64_t>(panels);
    *bytes = parts.bytes;
    return room;
}

// The spans of the inner dimension whose weights are not all zero in columns [column, column + kPanel).
inline int64_t spans_of(const ProductPlan& plan, const TileGroup& group, int plane, int64_t column, Span* spans) {
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

// Those spans of every panel of columns [begin, end) where some weights are all zero: room.spans and room.span_counts.
inline void find_spans(const ProductPlan& plan, const TileGroup& group, int64_t begin, int64_t end, const Room& room) {
    for (int64_t column = begin; plan.zero != nullptr && column < end; column += kPanel) {
        Span* spans = room.spans + column / kPanel * most_spans(plan);
        room.span_counts[column / kPanel] = spans_of(plan, group, 0, column, spans);
    }
}

struct Spans {
    const Span* at;
    int64_t count;
};

// What was found of the panel at a column; `all` of room.spans where no weights are all zero.
inline Spans spans_at(const ProductPlan& plan, int64_t column, int64_t all, const Room& room) {
    if (plan.zero == nullptr) return {room.spans, all};
    return {room.spans + column / kPanel * most_spans(plan), room.span_counts[column / kPanel]};
}

// A panel of a plane: its weights, and where they lie among those of the group.
inline const float* panel_at(const ProductPlan& plan, const TileGroup& group, int64_t plane, int64_t column,
                             const float* packed) {
    const int64_t panels = ceil_div(group_columns(plan, group), kPanel);
    return packed + (plane * panels + column / kPanel) * plan.src.segments * plan.src.channels * kPanel;
}

// The inner dimension in parts, so that those of both factors stay in the second cache level. Where some of its weights
// are all zero it is one.
struct Depth {
    int64_t all, parts;

    int64_t begin(int64_t part) const { return all * part / parts; }
};

inline Depth depth_of(const ProductPlan& plan) {
    const int64_t all = plan.src.segments * plan.src.channels;
    return {all, plan.zero == nullptr ? larger(ceil_div(all, kDepth), 1) : 1};
}

// The tiles of a block share out between them what is to be fetched: `depth` rows of a later panel.
struct Shares {
    int64_t size, step;  // bytes

    Shares(int64_t depth, int64_t count) {
        const int64_t tiles = ceil_div(count, kTileRows), bytes = kPanel * static_cast<int64_t>(sizeof(float));
        size = depth * bytes / tiles;
        step = larger(bytes / tiles, 1);
    }

    Ahead of(const float* panel, int64_t t) const {
        return {reinterpret_cast<const char*>(panel) + t / kTileRows * size, step};
    }
};

// Elements [begin, end) of the inner dimension.
inline int64_t spans_between(const ProductPlan& plan, int64_t begin, int64_t end, Span* spans) {
    const int64_t length = row_run(plan);
    int64_t count = 0;
    for (int64_t run = begin / length; run * length < end; ++run) {
        spans[count++] = {run, larger(begin - run * length, 0), smaller(end - run * length, length)};
    }
    return count;
}

}  // namespace dgo::DGO_ISA
