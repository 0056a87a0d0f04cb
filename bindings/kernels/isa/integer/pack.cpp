// Weights of 8 bits -> panels of units of the depth, and the sum of each column; activations -> rows.
#include <omp.h>

#include "kernels/isa/cells.hpp"
#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/integer/vtable.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kFew = 4;  // elements of a position that are found one by one

#ifdef DGO_INTEGER_WORDS
using Element = Words::u16;
#else
using Element = Words::u8;
#endif

// Where element k of a column lies in the panel of a segment.
DGO_INLINE int64_t place(int64_t k, int64_t column) {
    const int64_t byte = k % kNarrowUnit * kNarrowItem;
    return (k / kNarrowUnit * kNarrowUnitBytes + column / 16 * kNarrowHalfBytes + byte / 4 * 64 + column % 16 * 4 +
            byte % 4) /
           kNarrowItem;
}

// The elements of a column of one segment; their sum.
template <class Source>
uint32_t pack_column(const PackParams& params, const typename Source::T* from, int32_t zero, int64_t column,
                     Element* to) {
    uint32_t total = 0;
    for (int64_t k = 0; k < params.k; ++k) {
        int32_t value = Source::get(from + k * params.k_stride);
        if (kNarrowItem == 2) {
            value -= zero;
        } else if (kSame<Source, U8>) {
            value -= 128;
        }
        total += static_cast<uint32_t>(value);
        to[place(k, column)] = static_cast<Element>(value);
    }
    return total;
}

template <class Source>
void pack_panel(const PackParams& params, const TargetGroup& group, int64_t panel, int64_t g, const char* weights,
                const int32_t* points, Element* to, int32_t* totals) {
    const int64_t segments = params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
    const int64_t depth = round_up(params.k, kNarrowUnit) * kNarrowColumns;
    const auto* from = reinterpret_cast<const typename Source::T*>(weights) + g * params.group_stride;
    __builtin_memset(to, 0, static_cast<size_t>(segments * depth * kNarrowItem));
    for (int64_t c = 0; c < kNarrowColumns; ++c) {
        const int64_t column = panel * kNarrowColumns + c, n = column % params.n;
        uint32_t total = 0;
        for (int64_t s = 0; s < segments && column < group.target_count * params.n; ++s) {
            int64_t offset;
            tap_offsets(params.taps, params.tap_strides, s, group.targets[column / params.n], &offset);
            if (offset < 0) continue;
            const int32_t zero = points == nullptr ? 0 : points[g * params.n + n];
            total += pack_column<Source>(params, from + offset + n * params.n_stride, zero, c, to + s * depth);
        }
        totals[c] = static_cast<int32_t>(total);
    }
}

}  // namespace

void run_integer_pack(const PackParams& params, const char* weights, const int32_t* points, char* packed,
                      int32_t* totals) {
    const int64_t segments = params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
    const int64_t depth = segments * round_up(params.k, kNarrowUnit);
    for (int64_t g = 0; g < params.channel_groups; ++g) {
        for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
            const int64_t panels = ceil_div(group->target_count * params.n, kNarrowColumns);
            const int64_t first = g * params.packed + group->packed;
            auto* to = reinterpret_cast<Element*>(packed) + first;
            int32_t* sums = totals + first / depth;
#pragma omp parallel for schedule(static) num_threads(params.threads)
            for (int64_t panel = 0; panel < panels; ++panel) {
                (params.cell == Cell::u8 ? pack_panel<U8> : pack_panel<S8>)(params, *group, panel, g, weights, points,
                                                                            to + panel * depth * kNarrowColumns,
                                                                            sums + panel * kNarrowColumns);
            }
        }
    }
}

void run_integer_rows(const IntegerRows& params, const char* src, char* rows) {
    const int64_t* sizes = params.sizes;
    const int64_t lines = sizes[0] * sizes[1] * sizes[2];
    // what tells s8 from u8 in bytes
    const int flip = params.cell == Cell::s8 ? 0x80 : 0;
#pragma omp parallel for schedule(static) num_threads(params.threads)
    for (int64_t line = 0; line < lines; ++line) {
        const int64_t at[] = {line / (sizes[1] * sizes[2]), line / sizes[2] % sizes[1], line % sizes[2]};
        const char* from = src + at[0] * params.strides[0] + at[1] * params.strides[1] + at[2] * params.strides[2];
        auto* to = reinterpret_cast<Element*>(rows) + line * sizes[3] * params.pitch;
        const auto row_element = [&](Words::u8 element) {
            return static_cast<Element>(kNarrowItem == 2 ? (element ^ flip) - flip - params.zero : element ^ flip);
        };
        for (int64_t i = 0; i < sizes[3]; ++i, from += params.strides[3], to += params.pitch) {
            const auto* element = reinterpret_cast<const Words::u8*>(from);
            if (params.channels <= kFew && params.pitch == kFew) {
                Element few[kFew] = {};
                for (int64_t c = 0; c < params.channels; ++c) few[c] = row_element(element[c]);
                __builtin_memcpy(to, few, sizeof(few));
                continue;
            }
            for (int64_t c = 0; c < params.channels; ++c) to[c] = row_element(element[c]);
            for (int64_t c = params.channels; c < params.pitch; ++c) to[c] = 0;
        }
    }
}

}  // namespace dgo::DGO_ISA
