// Weights in bf16 -> panels of pairs of the depth.
#include <omp.h>

#include "kernels/isa/cells.hpp"
#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/narrow/vtable.hpp"

namespace dgo::DGO_ISA {
namespace {

using Word = Words::u16;

// `count` columns of a panel from column `to` on: channels of one target, taken where its tap lies.
struct NarrowSlice {
    const Word* from;
    int64_t to, count;
};

// All of the depth of one segment.
void pack_slice(const PackParams& params, const NarrowSlice& slice, Word* units) {
    const int64_t ks = params.k_stride, ns = params.n_stride;
    for (int64_t k = 0; k < params.k; k += 2) {
        const Word *from = slice.from + k * ks, *below = from + ks;
        Word* row = units + k / kNarrowUnit * (kNarrowUnitBytes / 2) + k % kNarrowUnit * 16;
        const bool two = k + 1 < params.k;
        for (int64_t i = 0; i < slice.count;) {
            const int64_t c = slice.to + i;
            Word* to = row + c / 16 * (kNarrowUnitBytes / 4) + c % 16 * 2;
            if (two && ns == 1 && c % 8 == 0 && i + 8 <= slice.count) {
                store_bytes(to, load_words<2, 8>(from + i) | load_words<2, 8>(below + i) << 16);
                i += 8;
                continue;
            }
            to[0] = from[i * ns];
            if (two) to[1] = below[i * ns];
            ++i;
        }
    }
}

}  // namespace

void run_narrow_pack(const PackParams& params, const char* weights, char* packed) {
    const int64_t segments = params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
    const int64_t unit_count = ceil_div(params.k, kNarrowUnit), size = unit_count * kNarrowUnitBytes;
    for (int64_t g = 0; g < params.channel_groups * params.group_count; ++g) {
        const TargetGroup& group = params.groups[g % params.group_count];
        const int64_t columns = group.target_count * params.n, panels = ceil_div(columns, kNarrowColumns);
        const Word* from = reinterpret_cast<const Word*>(weights) + g / params.group_count * params.group_stride;
        char* to = packed + (g / params.group_count * params.packed + group.packed) * 2;
#pragma omp parallel for schedule(static) num_threads(params.threads)
        for (int64_t task = 0; task < panels * segments; ++task) {
            const int64_t panel = task / segments, segment = task % segments;
            const int64_t first = panel * kNarrowColumns, end = smaller(first + kNarrowColumns, columns);
            char* units = to + task * size;
            __builtin_memset(units, 0, static_cast<size_t>(size));
            for (int64_t c = first, next; c < end; c = next) {
                const int64_t channel = c % params.n;
                next = smaller(c - channel + params.n, end);
                int64_t offset;
                tap_offsets(params.taps, params.tap_strides, segment, group.targets[c / params.n], &offset);
                if (offset < 0) continue;
                pack_slice(params, {from + offset + channel * params.n_stride, c - first, next - c},
                           reinterpret_cast<Word*>(units));
            }
        }
    }
}

}  // namespace dgo::DGO_ISA
