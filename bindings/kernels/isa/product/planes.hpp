// Tiles of several results (Winograd): windows transformed to planes, for f32, bf16 and 8 bits.
#pragma once

#include "kernels/isa/product/scratch.hpp"

namespace dgo::DGO_ISA {

// One of the equal parts of something.
struct Part {
    int64_t number, count;

    // Returns the first of `all` items that belong to the part, a multiple of `step`.
    int64_t begin(int64_t all, int64_t step = 1) const { return all / step * number / count * step; }
    int64_t end(int64_t all, int64_t step = 1) const {
        return number + 1 == count ? all : Part{number + 1, count}.begin(all, step);
    }
};

// Transforms the windows of tiles [first, first + count) into scratch.left: a part of each run.
template <class From, class To>
void transform_windows(const ProductParams& params, const TargetGroup& group, int64_t first, int64_t count, Part part,
                       const char* src, SpreadFn<From, To> transform, const ProductScratch& scratch) {
    const int64_t begin = part.begin(params.src.run, kRunStep), end = part.end(params.src.run, kRunStep);
    const int64_t stride = left_stride(params), depth = params.src.fold * left_depth(params);
    const Windows<From, To> windows{params.src,
                                    src,
                                    params.points,
                                    params.outputs[kFilterAxes - 1],
                                    transform,
                                    Spread{left_plane(params), params.src.run, 0},
                                    stride,
                                    reinterpret_cast<const From*>(scratch.zeros),
                                    reinterpret_cast<From*>(scratch.wide)};
    To* left = reinterpret_cast<To*>(scratch.left);
    for_each_line(group.tiles, group.base, params.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        for (int64_t run = 0; run < params.src.runs; ++run) {
            windows.to(left + t * stride + run * depth + begin, p, n, run, begin, end - begin);
        }
    });
}

// Planes [begin, end) of a product.
struct PlaneRange {
    int64_t begin, end;
};

// Computes columns [column, column + columns) of some planes into scratch.result, by a set that multiplies words.
inline void multiply_by_set(const ProductParams& params, const TargetGroup& group, PlaneRange planes, int64_t column,
                            int64_t columns, int64_t count, const char* packed, const ProductScratch& scratch) {
    const Dot& dot = *params.dot;
    const int64_t depth = left_depth(params), segments = params.src.segments, stride = left_stride(params);
    const int64_t unit = kDotColumns * dot.unit * dot.item, segment = ceil_div(params.src.channels, dot.unit) * unit;
    const int64_t panels = ceil_div(group_columns(params, group), kDotColumns);
    DotTerm* const terms = scratch.dot_terms;
    for (int64_t p = planes.begin; p < planes.end; ++p) {
        const char* left = reinterpret_cast<const char*>(scratch.left) + p * left_plane(params) * dot.item;
        for (int64_t n = 0; n < columns; n += kDotColumns) {
            int64_t some = 0;
            for (int64_t s = 0; s < segments; ++s) {
                if (all_zero(params, group, p, s, column + n, kDotColumns)) continue;
                const char* at = left + s * depth * dot.item;
                terms[some++] = {{{at, stride * dot.item}, {at + kDotRows * stride * dot.item, stride * dot.item}},
                                 s * segment,
                                 params.src.channels};
            }
            const char* panel = packed + (p * panels + (column + n) / kDotColumns) * segments * segment;
            float* result = scratch.result + p * result_stride(params) + n;
            for (int64_t t = 0; t < count; t += kDotBlockRows, result += kDotBlockRows * kFilterChunk) {
                const DotSums sums{scratch.zeros, 0, result, kFilterChunk};
                dot.product(terms, some, {panel, unit / 2, unit}, sums, count - t, columns - n);
                for (DotTerm* term = terms; term != terms + some; ++term) {
                    for (DotRows& rows : term->rows) rows.at += kDotBlockRows * rows.pitch;
                }
            }
        }
    }
}

// The tiles and columns of a task. Blocks have equal sizes, as a short last one would leave a thread idle, and whole
// register tiles of `rows` rows.
struct TaskBlock {
    const TargetGroup* group;
    int64_t first, count, part;

    TaskBlock(const ProductParams& params, int64_t task, int64_t rows) : group(params.groups) {
        while (task >= group->first_task + group->blocks * group->parts) ++group;
        task -= group->first_task;
        const int64_t tiles = params.batch * group->tiles[0] * group->tiles[1] * group->tiles[2];
        const int64_t block = task / group->parts, units = ceil_div(tiles, rows);
        part = task % group->parts;
        first = units * block / group->blocks * rows;
        count = smaller(units * (block + 1) / group->blocks * rows, tiles) - first;
    }
};

// The columns of a chunk that belong to one run of dst: its elements [begin, begin + count).
struct RunSlice {
    int64_t run, begin, count, column;
    const float* bias;
};

// Calls visit(slice) for the runs of columns [column, end) of a group.
template <class Visit>
void for_each_slice(const FilterImage& image, const TargetGroup& group, int64_t column, int64_t end, const float* bias,
                    Visit&& visit) {
    for (int64_t c = column, width; c < end; c += width) {
        const int64_t target = group.targets[c / image.run * image.fold], begin = c % image.run;
        width = smaller(image.run - begin, end - c);
        visit(RunSlice{target / image.fold, begin, width, c - column, bias + begin});
    }
}

}  // namespace dgo::DGO_ISA
