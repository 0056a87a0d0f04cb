// Wgrad of narrow layers in the direct form: lines of both tensors are multiplied where they lie.
#pragma once

#include "kernels/isa/product/tiles.hpp"
#include "kernels/isa/filtering/vtable.hpp"

namespace dgo::DGO_ISA {

constexpr int64_t kLineBytes = 24 * 1024;  // bytes of a line of src and one of diff_dst, which stay in the first cache
constexpr int64_t kLineTile = kTileRows * kPanel;

// Calls visit(begin) for tiles of `size` elements that cover `count`; the last tile may overlap the one before.
struct Tiling {
    int64_t count, size;

    int64_t number() const { return ceil_div(count, size); }
    int64_t from(int64_t i) const { return smaller(i * size, count - size); }
};

inline Tiling line_rows(const GradientParams& params) { return {params.src.channels, kTileRows}; }
inline Tiling line_vectors(const GradientParams& params) { return {params.diff.run, kLanes}; }

// Register tiles across a run of diff_dst.
inline int64_t line_tiles(const GradientParams& params) {
    return ceil_div(line_vectors(params).number(), kTileVectors);
}

inline int64_t line_sums(const GradientParams& params) {
    return params.diff.runs * line_rows(params).number() * line_tiles(params) * kLineTile;
}

// sums[i][j] += sum over k of a[k * a_step + i] * the vector at b + k * b_step + column[j].
template <int kVectors>
__attribute__((noinline)) void product_line(const float* a, int64_t a_step, const float* b, int64_t b_step,
                                            const int64_t* column, int64_t count, float* sums) {
    Lanes sum[kTileRows][kVectors] = {};
    const float* right[kVectors];
    for (int j = 0; j < kVectors; ++j) right[j] = b + column[j];
#pragma GCC unroll 4
    for (int64_t k = 0; k < count; ++k, a += a_step) {
        Lanes value[kVectors];
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
            value[j] = *reinterpret_cast<const LanesAt*>(right[j]);
            right[j] += b_step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], broadcast(a[i]), value[j]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
            *reinterpret_cast<LanesAt*>(sums + i * kPanel + j * kLanes) += sum[i][j];
        }
    }
}

// Adds the products of `count` positions of src from `a` on and one run of diff_dst from `b` on.
inline void multiply_line(const GradientParams& params, const float* a, int64_t a_step, const float* b, int64_t b_step,
                          int64_t count, float* sums) {
    const Tiling rows = line_rows(params), vectors = line_vectors(params);
    for (int64_t r = 0; r < rows.number(); ++r) {
        for (int64_t j = 0; j < vectors.number(); j += kTileVectors, sums += kLineTile) {
            const int64_t column[] = {vectors.from(j), vectors.from(j + 1)};
            const auto product = j + 1 < vectors.number() ? &product_line<kTileVectors> : &product_line<1>;
            product(a + rows.from(r), a_step, b, b_step, column, count, sums);
        }
    }
}

// Sums tiles [first, end) for each run of diff_dst.
inline void sum_lines(const GradientParams& params, int64_t first, int64_t end, const char* src, const char* diff,
                      float* sums, float* wide) {
    constexpr int last = kFilterAxes - 1;
    static constexpr Axes kOrigin{{0, 0, 0}};
    const FilterImage& image = params.diff;
    const int64_t a_step = params.src.step[last] * params.src.strides[last];
    const int64_t step = image.step[last], b_step = step * image.strides[last];
    const int64_t per_run = line_sums(params) / image.runs;
    const int64_t most = larger(kShortLine, kLineBytes / 4 / (a_step + b_step));
    __builtin_memset(sums, 0, static_cast<size_t>(line_sums(params)) * sizeof(float));
    for_each_line(
        params.tiles, kOrigin, params.window, first, end - first, [&](int64_t, int64_t n, const TilePlace& p) {
            const LineRun from = line_run(params.src, p, 0);
            const float* a =
                reinterpret_cast<const float*>(src) + from.offset + from.position * params.src.strides[last];
            for (int64_t run = 0; run < image.runs; ++run) {
                const LineRun line = line_run(image, p, run);
                if (line.absent) continue;
                const float* data = reinterpret_cast<const float*>(diff) + line.offset;
                const auto at = [&](int64_t i) { return line.position + i * step; };
                // Runs of positions [whole, cut) exist from end to end.
                const int64_t last_whole = image.size[last] - image.fold - line.position;
                const int64_t cut = smaller(n, last_whole < 0 ? 0 : last_whole / step + 1);
                const int64_t whole = smaller(cut, ceil_div(larger(0, -line.position), step));
                float* to = sums + run * per_run;
                for (int64_t i = whole; i < cut; i += most) {
                    const float* b = data + at(i) * image.strides[last];
                    multiply_line(params, a + i * a_step, a_step, b, b_step, smaller(most, cut - i), to);
                }
                for (int64_t i = 0; i < n; ++i) {
                    if (i == whole) i = cut;
                    const int64_t low = larger(0, -at(i)), high = smaller(image.fold, image.size[last] - at(i));
                    if (i == n || low >= high) continue;
                    widen_run(image, reinterpret_cast<const char*>(data + at(i) * image.strides[last]), 0, image.run,
                              low * image.channels, high * image.channels, wide);
                    multiply_line(params, a + i * a_step, 0, wide, 0, 1, to);
                }
            }
        });
}

// Moves the sums of the lines to the layout of a task's panels, [panel][row][kPanel].
inline void put_lines(const GradientParams& params, const float* sums, int64_t rows, float* to) {
    const Tiling tiles = line_rows(params), vectors = line_vectors(params);
    const int64_t across = line_tiles(params);
    for (int64_t column = 0; column < params.diff.runs * params.diff.run; ++column) {
        const int64_t run = column / params.diff.run, element = column % params.diff.run, j = element / kLanes;
        const float* tile = sums + (run * tiles.number() * across + j / kTileVectors) * kLineTile;
        const int64_t lane = j % kTileVectors * kLanes + element - vectors.from(j);
        float* panel = to + column / kPanel * rows * kPanel + column % kPanel;
        for (int64_t row = 0; row < params.src.channels; ++row) {
            const int64_t r = row / kTileRows;
            panel[row * kPanel] = tile[r * across * kLineTile + (row - tiles.from(r)) * kPanel + lane];
        }
    }
}

}  // namespace dgo::DGO_ISA
