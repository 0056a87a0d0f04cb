// Weights in bf16 -> panels of pairs of the depth, at about the rate of copying. Where neither kind of channels lies side by
// side, taps that do are read together.
#include <omp.h>

#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/filtering/vtable.hpp"
#include "kernels/isa/transpose.hpp"

namespace dgo::DGO_ISA {
namespace {

using Word = Words::u16;
constexpr int64_t kColumns = 8;  // that are turned together
constexpr int64_t kMostTaps = 64;  // of a task: each writes somewhere else
constexpr int64_t kUnitWords = kDotColumns * kBf16Unit, kHalfWords = kUnitWords / 2;

int64_t segment_count(const PackParams& params) {
    return params.taps.segments[0] * params.taps.segments[1] * params.taps.segments[2];
}
int64_t panel_count(const PackParams& params, const TargetGroup& group) {
    return ceil_div(group.target_count * params.n, kDotColumns);
}
int64_t segment_words(const PackParams& params) { return ceil_div(params.k, kBf16Unit) * kUnitWords; }

// Of a column's words: those of row k of a segment, k even.
DGO_INLINE int64_t row_words(int64_t k) {
    static_assert(kUnitWords == 32 * kBf16Unit, "two halves of 16 words for each of the depth");
    return 16 * (k + (k & -kBf16Unit));
}

// Where up to 8 columns of pairs go: those from `cut` on begin the next 16 columns. Null: nowhere.
struct Sink {
    Word *to, *over;
    int64_t cut, count;

    bool whole() const { return to != nullptr && cut == kColumns; }
};

// `next`: where the 32 columns after those of `segment` begin.
Sink sink_at(Word* segment, int64_t column, int64_t count, Word* next) {
    const int64_t half = column / 16;
    return {segment + half * kHalfWords + column % 16 * 2, half == 0 ? segment + kHalfWords : next,
            smaller(count, 16 - column % 16), count};
}

// Columns [begin, end) of 8 to `to` and on.
DGO_INLINE void put_some(Word* to, __m256 pairs, int64_t begin, int64_t end) {
    if constexpr (kWide) {
        _mm256_mask_storeu_ps(to - 2 * begin, static_cast<__mmask8>((1u << end) - (1u << begin)), pairs);
    } else {
        uint32_t all[kColumns];
        store_bytes(all, pairs);
        __builtin_memcpy(to, all + begin, static_cast<size_t>(end - begin) * 4);
    }
}

template <bool kWhole>
DGO_INLINE void put(const Sink& sink, int64_t words, __m256 pairs) {
    if constexpr (kWhole) {
        store_bytes(sink.to + words, pairs);
    } else {
        if (sink.to == nullptr) return;
        put_some(sink.to + words, pairs, 0, sink.cut);
        if (sink.cut < sink.count) put_some(sink.over + words, pairs, sink.cut, sink.count);
    }
}

// kCount words; what else is there is not touched.
template <int kCount>
DGO_INLINE __m256i load_taps(const Word* at) {
    if constexpr (kCount == 8) return bits<__m256i>(load_words<2, 8>(at));
    if constexpr (kCount == 1) return _mm256_castsi128_si256(_mm_cvtsi32_si128(*at));
    if constexpr (kCount > 1 && kCount < 8) {
        return _mm256_castsi128_si256(bits<__m128i>(load_few_words<2, kCount>(at)));
    }
}

// Two channels of the depth, or at its end one, of 8 columns or what there are; kCount taps of each side by side.
template <int kCount, bool kWhole>
DGO_INLINE void put_taps(const Word* from, const PackParams& params, bool one, const Sink* sinks, int64_t words) {
    __m256 r[kColumns];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kColumns; ++i) {
        const Word* above = from + (kWhole ? i : smaller(i, sinks->count - 1)) * params.n_stride;
        __m256i pairs = load_taps<kCount>(above);
        if (!one) {
            pairs = _mm256_or_si256(pairs, _mm256_slli_epi32(load_taps<kCount>(above + params.k_stride), 16));
        }
        r[i] = bits<__m256>(pairs);
    }
    transpose8(r);
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) put<kWhole>(sinks[i], words, r[i]);
}

// One unit of the depth from k on for one or two times 8 columns.
template <int kCount>
void put_unit(const PackParams& params, const Word* weights, int64_t k, const Sink* const* sinks, int64_t blocks) {
    bool whole = true;
    for (int64_t block = 0; block < blocks; ++block) {
        for (int i = 0; i < kCount; ++i) whole = whole && sinks[block][i].whole();
    }
    const int64_t end = smaller(k + kBf16Unit, params.k), ks = params.k_stride, step = kColumns * params.n_stride;
    const auto rows = [&](auto put_rows) __attribute__((always_inline)) {
        for (; k < end; k += 2) {
            const Word* from = weights + k * ks;
            for (int64_t block = 0; block < blocks; ++block, from += step) put_rows(from, sinks[block]);
        }
    };
    if (whole && end % 2 == 0) {
        rows([&](const Word* from, const Sink* to)
                 __attribute__((always_inline)) { put_taps<kCount, true>(from, params, false, to, row_words(k)); });
    } else {
        rows([&](const Word* from, const Sink* to) __attribute__((always_inline)) {
            put_taps<kCount, false>(from, params, k + 1 == params.k, to, row_words(k));
        });
    }
}

// Channels [n, n + count) of all targets, at most 16, and all of the depth for taps [first, end), which lie side by side.
void pack_taps(const Bf16PackParams& narrow, const Word* weights, int64_t n, int64_t count, int64_t first, int64_t end,
               Word* packed) {
    const PackParams& params = narrow.weights;
    const int64_t taps = end - first, blocks = ceil_div(count, kColumns), words = segment_words(params);
    const int64_t panel_words = segment_count(params) * words;
    Sink sinks[2][kMostTaps];
    for (int64_t i = 0; i < taps * blocks; ++i) {
        const Bf16Tap& tap = narrow.taps[first + i % taps];
        const int64_t block = i / taps, column = tap.column + n + block * kColumns;
        const int64_t some = smaller(kColumns, count - block * kColumns);
        Word* segment = packed + tap.to + column / kDotColumns * panel_words;
        sinks[block][i % taps] = tap.to < 0 ? Sink{nullptr, nullptr, 0, some}
                                            : sink_at(segment, column % kDotColumns, some, segment + panel_words);
    }
    weights += narrow.taps[first].from + n * params.n_stride;
    // two blocks fill lines while they are near; rows that are far apart are read one block after the other
    const int64_t at_once = params.n_stride < params.k_stride ? blocks : 1;
    for (int64_t part = 0; part < ceil_div(params.k, kBf16Unit) * blocks; part += at_once) {
        const int64_t k = part / blocks * kBf16Unit, block = part % blocks;
        const auto unit = [&](auto put_some_taps, int64_t t) {
            const Sink* const there[] = {sinks[block] + t, sinks[1] + t};
            put_some_taps(params, weights + block * kColumns * params.n_stride + t, k, there, at_once);
        };
        int64_t t = 0;
        for (; t + 8 <= taps; t += 8) unit(put_unit<8>, t);
        // the last ones once more rather than one by one
        const int64_t left = taps - t;
        if (left > 4 && t > 0) {
            unit(put_unit<8>, taps - 8);
            continue;
        }
        if (left >= 4) unit(put_unit<4>, t);
        if (left > 4) unit(put_unit<4>, taps - 4);
        if (left == 3) unit(put_unit<3>, t);
        if (left == 2) unit(put_unit<2>, t);
        if (left == 1) unit(put_unit<1>, t);
    }
}

// The first `count` of 8 words; the others are not touched.
DGO_INLINE __m256i load_some(const Word* at, int64_t count) {
    if (count == kColumns) return bits<__m256i>(load_words<2, 8>(at));
    if constexpr (kWide) {
        return _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(static_cast<__mmask8>((1u << count) - 1), at));
    } else {
        Word some[kColumns] = {};
        __builtin_memcpy(some, at, static_cast<size_t>(count) * 2);
        return bits<__m256i>(load_words<2, 8>(some));
    }
}

// All of the depth of one segment for up to 8 columns; channels of one kind lie side by side.
template <bool kWhole>
void put_slice(const PackParams& params, const Word* from, const Sink& given) {
    const Sink sink = given;  // which no store changes
    const int64_t ks = params.k_stride, ns = params.n_stride, depth = params.k, even = depth & ~int64_t{1};
    const int64_t count = kWhole ? kColumns : sink.count;
    int64_t k = 0;
    const auto put_across = [&](int64_t row) __attribute__((always_inline)) {
        __m256 r[kColumns];
#pragma GCC unroll 8
        for (int64_t j = 0; j < kColumns; ++j) r[j] = load_bytes<__m256>(from + row + smaller(j, count - 1) * ns);
        transpose8(r);
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) put<kWhole>(sink, row_words(row + 2 * j), r[j]);
    };
    if (ks == 1 && depth >= 16) {
        for (; k + 16 <= depth; k += 16) put_across(k);
        // the last ones once more, but for one that has no second
        if (k < even) put_across(even - 16);
        k = even;
    }
    if (ns == 1) {
        const Word* at = from + k * ks;
        for (; k < even; k += 2, at += 2 * ks) {
            const __m256i above = load_some(at, count), below = load_some(at + ks, count);
            put<kWhole>(sink, row_words(k), bits<__m256>(_mm256_or_si256(above, _mm256_slli_epi32(below, 16))));
        }
        if (k < depth) put<kWhole>(sink, row_words(k), bits<__m256>(load_some(at, count)));
        return;
    }
    for (; k < depth; k += 2) {
        uint32_t all[kColumns] = {};
        for (int64_t j = 0; j < count; ++j) {
            const Word* at = from + k * ks + j * ns;
            all[j] = at[0] | (k < even ? uint32_t{at[ks]} << 16 : 0);
        }
        put<kWhole>(sink, row_words(k), load_bytes<__m256>(all));
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
    const int64_t first = panel * kDotColumns, all = group.target_count * params.n;
    const int64_t end = smaller(first + kDotColumns, all);
    bool whole = end - first == kDotColumns && params.k % kBf16Unit == 0;
    for (int64_t c = first; whole && c < end; c += params.n - c % params.n) {
        whole = tap_offset(params, segment, group.targets[c / params.n]) >= 0;
    }
    if (!whole) __builtin_memset(to, 0, static_cast<size_t>(segment_words(params)) * 2);
    for (int64_t c = first, next; !together && c < end; c = next) {
        const int64_t channel = c % params.n, offset = tap_offset(params, segment, group.targets[c / params.n]);
        next = smaller(c - channel + params.n, end);
        if (offset < 0) continue;
        const Word* from = weights + offset + channel * params.n_stride;
        for (int64_t i = c; i < next; i += kColumns, from += kColumns * params.n_stride) {
            const Sink sink = sink_at(to, i - first, smaller(kColumns, next - i), nullptr);
            (sink.whole() ? put_slice<true> : put_slice<false>)(params, from, sink);
        }
    }
}

}  // namespace

void run_bf16_pack(const Bf16PackParams& narrow, const char* weights, char* packed) {
    const PackParams& params = narrow.weights;
    const int64_t segments = segment_count(params), words = segment_words(params);
    const bool together = narrow.run > 0;
    const int64_t run_parts = together ? ceil_div(narrow.run, kMostTaps) : 0;
    const int64_t tap_parts = together ? narrow.tap_count / narrow.run * run_parts : 0;
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
        for (int64_t task = 0; task < ceil_div(params.n, 16) * tap_parts; ++task) {
            const int64_t n = task / tap_parts * 16, part = task % tap_parts;
            const int64_t first = part / run_parts * narrow.run, of_run = part % run_parts;
            pack_taps(narrow, from, n, smaller(16, params.n - n), first + narrow.run * of_run / run_parts,
                      first + narrow.run * (of_run + 1) / run_parts, to);
        }
    }
}

}  // namespace dgo::DGO_ISA
