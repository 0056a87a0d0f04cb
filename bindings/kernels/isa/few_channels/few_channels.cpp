#include "kernels/few_channels/vtable.hpp"

#include "kernels/isa/vector/convert.hpp"
#include "kernels/isa/product/gemm_tile.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

// Floats of weights that stay in the first cache level next to the rows: each tile reads all panels.
constexpr int64_t kFirstLevelBytes = 32 * 1024;

// Steps of a sum that take as long as fetching the lines of its results.
constexpr int64_t kFetchSteps = 20;

// Rows of a tile of two vectors; the remaining registers hold two rows of weights and a value of the image.
constexpr int kMostRows = kLanes == 16 ? 14 : 6;

// Floats of results that all steps of the gradient read before the next results.
constexpr int64_t kResultsNear = 24 * 1024;

// A register tile: positions of a row times channels of a panel.
struct Tile {
    int64_t position, channel, channels;
};

__attribute__((noinline)) void store_narrow(const FewChannelsRow& row, const float* from, int64_t pitch,
                                            int64_t positions, int64_t channels, char* to) {
    for (int64_t i = 0; i < positions; ++i, from += pitch, to += row.to_step * 2) {
        narrow(row.type, from, channels, to);
    }
}

DGO_INLINE void store_past_caches(float* to, const Lanes& v) {
    __m256 parts[kLanes / 8];
    __builtin_memcpy(parts, &v, sizeof(parts));
    for (int p = 0; p < kLanes / 8; ++p) _mm256_stream_ps(to + 8 * p, parts[p]);
}

template <int kRows, int kVectors>
__attribute__((noinline)) void run_tile(const FewChannelsRow& row, const Tile& place) {
    const float* bias = row.bias + place.channel;
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] = *reinterpret_cast<const LanesAt*>(bias + j * kLanes);
    }
    const int64_t first = place.position * row.to_step + place.channel;
    if (row.type == ElementType::f32 && !row.vast && row.steps_end - row.steps >= kFetchSteps) {
        const float* to = reinterpret_cast<const float*>(row.to) + first;
        for (int i = 0; i < kRows; ++i, to += row.to_step) {
            for (int j = 0; j < kVectors * kLanes; j += 16) __builtin_prefetch(to + j, 1);
        }
    }
    const float* const panel = row.weights + place.channel / kPanel * row.panel;
    const float* const source = row.source + place.position * row.advance;
    const int64_t advance = row.advance;
    for (const FewChannelsStep *step = row.steps, *end = row.steps_end; step != end; ++step) {
        const float* const weights = panel + step->weights;
        const float* at = source + step->source;
        Lanes right[kVectors];
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) right[j] = *reinterpret_cast<const LanesAt*>(weights + j * kLanes);
#pragma GCC unroll 32
        for (int i = 0; i < kRows; ++i) {
            const float value = at[i % 4 * advance];
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], broadcast(value), right[j]);
            if (i % 4 != 3) continue;
            at += 4 * advance;
            // otherwise the compiler keeps a register for every position, and runs out of them
            asm("" : "+r"(at));
        }
    }
    activate_tile(row.activation, sum);
    if (row.type == ElementType::f32) {
        float* to = reinterpret_cast<float*>(row.to) + first;
        const int64_t rest = place.channels - (kVectors - 1) * kLanes;
        const auto store_all = [&](auto&& store_last) __attribute__((always_inline)) {
#pragma GCC unroll 32
            for (int i = 0; i < kRows; ++i, to += row.to_step) {
                if constexpr (kVectors > 1) *reinterpret_cast<LanesAt*>(to) = sum[i][0];
                store_last(to + (kVectors - 1) * kLanes, sum[i][kVectors - 1]);
            }
        };
        if (rest < kLanes) {
            store_all([&](float* at, const Lanes& v) __attribute__((always_inline)) { store_part(at, v, rest); });
        } else if (!row.vast) {
            store_all([](float* at, const Lanes& v)
                          __attribute__((always_inline)) { *reinterpret_cast<LanesAt*>(at) = v; });
        } else {
#pragma GCC unroll 32
            for (int i = 0; i < kRows; ++i, to += row.to_step) {
#pragma GCC unroll 2
                for (int j = 0; j < kVectors; ++j) store_past_caches(to + j * kLanes, sum[i][j]);
            }
        }
        return;
    }
    Lanes flat[kRows][kVectors];
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) flat[i][j] = sum[i][j];
    }
    store_narrow(row, reinterpret_cast<const float*>(flat), kVectors * kLanes, kRows, place.channels,
                 row.to + first * 2);
}

template <int kVectors, int kRows>
DGO_INLINE void run_rows(const FewChannelsRow& row, int64_t rows, const Tile& place) {
    if constexpr (kRows > 1) {
        if (rows < kRows) return run_rows<kVectors, kRows - 1>(row, rows, place);
    }
    run_tile<kRows, kVectors>(row, place);
}

// Computes channels [begin, end) in panels of kVectors vectors, by tiles of at most kRows rows.
template <int kVectors, int kRows>
void run_panels(const FewChannelsRow& row, int64_t begin, int64_t end) {
    if (begin == end) return;
    // tiles of nearly the same size: a last one of a few positions would wait for its own sums
    const int64_t tiles = ceil_div(row.count, kRows), least = row.count / tiles, longer = row.count % tiles;
    const bool near = ceil_div(row.channels, kPanel) * row.panel * int64_t{sizeof(float)} <= kFirstLevelBytes;
    const int64_t together = near ? 1 : tiles;
    for (int64_t t = 0; t < tiles; t += together) {
        for (int64_t c = begin; c < end; c += kPanel) {
            const int64_t channels = smaller(end - c, kPanel);
            int64_t first = t * least + smaller(t, longer);
            for (int64_t u = t; u < t + together; ++u) {
                const int64_t rows = least + (u < longer ? 1 : 0);
                run_rows<kVectors, kRows>(row, rows, {first, c, channels});
                first += rows;
            }
        }
    }
}

void run(const FewChannelsRow& row) {
    if (row.count == 0) return;
    const int64_t rest = row.channels % kPanel, wide = rest > kLanes ? row.channels : row.channels - rest;
    run_panels<2, kMostRows>(row, 0, wide);
    run_panels<1, 2 * kMostRows>(row, wide, row.channels);
}

// ---- results in planes of channels ----------------------------------------------------------------------

// Vectors of positions of a register tile, by channels.
constexpr int kMostVectors[] = {0, 8, kLanes == 16 ? 8 : 5, kLanes == 16 ? 6 : 3, kLanes == 16 ? 5 : 2};
// Sums that have to be under way for the multipliers to be busy.
constexpr int kBusySums = 8;

// Adds a step to sums of channels (rows) and vectors of positions, whose sources are `apart`.
template <int kChannels, int kVectors, int kRows>
DGO_INLINE void add_step(Lanes (&sum)[kRows][kVectors], int first, const float* at, int64_t apart,
                         const float* weights) {
    Lanes weight[kChannels];
#pragma GCC unroll 4
    for (int m = 0; m < kChannels; ++m) weight[m] = broadcast(weights[m]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
        const Lanes values = *reinterpret_cast<const LanesAt*>(at + j * apart);
#pragma GCC unroll 4
        for (int m = 0; m < kChannels; ++m) multiply_add(sum[first + m][j], weight[m], values);
    }
}

// Computes neighbouring positions of a row; or kLines: the first vectors of rows under each other, of which each has
// `positions`.
template <int kChannels, int kVectors, bool kLines = false>
__attribute__((noinline)) void run_planes_tile(const FewChannelsRow& row, int64_t position, int64_t positions) {
    const int64_t apart = kLines ? row.source_line : kLanes, to_apart = kLines ? row.to_line : kLanes;
    // few vectors: several steps have sums of their own
    constexpr int kSums = kChannels * kVectors, kTogether = 2 * kSums > kBusySums ? 1 : kBusySums / kSums;
    constexpr int kRows = kTogether * kChannels;
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) sum[i][j] = broadcast(0.0f);
    }
    const float* const source = row.source + position;
    const float* const weights = row.weights;
    const FewChannelsStep *step = row.steps, *const end = row.steps_end;
    for (; end - step >= kTogether; step += kTogether) {
#pragma GCC unroll 8
        for (int s = 0; s < kTogether; ++s) {
            add_step<kChannels>(sum, s * kChannels, source + step[s].source, apart, weights + step[s].weights);
        }
    }
    if constexpr (kTogether > 1) {
        for (; step != end; ++step) add_step<kChannels>(sum, 0, source + step->source, apart, weights + step->weights);
    }
    Lanes tile[kChannels][kVectors];
#pragma GCC unroll 4
    for (int m = 0; m < kChannels; ++m) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
            tile[m][j] = sum[m][j] + broadcast(row.bias[m]);
#pragma GCC unroll 8
            for (int s = 1; s < kTogether; ++s) tile[m][j] += sum[s * kChannels + m][j];
        }
    }
    activate_tile(row.activation, tile);
    float* to = reinterpret_cast<float*>(row.to) + position;
    const int64_t rest = kLines ? positions : positions - (kVectors - 1) * kLanes;
#pragma GCC unroll 4
    for (int m = 0; m < kChannels; ++m, to += row.to_step) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
            store_some(to + j * to_apart, tile[m][j], kLines || j + 1 == kVectors ? rest : kLanes);
        }
    }
}

template <int kChannels, int kVectors = kMostVectors[kChannels]>
DGO_INLINE void run_planes_vectors(const FewChannelsRow& row, int64_t vectors, int64_t position, int64_t positions) {
    if constexpr (kVectors > 1) {
        if (vectors < kVectors) {
            return run_planes_vectors<kChannels, kVectors - 1>(row, vectors, position, positions);
        }
    }
    run_planes_tile<kChannels, kVectors>(row, position, positions);
}

template <int kChannels>
void run_planes(FewChannelsRow row) {
    // rows of one vector: several share the fetching of weights
    constexpr int kTogether = kMostVectors[kChannels];
    for (; row.count <= kLanes && row.lines >= kTogether; row.lines -= kTogether) {
        run_planes_tile<kChannels, kTogether, true>(row, 0, row.count);
        row.source += kTogether * row.source_line;
        row.to += kTogether * row.to_line * int64_t{sizeof(float)};
    }
    const int64_t vectors = ceil_div(row.count, kLanes), tiles = ceil_div(vectors, kMostVectors[kChannels]);
    for (; row.lines > 0; --row.lines) {
        for (int64_t t = 0; t < tiles; ++t) {
            const int64_t begin = vectors * t / tiles, end = vectors * (t + 1) / tiles, first = begin * kLanes;
            run_planes_vectors<kChannels>(row, end - begin, first, smaller(end * kLanes, row.count) - first);
        }
        row.source += row.source_line;
        row.to += row.to_line * int64_t{sizeof(float)};
    }
}

void planes(const FewChannelsRow& row) {
    switch (row.channels) {
        case 1: return run_planes<1>(row);
        case 2: return run_planes<2>(row);
        case 3: return run_planes<3>(row);
        case 4: return run_planes<4>(row);
    }
}

// ---- the gradient of the weights ------------------------------------------------------------------------

template <int kRows, int kVectors>
__attribute__((noinline)) void add_tile(const FewChannelsGradient& row, const FewChannelsStep& step, int64_t channel) {
    float* const to = row.sums + channel / kPanel * row.panel + step.weights;
    const float* at = row.source + step.source;
    const float* results = row.results + channel;
    const int64_t advance = row.advance, results_step = row.results_step;
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] = *reinterpret_cast<const LanesAt*>(to + i * kPanel + j * kLanes);
    }
    for (int64_t q = 0; q < row.count; ++q, at += advance, results += results_step) {
        Lanes right[kVectors];
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) right[j] = *reinterpret_cast<const LanesAt*>(results + j * kLanes);
#pragma GCC unroll 32
        for (int i = 0; i < kRows; ++i) {
            const float value = at[i];
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], broadcast(value), right[j]);
        }
    }
#pragma GCC unroll 32
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) *reinterpret_cast<LanesAt*>(to + i * kPanel + j * kLanes) = sum[i][j];
    }
}

template <int kVectors, int kRows>
DGO_INLINE void add_rows(const FewChannelsGradient& row, int64_t rows, const FewChannelsStep& step, int64_t channel) {
    if constexpr (kRows > 1) {
        if (rows < kRows) return add_rows<kVectors, kRows - 1>(row, rows, step, channel);
    }
    add_tile<kRows, kVectors>(row, step, channel);
}

void add_positions(const FewChannelsGradient& row) {
    const int64_t tiles = ceil_div(row.length, kMostRows);
    for (int64_t c = 0; c < row.channels; c += kPanel) {
        for (const FewChannelsStep* run = row.steps; run != row.steps_end; run += row.length) {
            for (int64_t t = 0; t < tiles; ++t) {
                const int64_t first = row.length * t / tiles, rows = row.length * (t + 1) / tiles - first;
                if (row.channels - c > kLanes) {
                    add_rows<2, kMostRows>(row, rows, run[first], c);
                } else {
                    add_rows<1, kMostRows>(row, rows, run[first], c);
                }
            }
        }
    }
}

void gradient(const FewChannelsGradient& row) {
    const int64_t most = larger(kResultsNear / row.channels, 2 * kMostRows);
    for (int64_t begin = 0; begin < row.count; begin += most) {
        FewChannelsGradient part = row;
        part.count = smaller(most, row.count - begin);
        part.source += begin * row.advance;
        part.results += begin * row.results_step;
        add_positions(part);
    }
}

}  // namespace

const FewChannelsCode kFewChannelsCode = {kMostRows, kPanel, kLanes * 4, run, gradient, planes};

}  // namespace dgo::DGO_ISA
