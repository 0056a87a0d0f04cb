#include "kernels/stem/vtable.hpp"

#include "kernels/isa/filtering/tiles.hpp"
#include "kernels/isa/gemm_tile.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

// Weights that stay in the first cache level beside the rows: all panels follow each other at each tile.
constexpr int64_t kFirstLevelBytes = 32 * 1024;

// Sums of so many steps take as long as it takes to fetch the lines that they go to.
constexpr int64_t kFetchSteps = 20;

// A register tile: positions of a row times channels of a panel.
struct Tile {
    int64_t position, channel, channels;
};

// What is no whole vectors of f32.
__attribute__((noinline)) void store_converted(const StemRow& row, const float* from, int64_t pitch, int64_t positions,
                                               int64_t channels, char* to) {
    const int64_t step = row.to_step * (row.cell == Cell::f32 ? 4 : 2);
    for (int64_t i = 0; i < positions; ++i, from += pitch, to += step) {
        if (row.cell != Cell::f32) {
            narrow(row.cell, from, channels, to);
            continue;
        }
        float* at = reinterpret_cast<float*>(to);
        for (int64_t c = 0; c < channels; c += kLanes) store_some(at + c, load_bytes<Lanes>(from + c), channels - c);
    }
}

DGO_INLINE void store_past_caches(float* to, const Lanes& v) {
    __m256 parts[kLanes / 8];
    __builtin_memcpy(parts, &v, sizeof(parts));
    for (int p = 0; p < kLanes / 8; ++p) _mm256_stream_ps(to + 8 * p, parts[p]);
}

template <int kRows, int kVectors>
__attribute__((noinline)) void run_tile(const StemRow& row, const Tile& place) {
    const float* bias = row.bias + place.channel;
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] = *reinterpret_cast<const LanesAt*>(bias + j * kLanes);
    }
    const int64_t first = place.position * row.to_step + place.channel;
    if (row.cell == Cell::f32 && !row.vast && row.steps_end - row.steps >= kFetchSteps) {
        const float* to = reinterpret_cast<const float*>(row.to) + first;
        for (int i = 0; i < kRows; ++i, to += row.to_step) {
            for (int j = 0; j < kVectors * kLanes; j += 16) __builtin_prefetch(to + j, 1);
        }
    }
    const float* const panel = row.weights + place.channel / kPanel * row.panel;
    const float* const source = row.source + place.position * row.advance;
    const int64_t advance = row.advance;
    for (const StemStep *step = row.steps, *end = row.steps_end; step != end; ++step) {
        const float* const weights = panel + step->weights;
        const float* at = source + step->source;
        Lanes right[kVectors];
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) right[j] = *reinterpret_cast<const LanesAt*>(weights + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
            const float value = at[i % 4 * advance];
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], broadcast(value), right[j]);
            if (i % 4 != 3) continue;
            at += 4 * advance;
            // else it keeps a register for every position, and has not as many
            asm("" : "+r"(at));
        }
    }
    if (row.cell == Cell::f32 && place.channels == kVectors * kLanes) {
        float* to = reinterpret_cast<float*>(row.to) + first;
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i, to += row.to_step) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) {
                if (row.vast) {
                    store_past_caches(to + j * kLanes, sum[i][j]);
                } else {
                    *reinterpret_cast<LanesAt*>(to + j * kLanes) = sum[i][j];
                }
            }
        }
        return;
    }
    Lanes flat[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) flat[i][j] = sum[i][j];
    }
    store_converted(row, reinterpret_cast<const float*>(flat), kVectors * kLanes, kRows, place.channels,
                    row.to + first * (row.cell == Cell::f32 ? 4 : 2));
}

template <int kRows>
DGO_INLINE void run_rows(const StemRow& row, int64_t rows, const Tile& place) {
    if constexpr (kRows > 1) {
        if (rows < kRows) return run_rows<kRows - 1>(row, rows, place);
    }
    return place.channels > kLanes ? run_tile<kRows, 2>(row, place) : run_tile<kRows, 1>(row, place);
}

void run(const StemRow& row) {
    // tiles of nearly the same size: a last one of a few positions would wait for its own sums
    const int64_t tiles = ceil_div(row.count, kTileRows);
    const bool near =
        ceil_div(row.channels, kPanel) * row.panel * static_cast<int64_t>(sizeof(float)) <= kFirstLevelBytes;
    const int64_t together = near ? 1 : tiles, least = row.count / larger(tiles, 1),
                  larger_ones = row.count - least * tiles;
    for (int64_t begin = 0; begin < tiles; begin += together) {
        for (int64_t c = 0; c < row.channels; c += kPanel) {
            const int64_t channels = smaller(row.channels - c, kPanel);
            int64_t first = begin * least + smaller(begin, larger_ones);
            for (int64_t t = begin; t < begin + together; ++t) {
                const int64_t rows = least + (t < larger_ones ? 1 : 0);
                run_rows<kTileRows>(row, rows, {first, c, channels});
                first += rows;
            }
        }
    }
}

}  // namespace

const StemCode kStemCode = {kPanel, kLanes * 4, run};

}  // namespace dgo::DGO_ISA
