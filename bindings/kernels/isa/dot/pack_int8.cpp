// Weights of 8 bits -> panels of units of the depth, and the sum of each column; activations -> rows.
#include <omp.h>

#include "kernels/isa/cells.hpp"
#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/filtering/vtable.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kFew = 4;    // elements of a position that are found one by one
constexpr int64_t kMany = 16;  // and at once

int64_t segment_count(const PackParams& params) {
    return params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
}

// The elements of a column of one segment; their sum.
template <class Source, class Element>
uint32_t pack_column(const Dot& dot, const PackParams& params, const typename Source::T* from, int32_t zero,
                     int64_t column, Element* to) {
    constexpr auto kItem = static_cast<int64_t>(sizeof(Element)), kStep = 4 / kItem;
    const int32_t less = kItem == 2 ? zero : kSame<Source, U8> ? 128 : 0;
    to += column / 16 * (unit_bytes(dot) / 2 / kItem) + column % 16 * kStep;
    const int64_t steps = dot.unit / kStep, next = unit_bytes(dot) / kItem - steps * (64 / kItem);
    uint32_t total = 0;
    for (int64_t k = 0, step = 0; k < params.k; k += kStep, to += 64 / kItem) {
        if (step++ == steps) {
            step = 1;
            to += next;
        }
        for (int64_t i = 0; i < kStep && k + i < params.k; ++i, from += params.k_stride) {
            const auto value = static_cast<uint32_t>(Source::get(from) - less);
            total += value;
            to[i] = static_cast<Element>(value);
        }
    }
    return total;
}

template <class Source, class Element>
void pack_panel(const Dot& dot, const PackParams& params, const TargetGroup& group, int64_t panel, int64_t g,
                const char* weights, const int32_t* points, char* to, int32_t* totals) {
    const int64_t segments = segment_count(params), bytes = ceil_div(params.k, dot.unit) * unit_bytes(dot);
    const auto* from = reinterpret_cast<const typename Source::T*>(weights) + g * params.group_stride;
    __builtin_memset(to, 0, static_cast<size_t>(segments * bytes));
    for (int64_t c = 0; c < kDotColumns; ++c) {
        const int64_t column = panel * kDotColumns + c, n = column % params.n;
        uint32_t total = 0;
        for (int64_t s = 0; s < segments && column < group.target_count * params.n; ++s) {
            int64_t offset;
            tap_offsets(params.taps, params.tap_strides, s, group.targets[column / params.n], &offset);
            if (offset < 0) continue;
            const int32_t zero = points == nullptr ? 0 : points[g * params.n + n];
            total += pack_column<Source>(dot, params, from + offset + n * params.n_stride, zero, c,
                                         reinterpret_cast<Element*>(to + s * bytes));
        }
        totals[c] = static_cast<int32_t>(total);
    }
}

template <class Element>
void make_rows(const Int8Rows& params, const char* src, Element* rows) {
    const int64_t* sizes = params.sizes;
    const int64_t lines = sizes[0] * sizes[1] * sizes[2];
    // what tells s8 from u8 in bytes
    const int flip = params.cell == Cell::s8 ? 0x80 : 0;
    const auto less = static_cast<Element>(sizeof(Element) == 2 ? flip + params.zero : 0);
    typedef Element Many __attribute__((vector_size(kMany * sizeof(Element))));
#pragma omp parallel for schedule(static) num_threads(params.threads)
    for (int64_t line = 0; line < lines; ++line) {
        const int64_t at[] = {line / (sizes[1] * sizes[2]), line / sizes[2] % sizes[1], line % sizes[2]};
        const char* from = src + at[0] * params.strides[0] + at[1] * params.strides[1] + at[2] * params.strides[2];
        Element* to = rows + line * sizes[3] * params.pitch;
        // values of its own, which no store changes
        const auto row_element = [flip, less](Words::u8 element) {
            return static_cast<Element>((element ^ flip) - less);
        };
        const Many flips = static_cast<Element>(flip) - Many{}, all_less = less - Many{};
        for (int64_t i = 0; i < sizes[3]; ++i, from += params.strides[3], to += params.pitch) {
            const auto* element = reinterpret_cast<const Words::u8*>(from);
            if (params.channels <= kFew && params.pitch == kFew) {
                Element few[kFew] = {};
                for (int64_t c = 0; c < params.channels; ++c) few[c] = row_element(element[c]);
                __builtin_memcpy(to, few, sizeof(few));
                continue;
            }
            int64_t c = 0;
#pragma GCC unroll 4
            for (; c + kMany <= params.channels; c += kMany) {
                const __m128i bytes = load_bytes<__m128i>(element + c);
                Many many;
                if constexpr (sizeof(Element) == 2) {
                    many = bits<Many>(_mm256_cvtepu8_epi16(bytes));
                } else {
                    many = bits<Many>(bytes);
                }
                store_bytes(to + c, (many ^ flips) - all_less);
            }
            for (; c < params.channels; ++c) to[c] = row_element(element[c]);
            for (; c < params.pitch; ++c) to[c] = 0;
        }
    }
}

}  // namespace

void run_int8_pack(const Dot& dot, const PackParams& params, const char* weights, const int32_t* points, char* packed,
                   int32_t* totals) {
    const int64_t depth = segment_count(params) * round_up(params.k, dot.unit);
    const bool without_sign = params.cell == Cell::u8;
    const auto pack = dot.item == 2 ? (without_sign ? pack_panel<U8, Words::u16> : pack_panel<S8, Words::u16>)
                                    : (without_sign ? pack_panel<U8, Words::u8> : pack_panel<S8, Words::u8>);
    for (int64_t g = 0; g < params.channel_groups; ++g) {
        for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
            const int64_t panels = ceil_div(group->target_count * params.n, kDotColumns);
            const int64_t first = g * params.packed + group->packed;
            int32_t* sums = totals + first / depth;
#pragma omp parallel for schedule(static) num_threads(params.threads)
            for (int64_t panel = 0; panel < panels; ++panel) {
                pack(dot, params, *group, panel, g, weights, points,
                     packed + (first + panel * depth * kDotColumns) * dot.item, sums + panel * kDotColumns);
            }
        }
    }
}

void run_int8_rows(const Dot& dot, const Int8Rows& params, const char* src, char* rows) {
    if (dot.item == 2) {
        make_rows(params, src, reinterpret_cast<Words::u16*>(rows));
    } else {
        make_rows(params, src, reinterpret_cast<Words::u8*>(rows));
    }
}

}  // namespace dgo::DGO_ISA
