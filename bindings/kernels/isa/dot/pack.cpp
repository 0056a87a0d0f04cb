// Packs weights of bf16 or 8 bits into panels of units of the depth, at about the rate of copying. Taps that lie side by
// side are read together where no channels do. Weights of 8 bits get the sum of each column as well.
#include "kernels/team.hpp"
#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/product/sizes.hpp"
#include "kernels/isa/vector/transpose.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kColumns = 8;  // columns that are transposed together
constexpr int64_t kMostTaps = 64;  // taps of a task: each of them writes to another place
constexpr int64_t kDepthAtOnce = 32;  // the depth at once where taps are read together
constexpr int64_t kHalfColumns = 16, kStepBytes = 4 * kHalfColumns;  // a step of the depth: 4 bytes of each column

// The addresses of up to 8 columns of a step: of the first `cut` columns at `to`, of the rest, which begin the next 16
// columns, at `over`. to null: nothing is stored.
struct Sink {
    char *to, *over;
    int64_t cut, count;

    bool whole() const { return to != nullptr && cut == kColumns; }
};

// Stores columns [begin, end) of 8 at `to`.
DGO_INLINE void put_some(char* to, __m256 steps, int64_t begin, int64_t end) {
    if constexpr (kWide) {
        _mm256_mask_storeu_ps(to - 4 * begin, static_cast<__mmask8>((1u << end) - (1u << begin)), steps);
    } else {
        uint32_t all[kColumns];
        store_bytes(all, steps);
        __builtin_memcpy(to, all + begin, static_cast<size_t>(end - begin) * 4);
    }
}

template <bool kWhole>
DGO_INLINE void put(const Sink& sink, int64_t at, __m256 steps) {
    if constexpr (kWhole) {
        store_bytes(sink.to + at, steps);
    } else {
        if (sink.to == nullptr) return;
        put_some(sink.to + at, steps, 0, sink.cut);
        if (sink.cut < sink.count) put_some(sink.over + at, steps, sink.cut, sink.count);
    }
}

int64_t tap_offset(const PackParams& params, int64_t segment, int64_t target) {
    int64_t offset;
    tap_offsets(params.taps, params.tap_strides, segment, target, &offset);
    return offset;
}

int64_t panel_count(const PackParams& params, const TargetGroup& group) {
    return ceil_div(group.target_count * params.n, kDotColumns);
}

int64_t segment_bytes(const Dot& dot, const PackParams& params) {
    return ceil_div(params.k, dot.unit) * unit_bytes(dot);
}

// Packs elements of weights as steps of kStep elements of the same width or wider.
template <class Source, int64_t kStep>
struct Packer {
    using T = typename Source::T;
    static constexpr int kBits = 32 / kStep;

    const Dot& dot;
    const DotPackParams& of;
    const PackParams& params = of.weights;
    const int64_t unit = dot.unit, half_bytes = unit_bytes(dot) / 2, segments = segment_count(params),
                  bytes = segment_bytes(dot, params);

    // The offset, within a column, of row k of a segment; k begins a step. Units are powers of two.
    static DGO_INLINE int64_t step_at(int64_t k, int64_t unit) { return kStepBytes / kStep * (k + (k & -unit)); }

    // next: the address of the 32 columns after the columns of `segment`.
    Sink sink_at(char* segment, int64_t column, int64_t count, char* next) const {
        const int64_t half = column / kHalfColumns, in_half = column % kHalfColumns;
        return {segment + half * half_bytes + in_half * 4, half == 0 ? segment + half_bytes : next,
                smaller(count, kHalfColumns - in_half), count};
    }

    // Loads kCount elements and reads nothing else.
    template <int kCount>
    static DGO_INLINE __m256i load_taps(const T* at) {
        if constexpr (kCount == 8) return bits<__m256i>(load_words<Source::kSize, 8>(at));
        if constexpr (kCount == 1) return _mm256_castsi128_si256(_mm_cvtsi32_si128(*at));
        if constexpr (kCount > 1 && kCount < 8) {
            return _mm256_castsi128_si256(bits<__m128i>(load_few_words<Source::kSize, kCount>(at)));
        }
    }

    // Loads the first `count` of 8 elements and reads nothing else.
    static DGO_INLINE __m256i load_some(const T* at, int64_t count) {
        if (count == kColumns) return load_taps<8>(at);
        if constexpr (kWide) {
            const auto some = static_cast<__mmask8>((1u << count) - 1);
            if constexpr (Source::kSize == 2) return _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(some, at));
            if constexpr (Source::kSize == 1) return _mm256_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, at));
        } else {
            T some[kColumns] = {};
            __builtin_memcpy(some, at, static_cast<size_t>(count) * sizeof(T));
            return load_taps<8>(some);
        }
    }

    // Loads eight steps of a column whose depth lies side by side.
    static DGO_INLINE __m256 load_across(const T* at) {
        if constexpr (Source::kSize * kStep == 4) return load_bytes<__m256>(at);
        if constexpr (Source::kSize * kStep == 2) return bits<__m256>(_mm256_cvtepu8_epi16(load_bytes<__m128i>(at)));
    }

    // Joins a step of 8 columns or taps from load(0), load(1), ...; at the end of the depth only `present` elements.
    template <class Load>
    static DGO_INLINE __m256i join(int64_t present, Load load) {
        __m256i steps = load(0);
#pragma GCC unroll 4
        for (int64_t i = 1; i < present; ++i) {
            steps = _mm256_or_si256(steps, _mm256_slli_epi32(load(i), static_cast<int>(kBits * i)));
        }
        return steps;
    }

    // Packs a step of up to 8 columns, in each of which kCount taps lie side by side.
    template <int kCount, bool kWhole>
    static DGO_INLINE void put_taps(const T* from, int64_t ks, int64_t ns, int64_t present, const Sink* sinks,
                                    int64_t at) {
        __m256 r[kColumns];
#pragma GCC unroll 8
        for (int64_t i = 0; i < kColumns; ++i) {
            const T* above = from + (kWhole ? i : smaller(i, sinks->count - 1)) * ns;
            r[i] = bits<__m256>(join(kWhole ? kStep : present, [&](int64_t k) __attribute__((always_inline)) {
                return load_taps<kCount>(above + k * ks);
            }));
        }
        transpose8(r);
#pragma GCC unroll 8
        for (int i = 0; i < kCount; ++i) put<kWhole>(sinks[i], at, r[i]);
    }

    // Packs a part of the depth from k on of 8 or 16 columns.
    template <int kCount>
    void put_depth(const T* weights, int64_t k, const Sink* const* sinks, int64_t blocks) const {
        bool whole = true;
        for (int64_t block = 0; block < blocks; ++block) {
            for (int i = 0; i < kCount; ++i) whole = whole && sinks[block][i].whole();
        }
        const int64_t end = smaller(k + kDepthAtOnce, params.k), ks = params.k_stride, ns = params.n_stride,
                      of_unit = unit;
        const auto steps = [&](auto put_step) __attribute__((always_inline)) {
            for (; k < end; k += kStep) {
                const T* from = weights + k * ks;
                for (int64_t block = 0; block < blocks; ++block, from += kColumns * ns) put_step(from, sinks[block]);
            }
        };
        if (whole && end % kStep == 0) {
            steps([&](const T* from, const Sink* to) __attribute__((always_inline)) {
                put_taps<kCount, true>(from, ks, ns, kStep, to, step_at(k, of_unit));
            });
        } else {
            steps([&](const T* from, const Sink* to) __attribute__((always_inline)) {
                put_taps<kCount, false>(from, ks, ns, smaller(kStep, end - k), to, step_at(k, of_unit));
            });
        }
    }

    // Packs channels [n, n + count), at most 16, of all targets, and the whole depth, for taps [first, end), which lie
    // side by side.
    void pack_taps(const T* weights, int64_t n, int64_t count, int64_t first, int64_t end, char* packed) const {
        const int64_t taps = end - first, blocks = ceil_div(count, kColumns);
        Sink sinks[2][kMostTaps];
        for (int64_t i = 0; i < taps * blocks; ++i) {
            const DotTap& tap = of.taps[first + i % taps];
            const int64_t block = i / taps, column = tap.column + n + block * kColumns;
            const int64_t some = smaller(kColumns, count - block * kColumns), panel = segments * bytes;
            char* segment = packed + tap.to + column / kDotColumns * panel;
            sinks[block][i % taps] = tap.to < 0 ? Sink{nullptr, nullptr, 0, some}
                                                : sink_at(segment, column % kDotColumns, some, segment + panel);
        }
        weights += of.taps[first].from + n * params.n_stride;
        // two blocks fill lines while they are near; rows that are far apart are read one block after the other
        const int64_t at_once = params.n_stride < params.k_stride ? blocks : 1;
        for (int64_t part = 0; part < ceil_div(params.k, kDepthAtOnce) * blocks; part += at_once) {
            const int64_t k = part / blocks * kDepthAtOnce, block = part % blocks;
            for (int64_t t = 0, some; t < taps; t += some) {
                some = taps - t > 4 && taps >= 8 ? 8 : smaller(taps - t, 4);
                t = smaller(t, taps - some);  // the last ones once more rather than one by one
                const auto put_some = some == 8   ? &Packer::put_depth<8>
                                      : some == 4 ? &Packer::put_depth<4>
                                      : some == 3 ? &Packer::put_depth<3>
                                      : some == 2 ? &Packer::put_depth<2>
                                                  : &Packer::put_depth<1>;
                const Sink* const there[] = {sinks[block] + t, sinks[1] + t};
                (this->*put_some)(weights + block * kColumns * params.n_stride + t, k, there, at_once);
            }
        }
    }

    // Packs the whole depth of one segment for up to 8 columns; the channels of columns or of the depth lie side by
    // side.
    template <bool kWhole>
    void put_slice(const T* from, const Sink& given) const {
        const Sink sink = given;  // a copy, which no store changes
        const int64_t ks = params.k_stride, ns = params.n_stride, depth = params.k, even = depth & -kStep,
                      of_unit = unit;
        const int64_t count = kWhole ? kColumns : sink.count;
        constexpr int64_t kAcross = 8 * kStep;
        int64_t k = 0;
        const auto put_across = [&](int64_t row) __attribute__((always_inline)) {
            __m256 r[kColumns];
#pragma GCC unroll 8
            for (int64_t j = 0; j < kColumns; ++j) r[j] = load_across(from + row + smaller(j, count - 1) * ns);
            transpose8(r);
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) put<kWhole>(sink, step_at(row + kStep * j, of_unit), r[j]);
        };
        if (ks == 1 && depth >= kAcross) {
            for (; k + kAcross <= depth; k += kAcross) put_across(k);
            // the last whole steps are packed twice
            if (k < even) put_across(even - kAcross);
            k = even;
        }
        const auto rows = [&](auto load_row) __attribute__((always_inline)) {
            const auto step = [&](int64_t present) __attribute__((always_inline)) {
                const T* at = from + k * ks;
                const auto load = [&](int64_t i) __attribute__((always_inline)) { return load_row(at + i * ks); };
                put<kWhole>(sink, step_at(k, of_unit), bits<__m256>(join(present, load)));
            };
            for (; k < even; k += kStep) step(kStep);
            if (k < depth) step(depth - k);
        };
        if (ns == 1) return rows([&](const T* at) __attribute__((always_inline)) { return load_some(at, count); });
        rows([&](const T* at) __attribute__((always_inline)) {
            uint32_t all[kColumns] = {};
            for (int64_t j = 0; j < count; ++j) all[j] = at[j * ns];
            return load_bytes<__m256i>(all);
        });
    }

    // Packs one segment of one panel: zeros for absent taps, and the taps that are not packed together.
    void pack_segment(const TargetGroup& group, int64_t panel, int64_t segment, const T* weights, char* to) const {
        const int64_t first = panel * kDotColumns, all = group.target_count * params.n;
        const int64_t end = smaller(first + kDotColumns, all);
        bool whole = end - first == kDotColumns && (params.k & (unit - 1)) == 0;
        for (int64_t c = first; whole && c < end; c += params.n - c % params.n) {
            whole = tap_offset(params, segment, group.targets[c / params.n]) >= 0;
        }
        if (!whole) __builtin_memset(to, 0, static_cast<size_t>(bytes));
        for (int64_t c = first, next; of.run == 0 && c < end; c = next) {
            const int64_t channel = c % params.n, offset = tap_offset(params, segment, group.targets[c / params.n]);
            next = smaller(c - channel + params.n, end);
            if (offset < 0) continue;
            const T* from = weights + offset + channel * params.n_stride;
            for (int64_t i = c; i < next; i += kColumns, from += kColumns * params.n_stride) {
                const Sink sink = sink_at(to, i - first, smaller(kColumns, next - i), nullptr);
                sink.whole() ? put_slice<true>(from, sink) : put_slice<false>(from, sink);
            }
        }
    }

    void run(const char* weights, char* packed) const {
        const int64_t run_parts = ceil_div(of.run, kMostTaps),
                      tap_parts = of.run > 0 ? of.tap_count / of.run * run_parts : 0;
        for (int64_t g = 0; g < params.channel_groups; ++g) {
            const T* from = reinterpret_cast<const T*>(weights) + g * params.group_stride;
            char* to = packed + g * params.packed * dot.item;
            for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
                const int64_t tasks = panel_count(params, *group) * segments;
                run_evenly(params.threads, tasks, [&](int64_t task, int) {
                    pack_segment(*group, task / segments, task % segments, from,
                                 to + group->packed * dot.item + task * bytes);
                });
            }
            if (tap_parts == 0) continue;
            run_evenly(params.threads, ceil_div(params.n, 16) * tap_parts, [&](int64_t task, int) {
                const int64_t n = task / tap_parts * 16, part = task % tap_parts;
                const int64_t first = part / run_parts * of.run, of_run = part % run_parts;
                pack_taps(from, n, smaller(16, params.n - n), first + of.run * of_run / run_parts,
                          first + of.run * (of_run + 1) / run_parts, to);
            });
        }
    }
};

// The change of a step of half a panel: element = (element ^ flip) - less. Both are 0 for elements of absent taps and
// columns, and beyond the depth, which stay 0. `points`: zero points of the columns' channels, or null.
template <class Element>
struct StepChange {
    static constexpr int64_t kItem = sizeof(Element), kStep = 4 / kItem;
    Element flips[kHalfColumns * kStep] = {}, less[kHalfColumns * kStep] = {};

    StepChange(const PackParams& params, const TargetGroup& group, int64_t segment, int64_t first,
               const int32_t* points) {
        const int flip = (params.type == ElementType::u8) == (kItem == 1) ? 0x80 : 0;
        for (int64_t c = 0; c < kHalfColumns && first + c < group.target_count * params.n; ++c) {
            const int64_t column = first + c;
            if (tap_offset(params, segment, group.targets[column / params.n]) < 0) continue;
            const int point = points == nullptr ? 0 : points[column % params.n];
            for (int64_t i = c * kStep; i < (c + 1) * kStep; ++i) {
                flips[i] = static_cast<Element>(flip);
                less[i] = static_cast<Element>(kItem == 1 ? 0 : flip + point);
            }
        }
    }

    // Leaves all but `present` elements of each column as they are.
    void cut(int64_t present) {
        for (int64_t i = 0; i < kHalfColumns * kStep; ++i) {
            if (i % kStep >= present) flips[i] = less[i] = 0;
        }
    }

    // Returns vector v of the step, changed.
    DGO_INLINE __m256i of(int64_t v, __m256i elements) const {
        const __m256i flipped = _mm256_xor_si256(elements, load_bytes<__m256i>(flips + v * 32 / kItem));
        return _mm256_sub_epi16(flipped, load_bytes<__m256i>(less + v * 32 / kItem));
    }
};

// Makes the elements of 8 bits of a panel as the set multiplies them: bytes get a sign, and words lose their zero points.
// Writes the sums of the panel's columns to `totals`.
template <class Element>
void finish_panel(const Dot& dot, const PackParams& params, const TargetGroup& group, int64_t panel,
                  const int32_t* points, char* to, int32_t* totals) {
    using Change = StepChange<Element>;
    constexpr int64_t kStep = Change::kStep, kVectors = kStepBytes / 32;
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t half = 0; half < kDotColumns / kHalfColumns; ++half) {
        __m256i sums[kVectors] = {};
        for (int64_t s = 0; s < segment_count(params); ++s) {
            Change change(params, group, s, panel * kDotColumns + half * kHalfColumns, points);
            char* segment = to + s * segment_bytes(dot, params) + half * unit_bytes(dot) / 2;
            for (int64_t k = 0; k < params.k; k += kStep) {
                if (k + kStep > params.k) change.cut(params.k - k);
                char* at = segment + kStepBytes / kStep * (k + (k & -dot.unit));
                for (int64_t v = 0; v < kVectors; ++v, at += 32) {
                    const __m256i all = change.of(v, load_bytes<__m256i>(at));
                    store_bytes(at, all);
                    const __m256i pairs = sizeof(Element) == 2 ? all : _mm256_maddubs_epi16(_mm256_set1_epi8(1), all);
                    sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        store_bytes(totals + half * kHalfColumns, sums);
    }
}

}  // namespace

void run_dot_pack(const Dot& dot, const DotPackParams& of, const char* weights, const int32_t* points, char* packed,
                  int32_t* totals) {
    const PackParams& params = of.weights;
    if (params.item == 2) return Packer<Raw2, 2>{dot, of}.run(weights, packed);
    if (dot.item == 2) {
        Packer<Raw1, 2>{dot, of}.run(weights, packed);
    } else {
        Packer<Raw1, 4>{dot, of}.run(weights, packed);
    }
    const int64_t depth = segment_count(params) * round_up(params.k, dot.unit);
    const auto finish = dot.item == 2 ? finish_panel<Words::u16> : finish_panel<Words::u8>;
    for (int64_t g = 0; g < params.channel_groups; ++g) {
        for (const TargetGroup* group = params.groups; group != params.groups + params.group_count; ++group) {
            const int64_t first = g * params.packed + group->packed;
            run_evenly(params.threads, panel_count(params, *group), [&](int64_t panel, int) {
                finish(dot, params, *group, panel, points == nullptr ? nullptr : points + g * params.n,
                       packed + (first + panel * depth * kDotColumns) * dot.item,
                       totals + first / depth + panel * kDotColumns);
            });
        }
    }
}

}  // namespace dgo::DGO_ISA
