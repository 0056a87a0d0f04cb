// Transformed weights in f32 panels -> bf16 panels of pairs of the depth, rounded once.
#include <omp.h>

#include "kernels/isa/cells.hpp"
#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/gemm_tile.hpp"

namespace dgo::DGO_ISA {
namespace {

using Pair = uint32_t;
constexpr int64_t kHalf = 16;  // columns

// Columns of two rows of the depth as pairs, the first below. Rows are kLanes apart of a panel's.
DGO_INLINE void put_pairs(const float* first, const float* second, char* to) {
    for (int64_t c = 0; c < kHalf; c += kLanes) {
        const auto low = Bf16::narrow<kLanes>(load_bytes<Vec<kLanes>::u32>(first + c));
        const auto high = Bf16::narrow<kLanes>(load_bytes<Vec<kLanes>::u32>(second + c));
        store_bytes(to + c * 4, low | high << 16);
    }
}

}  // namespace

void run_filtered_pack(const PackParams& params, const float* transformed, char* packed) {
    const int64_t segments = params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
    const int64_t units = ceil_div(params.k, kBf16Unit), depth = segments * params.k;
    alignas(64) static const float zeros[kHalf] = {};
    int64_t wide = 0, narrow = 0;  // where the columns of a group begin, in elements
    for (int64_t g = 0; g < params.channel_groups * params.group_count; ++g) {
        const TargetGroup& group = params.groups[g % params.group_count];
        const int64_t columns = group.target_count * params.n, panels = ceil_div(columns, kDotColumns);
        const int64_t wide_panels = ceil_div(columns, kPanel);
#pragma omp parallel for schedule(static) num_threads(params.threads)
        for (int64_t task = 0; task < params.planes * panels * segments; ++task) {
            const int64_t s = task % segments, panel = task / segments % panels, p = task / segments / panels;
            char* to = packed + (narrow + ((p * panels + panel) * segments + s) * units * kBf16Unit * kDotColumns) * 2;
            for (int64_t half = 0; half < kDotColumns; half += kHalf, to += kHalf * kBf16Unit * 2) {
                const int64_t column = panel * kDotColumns + half;
                const float* from = transformed + wide + column % kPanel +
                                    ((p * wide_panels + column / kPanel) * depth + s * params.k) * kPanel;
                char* row = to;
                for (int64_t k = 0; k < units * kBf16Unit; k += 2, from += 2 * kPanel, row += kHalf * 4) {
                    const bool there = column < columns;
                    put_pairs(there && k < params.k ? from : zeros, there && k + 1 < params.k ? from + kPanel : zeros,
                              row);
                    if ((k + 2) % kBf16Unit == 0) row += kHalf * kBf16Unit * 2;
                }
            }
        }
        wide += params.planes * segments * params.k * panels * kDotColumns;
        narrow += params.planes * segments * units * kBf16Unit * panels * kDotColumns;
    }
}

}  // namespace dgo::DGO_ISA
