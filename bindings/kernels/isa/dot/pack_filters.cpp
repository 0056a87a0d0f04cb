// Weights of 8 bits -> their transform for Winograd in words, in panels of pairs of the depth.
#include <omp.h>

#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/product/transform_tables.hpp"

namespace dgo::DGO_ISA {
namespace {

// Coefficients of the weights' transform, times 2 on each axis of four points: [plane][tap].
struct FilterCoefficients {
    int32_t at[kFilterPlanes][kMaxLength];

    explicit FilterCoefficients(const PackParams& params) {
        TileShape axes[kFilterAxes];
        for (int a = 0; a < kFilterAxes; ++a) axes[a] = kShapeSizes[params.shape[a]];
        const int taps = axes[0].length * axes[1].length * axes[2].length;
        for (int p = 0; p < params.planes; ++p) {
            for (int t = 0; t < taps; ++t) {
                double product = 1;
                for (int a = kFilterAxes - 1, i = p, j = t; a >= 0; --a) {
                    const TileShape& axis = axes[a];
                    product *= (axis.points == 4 ? 2 : 1) * coefficient(Transform::filter, axis.points, axis.length,
                                                                        i % axis.points, j % axis.length);
                    i /= axis.points;
                    j /= axis.length;
                }
                at[p][t] = static_cast<int32_t>(product);
            }
        }
    }
};

// Packs one panel of every plane; planes lie `plane` bytes apart.
template <class Source>
void pack_filters(const Dot& dot, const PackParams& params, const FilterCoefficients& by, const TargetGroup& group,
                  int64_t panel, const typename Source::T* from, const int32_t* points, char* to, int64_t plane) {
    const int64_t segments = segment_count(params), bytes = ceil_div(params.k, dot.unit) * unit_bytes(dot);
    const int64_t length = params.taps.length[0] * params.taps.length[1] * params.taps.length[2];
    const int64_t first = panel * kDotColumns, end = smaller(first + kDotColumns, group.target_count * params.n);
    for (int64_t p = 0; p < params.planes; ++p)
        __builtin_memset(to + p * plane, 0, static_cast<size_t>(segments * bytes));
    for (int64_t s = 0; s < segments; ++s, to += bytes) {
        int64_t offset[kDotColumns][kMaxLength];
        int32_t zero[kDotColumns] = {};
        for (int64_t column = first; column < end; ++column) {
            const int64_t c = column - first, n = column % params.n;
            tap_offsets(params.taps, params.tap_strides, s, group.targets[column / params.n], offset[c]);
            for (int64_t j = 0; j < length; ++j) offset[c][j] += offset[c][j] < 0 ? 0 : n * params.n_stride;
            zero[c] = points == nullptr ? 0 : points[n];
        }
        for (int64_t k = 0; k < params.k; ++k) {
            int32_t taps[kMaxLength][kDotColumns] = {};
            for (int64_t c = 0; c < end - first; ++c) {
                for (int64_t j = 0; j < length; ++j) {
                    if (offset[c][j] >= 0)
                        taps[j][c] = Source::get(from + offset[c][j] + k * params.k_stride) - zero[c];
                }
            }
            for (int64_t p = 0; p < params.planes; ++p) {
                int32_t sums[kDotColumns] = {};
                for (int64_t j = 0; j < length; ++j) {
                    for (int64_t c = 0; c < kDotColumns; ++c) sums[c] += by.at[p][j] * taps[j][c];
                }
                auto* pairs = reinterpret_cast<Words::u16*>(to + p * plane + k / 2 * kDotColumns * 4) + k % 2;
                for (int64_t c = 0; c < kDotColumns; ++c) pairs[2 * c] = static_cast<uint16_t>(sums[c]);
            }
        }
    }
}

template <class Source>
void pack(const Dot& dot, const PackParams& params, const char* weights, const int32_t* points, char* packed) {
    const int64_t panel_bytes = segment_count(params) * ceil_div(params.k, dot.unit) * unit_bytes(dot);
    const FilterCoefficients by(params);
    for (int64_t i = 0; i < params.channel_groups * params.group_count; ++i) {
        const TargetGroup& group = params.groups[i % params.group_count];
        const int64_t g = i / params.group_count, panels = ceil_div(group.target_count * params.n, kDotColumns);
        const auto* from = reinterpret_cast<const typename Source::T*>(weights) + g * params.group_stride;
        char* to = packed + (g * params.packed + group.packed) * dot.item;
#pragma omp parallel for schedule(static) num_threads(params.threads)
        for (int64_t panel = 0; panel < panels; ++panel) {
            pack_filters<Source>(dot, params, by, group, panel, from,
                                 points == nullptr ? nullptr : points + g * params.n, to + panel * panel_bytes,
                                 panels * panel_bytes);
        }
    }
}

}  // namespace

void run_filter_pack(const Dot& dot, const PackParams& params, const char* weights, const int32_t* points,
                     char* packed) {
    if (params.type == ElementType::u8)
        pack<U8>(dot, params, weights, points, packed);
    else
        pack<S8>(dot, params, weights, points, packed);
}

}  // namespace dgo::DGO_ISA
