// Forward and backward data: windows -> transform -> one small product per plane -> inverse transform. On direct
// axes the taps are segments of the windows, and nothing is transformed.
#include <omp.h>

#include "filter_code.hpp"
#include "filter_tiles.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kMaxSpans = 64;

// Floats of one plane of a block's results, up to the last row of a register tile.
int64_t result_stride(const ProductPlan& plan) {
    return (plan.block + kTileRows - 1) / kTileRows * kTileRows * kFilterChunk;
}

struct Room {
    float *zeros, *bias, *trash, *wide, *left, *result;
};

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
    const int64_t widest = larger(plan.src.channels * plan.planes, kFilterChunk * outputs);
    room.zeros = take(larger(plan.src.channels, kFilterChunk) + kLanes);
    room.bias = take(plan.channel_groups * plan.dst.channels + kLanes);
    room.trash = take(kFilterChunk + kLanes);
    room.wide = take(widest);
    room.left = take(plan.planes * plan.block * left_stride(plan));
    room.result = take(plan.planes * result_stride(plan));
    *bytes = used * static_cast<int64_t>(sizeof(float));
    return room;
}

// The spans of the inner dimension whose weights are not all zero in columns [column, column + kPanel).
int64_t spans_of(const ProductPlan& plan, const TileGroup& group, int plane, int64_t column, Span* spans) {
    const int64_t depth = plan.src.channels, segments = plan.src.segments;
    if (plan.zero == nullptr) {
        spans[0] = {0, segments * depth};
        return 1;
    }
    const int64_t first = column / plan.dst.channels;
    const int64_t last = smaller((column + kPanel - 1) / plan.dst.channels, group.target_count - 1);
    int64_t count = 0;
    for (int64_t s = 0; s < segments; ++s) {
        const uint8_t* zero = plan.zero + (plane * segments + s) * plan.dst.segments;
        bool all = true;
        for (int64_t t = first; t <= last; ++t) all = all && zero[group.targets[t]];
        if (all) continue;
        if (count > 0 && (spans[count - 1].end == s * depth || count == kMaxSpans)) {
            spans[count - 1].end = (s + 1) * depth;
        } else {
            spans[count++] = {s * depth, (s + 1) * depth};
        }
    }
    return count;
}

void transform_block(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, const char* src,
                     const Room& room) {
    const SpreadFn transform = find<Transform::window>(window_code(plan.filter_shape).code);
    const int64_t stride = left_stride(plan);
    const Spread spread{plan.block * stride, plan.src.channels, 0};
    for (int64_t t = 0; t < count; ++t) {
        const TilePlace p = place(first + t, group.tiles, group.base, plan.outputs);
        for (int64_t s = 0; s < plan.src.segments; ++s) {
            transform_window(plan.src, src, p, s, plan.points, plan.src.channels, room.zeros, room.wide, transform,
                       room.left + t * stride + s * plan.src.channels, spread);
        }
    }
}

int64_t group_columns(const ProductPlan& plan, const TileGroup& group) {
    return group.target_count * plan.dst.channels;
}

void multiply(const ProductPlan& plan, const TileGroup& group, int64_t column, int64_t columns, int64_t count,
              const float* packed, const Room& room) {
    const int64_t depth = plan.src.segments * plan.src.channels;
    const int64_t panels = (group_columns(plan, group) + kPanel - 1) / kPanel;
    const int64_t stride = left_stride(plan);
    Span spans[kMaxSpans];
    for (int p = 0; p < plan.planes; ++p) {
        const float* a = room.left + p * plan.block * stride;
        for (int64_t n = 0; n < columns; n += kPanel) {
            float* c = room.result + p * result_stride(plan) + n;
            const int64_t span_count = spans_of(plan, group, p, column + n, spans);
            const float* panel = packed + (p * panels + (column + n) / kPanel) * depth * kPanel;
            for (int64_t t = 0; t < count; t += kTileRows) {
                const float* rows[kTileRows];
                for (int64_t i = 0; i < kTileRows; ++i) rows[i] = a + smaller(t + i, count - 1) * stride;
                tile_product(rows, spans, span_count, panel, c + t * kFilterChunk, kFilterChunk, false);
            }
        }
    }
}

// Channels [channel, channel + channels) of one target, from column `column` of the results.
void write_block(const ProductPlan& plan, const TileGroup& group, int64_t first, int64_t count, int64_t target,
                 int64_t channel, int64_t channels, int64_t column, const float* bias, char* dst, const Room& room) {
    const GatherFn transform = find<Transform::output>(plan.output_shape);
    const int64_t outputs = plan.outputs[0] * plan.outputs[1] * plan.outputs[2];
    const bool direct = plan.dst.cell == Cell::f32;
    dst += channel * plan.dst.item;
    int64_t offset[kFilterPlanes];
    float* to[kFilterPlanes];
    for (int64_t t = 0; t < count; ++t) {
        const TilePlace p = place(first + t, group.tiles, group.base, plan.outputs);
        offsets(plan.dst, p, target, plan.outputs, offset);
        for (int64_t i = 0; i < outputs; ++i) {
            to[i] = offset[i] < 0 ? room.trash
                    : direct      ? reinterpret_cast<float*>(dst + offset[i])
                                  : room.wide + i * kFilterChunk;
        }
        transform(room.result + t * kFilterChunk + column, result_stride(plan), channels, bias + channel, to);
        if (direct) continue;
        for (int64_t i = 0; i < outputs; ++i) {
            if (offset[i] >= 0) narrow(plan.dst.cell, to[i], channels, dst + offset[i]);
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
    transform_block(plan, *group, first, count, src, room);
    for (int64_t chunk = chunks * part / group->parts; chunk < chunks * (part + 1) / group->parts; ++chunk) {
        const int64_t column = chunk * kFilterChunk, end = smaller(column + kFilterChunk, all);
        multiply(plan, *group, column, end - column, count, packed + group->packed, room);
        for (int64_t c = column; c < end;) {
            const int64_t index = c / plan.dst.channels, channel = c % plan.dst.channels;
            const int64_t channels = smaller(plan.dst.channels - channel, end - c);
            write_block(plan, *group, first, count, group->targets[index], channel, channels, c - column, bias, dst,
                        room);
            c += channels;
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
        const int64_t zeros = larger(plan.src.channels, kFilterChunk) + kLanes;
        const int64_t outputs = plan.channel_groups * plan.dst.channels;
        __builtin_memset(room.zeros, 0, static_cast<size_t>(zeros) * sizeof(float));
        __builtin_memset(room.bias, 0, static_cast<size_t>(outputs) * sizeof(float));
        if (plan.has_bias) widen(plan.bias_cell, bias, outputs, room.bias);
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < plan.tasks * plan.channel_groups; ++task) {
            const int64_t g = task / plan.tasks;
            run_task(plan, task % plan.tasks, src + g * plan.src.channels * plan.src.item, packed + g * plan.packed,
                     room.bias + g * plan.dst.channels, dst + g * plan.dst.channels * plan.dst.item, room);
        }
    }
}

}  // namespace dgo::DGO_ISA
