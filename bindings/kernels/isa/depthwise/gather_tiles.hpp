// Tiles of results of a depthwise layer, several neighbours times a vector of channels in registers: a source is loaded
// once for all taps of a kernel row that meet it. Groups of other widths than 4, 8 or whole vectors use the same tiles.
#pragma once

#include "kernels/depthwise/vtable.hpp"
#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/epilogue/fused_activation.hpp"
#include "kernels/isa/product/gemm_tile.hpp"

namespace dgo::DGO_ISA {

constexpr int kMostTaps = 7, kMostGroupTaps = 3;

namespace {

// The channels of src that a lane of results multiplies: its own, or those of its group within the vector. Groups of
// whole vectors, or of 4 or 8 channels, have code of their own.
enum class Lay { own, within };

// Outputs of a tile: they fit into the registers with the weights of a segment. The rest of a row uses tiles of half as
// many.
template <int L>
constexpr int kOutputs = L;

// Keeps a value that several products share in a register.
template <int L, int K>
DGO_INLINE void hold(Floats<L>& x) {
    constexpr int kRegisters = 16;
    if constexpr (kWide) {
        asm("" : "+v"(x));
    } else if constexpr (L == 8 && kOutputs<L> + K < kRegisters - 1) {
        asm("" : "+x"(x));
    }
}

template <int L>
DGO_INLINE Floats<L> permute(Floats<L> v, typename Vec<L>::s32 lanes) {
    if constexpr (L == 8) {
        return bits<Floats<8>>(_mm256_permutevar8x32_ps(bits<__m256>(v), bits<__m256i>(lanes)));
    } else {
        return bits<Floats<L>>(_mm512_permutexvar_ps(bits<__m512i>(lanes), bits<__m512>(v)));
    }
}

// The type of the results of sources of type C.
template <class C>
struct Result {
    using Type = C;
};
template <>
struct Result<U8> {
    using Type = F32;
};

// Makes floats of bytes, (byte ^ flip) - zero: a byte is the last one of the float 2^23 + byte.
template <int L>
struct FromBytes {
    static constexpr float kBase = 0x1p23f;
    typename Vec<L>::u32 flip{};
    Floats<L> zero{};

    FromBytes() = default;
    explicit FromBytes(const GatherRun& run)
        : flip((run.flip | bits<uint32_t>(kBase)) - typename Vec<L>::u32{}),
          zero(kBase + static_cast<float>(run.zero) - Floats<L>{}) {}

    DGO_INLINE Floats<L> operator()(const Words::u8* at) const {
        return bits<Floats<L>>(load_words<1, L>(at) ^ flip) - zero;
    }
};

template <int N>
struct Number {
    static constexpr int value = N;
};

// A tile of outputs [q, q + outputs).
struct GatherTile {
    int64_t q, outputs;
    int64_t block;  // results of a vector: whole groups
    float* partial;  // sums between two parts: [block of channels][outputs][L]
    bool first, last;  // part
};

template <class C, int L>
DGO_INLINE void store_lanes(typename C::T* at, Floats<L> v, int64_t count) {
    if (count == L) return store_float<C, L>(at, v);
    typename C::T lane[L];
    store_float<C, L>(lane, v);
    for (int64_t i = 0; i < count; ++i) at[i] = lane[i];
}

// Adds the products of K taps with their weights in registers; bit i of `present`: unit i exists.
template <class C, int L, int Q, int K, int A, bool Edge, Lay lay>
DGO_INLINE void add_units(Floats<L> (&sum)[Q], const typename C::T* src, int64_t unit, const float* weights,
                          int64_t tap_step, uint64_t present, typename Vec<L>::s32 lanes,
                          const FromBytes<L>& from_bytes) {
    constexpr int kUnits = (Q - 1) * A + K;
    Floats<L> w[K];
#pragma GCC unroll 8
    for (int t = 0; t < K; ++t) w[t] = load_bytes<Floats<L>>(weights + t * tap_step);
    const typename C::T* at = src;
#pragma GCC unroll 36
    for (int i = 0; i < kUnits; ++i, at += unit) {
        asm volatile("" : "+r"(at));  // or else an address for each unit is kept in a register
        if (Edge && (present >> i & 1) == 0) continue;
        Floats<L> x;
        if constexpr (kSame<C, U8>) {
            x = from_bytes(at);
        } else {
            x = load_float<C, L>(at);
        }
        if constexpr (lay == Lay::within) x = permute<L>(x, lanes);
        if constexpr (lay == Lay::own && K > 1) hold<L, K>(x);
#pragma GCC unroll 8
        for (int t = 0; t < K; ++t) {
            if (i >= t && (i - t) % A == 0 && (i - t) / A < Q) sum[(i - t) / A] += x * w[t];
        }
    }
}

// Adds the products of all taps of a segment: K taps, or `taps` where K is 0.
template <class C, int L, int Q, int K, int A, bool Edge, Lay lay>
DGO_INLINE void add_taps(Floats<L> (&sum)[Q], const typename C::T* src, int64_t unit, const float* weights,
                         int64_t tap_step, int64_t taps, uint64_t present, typename Vec<L>::s32 lanes,
                         const FromBytes<L>& from_bytes) {
    const auto add = [&](auto number) __attribute__((always_inline)) {
        add_units<C, L, Q, number.value, A, Edge, lay>(sum, src, unit, weights, tap_step, present, lanes, from_bytes);
    };
    if constexpr (K > 0) return add(Number<K>());
    if (taps == 1) return add(Number<1>());
    if (taps == 2) return add(Number<2>());
    if (taps == 3) return add(Number<3>());
    if constexpr (lay == Lay::own) {
        if (taps == 4) return add(Number<4>());
        if (taps == 5) return add(Number<5>());
        add(Number<7>());
    }
}

// Returns the bits [first, last) of a number that it has.
DGO_INLINE uint64_t bits_between(int64_t first, int64_t last) {
    first = larger(first, 0);
    last = smaller(last, 63);
    return last <= first ? 0 : (uint64_t{1} << last) - (uint64_t{1} << first);
}

template <class C, int L, int Q, int K, int A, bool Edge, Lay lay>
void gather_tiles(const GatherRun& run, const GatherPart& part, const GatherTile& tile) {
    using T = typename C::T;
    using Lane = typename Vec<L>::s32;
    // a copy, which no store changes
    const int64_t unit = run.unit, tap_step = run.tap_step, input_step = run.input_step, width = run.width;
    const int64_t dst_step = run.dst_step, count = part.count, first_unit = tile.q * A;
    const int64_t taps = part.taps, units = (tile.outputs - 1) * A + taps;
    const GatherSegment* segments = part.segments;
    const FusedActivation activation = run.activation;
    float* partial = tile.partial;
    const FromBytes<L> from_bytes(run);
    Lane group{};
    if constexpr (lay == Lay::within) {
        for (int l = 0; l < L; ++l) group[l] = static_cast<int32_t>(l / width * width);
    }
    int64_t next = 0;
    for (int64_t done = 0; done < run.channels; done = next, partial += Q * L) {
        // the second vector is the first aligned one
        const int64_t begin = lay == Lay::own && done == L && run.head > 0 ? run.head : done;
        const int64_t c = smaller(begin, run.channels - tile.block);
        next = c + tile.block;
        const int64_t from = lay == Lay::own ? c : smaller(c, run.readable - L);
        Floats<L> sum[Q];
        if (tile.first) {
            const Floats<L> start = run.bias ? load_bytes<Floats<L>>(run.bias + c) : Floats<L>{};
#pragma GCC unroll 16
            for (int j = 0; j < Q; ++j) sum[j] = start;
        } else {
#pragma GCC unroll 16
            for (int j = 0; j < Q; ++j) sum[j] = load_bytes<Floats<L>>(partial + j * L);
        }
        for (int64_t s = 0; s < count; ++s) {
            const GatherSegment& segment = segments[s];
            const T* src = reinterpret_cast<const T*>(segment.src) + first_unit * unit + from;
            const float* weights = segment.weights + c;
            uint64_t present = 0;
            if constexpr (Edge) {
                present = bits_between(segment.begin - first_unit, smaller(segment.end - first_unit, units));
            }
            if constexpr (lay == Lay::within) {
                Lane lanes = group + static_cast<int32_t>(c - from);
                for (int64_t m = 0; m < width; ++m) {
                    add_taps<C, L, Q, K, A, Edge, lay>(sum, src, unit, weights, tap_step, taps, present, lanes,
                                                       from_bytes);
                    weights += input_step;
                    lanes += 1;
                }
            } else {
                add_taps<C, L, Q, K, A, Edge, lay>(sum, src, unit, weights, tap_step, taps, present, group, from_bytes);
            }
        }
        if (!tile.last) {
#pragma GCC unroll 16
            for (int j = 0; j < Q; ++j) store_bytes(partial + j * L, sum[j]);
            continue;
        }
        activate_all<L>(activation, sum);
        using Made = typename Result<C>::Type;
        auto* dst = reinterpret_cast<typename Made::T*>(run.dst) + tile.q * dst_step + c;
        // the next vector overwrites the lanes after the groups
        const int64_t stored = done + L <= run.channels ? L : tile.block;
#pragma GCC unroll 16
        for (int j = 0; j < Q; ++j) {
            if (Edge && j >= tile.outputs) break;
            if constexpr (lay == Lay::within) {
                store_lanes<Made, L>(dst + j * dst_step, sum[j], stored);
            } else {
                store_float<Made, L>(dst + j * dst_step, sum[j]);
            }
        }
    }
}

using GatherTiles = void (*)(const GatherRun&, const GatherPart&, const GatherTile&);

// A function for each number of taps, for outputs two units apart, and one unit where it matters: a common function spills.
template <class C, int L, int Q, int A, bool Edge, Lay lay>
GatherTiles tiles_of(int64_t taps) {
    if constexpr (lay == Lay::own) {
        if (taps == 4) return gather_tiles<C, L, Q, 4, A, Edge, lay>;
        if (taps == 5) return gather_tiles<C, L, Q, 5, A, Edge, lay>;
        if (taps == 7) return gather_tiles<C, L, Q, 7, A, Edge, lay>;
    }
    if constexpr (A == 1) {
        if (taps == 1) return gather_tiles<C, L, Q, 1, A, Edge, lay>;
    }
    return taps == 2 ? gather_tiles<C, L, Q, 2, A, Edge, lay> : gather_tiles<C, L, Q, 3, A, Edge, lay>;
}

template <class C, int L, int Q, bool Edge, Lay lay>
GatherTiles tiles_of(int64_t taps, bool two) {
    if constexpr (L < kLanes) return gather_tiles<C, L, Q, 1, 1, Edge, lay>;
    if (two) return tiles_of<C, L, Q, 2, Edge, lay>(taps);
    constexpr bool kSplit = L == 8 ? !kSame<C, F16> : !Edge && kSame<C, F32>;
    if constexpr (lay == Lay::own && kSplit) return tiles_of<C, L, Q, 1, Edge, lay>(taps);
    return gather_tiles<C, L, Q, 0, 1, Edge, lay>;
}

// Whether all units of outputs [q, q + outputs) exist.
DGO_INLINE bool all_exist(const GatherRun& run, const GatherPart& part, int64_t q, int64_t outputs) {
    const int64_t begin = q * run.advance, end = begin + (outputs - 1) * run.advance + part.taps;
    for (int64_t s = 0; s < part.count; ++s) {
        if (part.segments[s].begin > begin || part.segments[s].end < end) return false;
    }
    return true;
}

template <class C, int L, Lay lay>
void gather_with(const GatherRun& run) {
    constexpr int Q = kOutputs<L>, kFewer = L == kLanes ? Q / 2 : Q;
    float partial[(2 * kMostGathered + L) * Q];  // a block fills more than half of its vector
    const int64_t block = lay == Lay::within ? L / run.width * run.width : L;
    const bool single = run.parts[1].count == 0;
    const bool shifts = run.outputs > kFewer && all_exist(run, run.parts[0], 0, run.outputs) &&
                        all_exist(run, run.parts[1], 0, run.outputs);
    int64_t outputs = 0;
    for (int64_t q = 0; q < run.outputs; q += outputs) {
        const int64_t rest = run.outputs - q;
        const bool fewer = rest <= kFewer || (shifts && rest < Q);
        // a tile begins within the one before rather than to exceed the run
        if (shifts && rest < kFewer) q = run.outputs - kFewer;
        outputs = smaller(run.outputs - q, fewer ? kFewer : Q);
        for (int index = 0; index < (single ? 1 : 2); ++index) {
            const GatherPart& part = run.parts[index];
            const int64_t most = fewer ? kFewer : Q;
            const bool edge = outputs < most || !all_exist(run, part, q, most);
            const bool two = run.advance == 2;
            const GatherTiles tiles = fewer  ? edge ? tiles_of<C, L, kFewer, true, lay>(part.taps, two)
                                                    : tiles_of<C, L, kFewer, false, lay>(part.taps, two)
                                      : edge ? tiles_of<C, L, Q, true, lay>(part.taps, two)
                                             : tiles_of<C, L, Q, false, lay>(part.taps, two);
            tiles(run, part, {q, outputs, block, partial, index == 0, single || index == 1});
        }
    }
}

template <class C, int L, int Q>
DGO_INLINE void finish(const GatherRun& run, const FusedActivation& activation, int64_t q, int64_t c,
                       Floats<L> (&sum)[Q], int64_t outputs = Q) {
    activate_all<L>(activation, sum);
    auto* dst = reinterpret_cast<typename C::T*>(run.dst) + q * run.dst_step + c;
#pragma GCC unroll 16
    for (int j = 0; j < Q; ++j) {
        if (j >= outputs) break;
        store_float<C, L>(dst + j * run.dst_step, sum[j]);
    }
}

template <int L>
DGO_INLINE Floats<L> bias_of(const GatherRun& run, int64_t c) {
    return run.bias ? load_bytes<Floats<L>>(run.bias + c) : Floats<L>{};
}

// ---- few outputs ----------------------------------------------------------------------------------------------------

constexpr int kFew = 4;

// Whether a run is kFew outputs in one part, all of whose units exist, one apart.
DGO_INLINE bool is_few(const GatherRun& run) {
    const GatherPart& part = run.parts[0];
    return run.outputs == kFew && run.advance == 1 && run.parts[1].count == 0 && all_exist(run, part, 0, kFew);
}

// Every other segment has sums of its own, so that the multipliers are busy.
template <class C, int L>
void gather_few(const GatherRun& run) {
    using T = typename C::T;
    const GatherPart& part = run.parts[0];
    const FusedActivation activation = run.activation;
    int64_t next = 0;
    for (int64_t done = 0; done < run.channels; done = next) {
        // the second vector is the first aligned one
        const int64_t c = smaller(done == L && run.head > 0 ? run.head : done, run.channels - L);
        next = c + L;
        Floats<L> sum[2][kFew] = {};
        const typename Vec<L>::s32 none{};
        const FromBytes<L> bytes;
        const auto add = [&](int64_t s, Floats<L>(&to)[kFew]) __attribute__((always_inline)) {
            const GatherSegment& segment = part.segments[s];
            add_taps<C, L, kFew, 0, 1, false, Lay::own>(to, reinterpret_cast<const T*>(segment.src) + c, run.unit,
                                                        segment.weights + c, run.tap_step, part.taps, 0, none, bytes);
        };
        int64_t s = 0;
        for (; s + 2 <= part.count; s += 2) {
            add(s, sum[0]);
            add(s + 1, sum[1]);
        }
        if (s < part.count) add(s, sum[0]);
        const Floats<L> start = bias_of<L>(run, c);
#pragma GCC unroll 4
        for (int j = 0; j < kFew; ++j) sum[0][j] += sum[1][j] + start;
        finish<C, L, kFew>(run, activation, 0, c, sum[0]);
    }
}

}  // namespace

}  // namespace dgo::DGO_ISA
