// Weights in bf16 -> panels of pairs of the depth, at about the rate of copying wherever the taps of a pair of channels,
// or channels, lie beside each other.
#include <omp.h>

#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/narrow/vtable.hpp"
#include "kernels/isa/transpose.hpp"

namespace dgo::DGO_ISA {
namespace {

using Word = Words::u16;
constexpr int64_t kMostTaps = 128;  // that are taken together
constexpr int64_t kUnitWords = kNarrowUnitBytes / 2, kHalfWords = kUnitWords / 2;

int64_t segment_count(const PackParams& params) {
    return params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
}
int64_t tap_count(const PackParams& params) { return params.kernel[0] * params.kernel[1] * params.kernel[2]; }
int64_t panel_count(const PackParams& params, const TargetGroup& group) {
    return ceil_div(group.target_count * params.n, kNarrowColumns);
}
int64_t segment_words(const PackParams& params) { return ceil_div(params.k, kNarrowUnit) * kUnitWords; }

// Where the pair from row k of a segment goes, for column c of its panel; those of 8 columns follow each other.
Word* pair_at(Word* segment, int64_t k, int64_t c) {
    return segment + k / kNarrowUnit * kUnitWords + c / 16 * kHalfWords + k % kNarrowUnit * 16 + c % 16 * 2;
}

// The taps of a pair of channels follow each other.
bool taps_together(const PackParams& params) {
    const int64_t taps = tap_count(params);
    if (taps < 4 || taps > kMostTaps || params.n % 8 != 0 || params.k % 2 != 0) return false;
    if (params.n_stride == 1 || params.k_stride == 1) return false;
    const int64_t dense[] = {params.kernel[1] * params.kernel[2], params.kernel[2], 1};
    for (int a = 0; a < kFilterAxes; ++a) {
        if (params.kernel[a] > 1 && params.tap_strides[a] != dense[a]) return false;
    }
    return true;
}

// Pairs of `count` taps, 8 or 4, from two rows of 8 columns: a row for each tap.
template <int kCount>
DGO_INLINE void put_taps(const Word* from, int64_t k_stride, int64_t n_stride, Word* const* to) {
    __m256 r[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        const Word *above = from + i * n_stride, *below = above + k_stride;
        if constexpr (kCount == 8) {
            r[i] = bits<__m256>(load_words<2, 8>(above) | load_words<2, 8>(below) << 16);
        } else {
            const auto pairs = load_words<2, 4>(above) | load_words<2, 4>(below) << 16;
            r[i] = _mm256_castps128_ps256(bits<__m128>(pairs));
        }
    }
    transpose8(r);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
        if (to[i] != nullptr) store_bytes(to[i], r[i]);
    }
}

// One unit of the depth from k on, and 8 channels of a target from n on, for all taps. `segments` has for each tap where
// its segment of that panel begins, or null.
void pack_taps(const PackParams& params, const Word* weights, int64_t k, const int64_t* columns,
               Word* const* segments) {
    const int64_t taps = tap_count(params), end = smaller(k + kNarrowUnit, params.k);
    Word* to[kMostTaps];
    for (int64_t t = 0; t < taps; ++t) to[t] = segments[t] == nullptr ? nullptr : pair_at(segments[t], k, columns[t]);
    for (const Word* from = weights; k < end; k += 2, from += 2 * params.k_stride) {
        int64_t t = 0;
        for (; t + 8 <= taps; t += 8) put_taps<8>(from + t, params.k_stride, params.n_stride, to + t);
        // the last ones once more rather than one by one
        if (t < taps && taps >= 8) {
            put_taps<8>(from + taps - 8, params.k_stride, params.n_stride, to + taps - 8);
        } else if (t < taps) {
            put_taps<4>(from, params.k_stride, params.n_stride, to);
            if (taps > 4) put_taps<4>(from + taps - 4, params.k_stride, params.n_stride, to + taps - 4);
        }
        for (t = 0; t < taps; ++t) to[t] += to[t] == nullptr ? 0 : 32;
    }
}

// All of the depth of one segment for `count` columns of a panel from `column` on, whose channels belong to one target.
void pack_slice(const PackParams& params, const Word* from, int64_t column, int64_t count, Word* segment) {
    const int64_t ks = params.k_stride, ns = params.n_stride;
    int64_t i = 0;
    for (; i + 8 <= count && column % 8 == 0 && (ns == 1 || ks == 1); i += 8) {
        const Word* at = from + i * ns;
        int64_t k = 0;
        for (; k + 16 <= params.k && ks == 1; k += 16, at += 16) {
            __m256 r[8];
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) r[j] = load_bytes<__m256>(at + j * ns);
            transpose8(r);
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) store_bytes(pair_at(segment, k + 2 * j, column + i), r[j]);
        }
        for (; k + 2 <= params.k && ns == 1; k += 2, at += 2 * ks) {
            store_bytes(pair_at(segment, k, column + i), load_words<2, 8>(at) | load_words<2, 8>(at + ks) << 16);
        }
        for (; k < params.k; ++k, at += ks) {
            for (int64_t j = 0; j < 8; ++j) pair_at(segment, k & ~int64_t{1}, column + i + j)[k & 1] = at[j * ns];
        }
    }
    for (; i < count; ++i) {
        for (int64_t k = 0; k < params.k; ++k) {
            pair_at(segment, k & ~int64_t{1}, column + i)[k & 1] = from[i * ns + k * ks];
        }
    }
}

int64_t tap_offset(const PackParams& params, int64_t segment, int64_t target) {
    int64_t offset;
    tap_offsets(params.taps, params.tap_strides, segment, target, &offset);
    return offset;
}

// One segment of one panel: zeros where nothing else comes, and what is not taken together.
void pack_segment(const PackParams& params, const TargetGroup& group, int64_t panel, int64_t segment, bool together,
                  const Word* weights, Word* to) {
    const int64_t first = panel * kNarrowColumns, all = group.target_count * params.n;
    const int64_t end = smaller(first + kNarrowColumns, all);
    bool whole = end - first == kNarrowColumns && params.k % kNarrowUnit == 0;
    for (int64_t c = first; whole && c < end; c += params.n - c % params.n) {
        whole = tap_offset(params, segment, group.targets[c / params.n]) >= 0;
    }
    if (!whole) __builtin_memset(to, 0, static_cast<size_t>(segment_words(params)) * 2);
    for (int64_t c = first, next; !together && c < end; c = next) {
        const int64_t channel = c % params.n, offset = tap_offset(params, segment, group.targets[c / params.n]);
        next = smaller(c - channel + params.n, end);
        if (offset < 0) continue;
        pack_slice(params, weights + offset + channel * params.n_stride, c - first, next - c, to);
    }
}

// Where the taps of 8 channels go.
struct TapColumns {
    Word* segments[kMostTaps];
    int64_t columns[kMostTaps];
};

void find_columns(const PackParams& params, int64_t n, Word* packed, TapColumns& found) {
    for (Word*& segment : found.segments) segment = nullptr;
    const int64_t count = segment_count(params), words = segment_words(params);
    for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
        for (int64_t i = 0; i < group->target_count; ++i) {
            const int64_t column = i * params.n + n, panel = column / kNarrowColumns;
            for (int64_t s = 0; s < count; ++s) {
                const int64_t tap = tap_offset(params, s, group->targets[i]);
                if (tap < 0) continue;
                found.segments[tap] = packed + group->packed + (panel * count + s) * words;
                found.columns[tap] = column % kNarrowColumns;
            }
        }
    }
}

// The channels [n, end) of all targets, at most 16: whole lines of a unit while that is near.
void pack_together(const PackParams& params, const Word* weights, int64_t n, int64_t end, Word* packed) {
    TapColumns found[2];
    for (int64_t i = n; i < end; i += 8) find_columns(params, i, packed, found[(i - n) / 8]);
    for (int64_t k = 0; k < params.k; k += kNarrowUnit) {
        for (int64_t i = n; i < end; i += 8) {
            const TapColumns& to = found[(i - n) / 8];
            pack_taps(params, weights + i * params.n_stride + k * params.k_stride, k, to.columns, to.segments);
        }
    }
}

}  // namespace

void run_narrow_pack(const PackParams& params, const char* weights, char* packed) {
    const int64_t segments = segment_count(params), words = segment_words(params);
    const bool together = taps_together(params);
    for (int64_t g = 0; g < params.channel_groups; ++g) {
        const Word* from = reinterpret_cast<const Word*>(weights) + g * params.group_stride;
        Word* to = reinterpret_cast<Word*>(packed) + g * params.packed;
        for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
            const int64_t tasks = panel_count(params, *group) * segments;
#pragma omp parallel for schedule(static) num_threads(params.threads)
            for (int64_t task = 0; task < tasks; ++task) {
                pack_segment(params, *group, task / segments, task % segments, together, from,
                             to + group->packed + task * words);
            }
        }
        if (!together) continue;
#pragma omp parallel for schedule(static) num_threads(params.threads)
        for (int64_t n = 0; n < params.n; n += 16) pack_together(params, from, n, smaller(n + 16, params.n), to);
    }
}

}  // namespace dgo::DGO_ISA
