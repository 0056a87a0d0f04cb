// Results of a depthwise layer or of small groups, several neighbours times a vector of channels in registers: a source
// is loaded once for all taps of a kernel row that meet it.
#pragma once

#include "kernels/depthwise/vtable.hpp"
#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/epilogue/fused_activation.hpp"
#include "kernels/isa/product/gemm_tile.hpp"

namespace dgo::DGO_ISA {

constexpr int kMostTaps = 7, kMostGroupTaps = 3;

// One for each data type, compiled apart.
void gather_f32(const GatherRun& run);
void gather_bf16(const GatherRun& run);
void gather_f16(const GatherRun& run);
void gather_u8(const GatherRun& run);

namespace {

// The channels of src that a lane of results multiplies: its own, or those of its group within the vector. Groups of
// whole vectors, or of 4 or 8 channels, have code of their own, below.
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

// Makes floats of bytes.
template <int L>
struct FromBytes {
    typename Vec<L>::u32 flip;
    typename Vec<L>::s32 zero;

    DGO_INLINE Floats<L> operator()(const Words::u8* at) const {
        const auto whole = bits<typename Vec<L>::s32>(load_words<1, L>(at) ^ flip) - zero;
        if constexpr (L == 8) return bits<Floats<8>>(_mm256_cvtepi32_ps(bits<__m256i>(whole)));
        if constexpr (L == 16) return __builtin_convertvector(whole, Floats<16>);
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
    const FromBytes<L> from_bytes{run.flip - typename Vec<L>::u32{}, run.zero - Lane{}};
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

template <class C, int L, Lay lay>
void gather_with(const GatherRun& run) {
    constexpr int Q = kOutputs<L>, kFewer = L == kLanes ? Q / 2 : Q;
    float partial[(2 * kMostGathered + L) * Q];  // a block fills more than half of its vector
    const int64_t block = lay == Lay::within ? L / run.width * run.width : L;
    const bool single = run.parts[1].count == 0;
    for (int64_t q = 0; q < run.outputs; q += Q) {
        const int64_t outputs = smaller(run.outputs - q, Q);
        const bool fewer = outputs <= kFewer;
        for (int index = 0; index < (single ? 1 : 2); ++index) {
            const GatherPart& part = run.parts[index];
            const int64_t most = fewer ? kFewer : Q;
            const int64_t begin = q * run.advance, end = begin + (most - 1) * run.advance + part.taps;
            bool edge = outputs < most;
            for (int64_t s = 0; s < part.count && !edge; ++s) {
                edge = part.segments[s].begin > begin || part.segments[s].end < end;
            }
            const bool two = run.advance == 2;
            const GatherTiles tiles = fewer  ? edge ? tiles_of<C, L, kFewer, true, lay>(part.taps, two)
                                                    : tiles_of<C, L, kFewer, false, lay>(part.taps, two)
                                      : edge ? tiles_of<C, L, Q, true, lay>(part.taps, two)
                                             : tiles_of<C, L, Q, false, lay>(part.taps, two);
            tiles(run, part, {q, outputs, block, partial, index == 0, single || index == 1});
        }
    }
}

// ---- groups ------------------------------------------------------------------------------------------------------

// Outputs [begin, end) of which all units exist.
struct Whole {
    int64_t begin, end;
};

DGO_INLINE Whole whole_outputs(const GatherRun& run) {
    int64_t begin = 0, end = run.outputs;
    for (const GatherPart& part : run.parts) {
        for (int64_t s = 0; s < part.count; ++s) {
            const GatherSegment& segment = part.segments[s];
            begin = larger(begin, ceil_div(larger(segment.begin, 0), run.advance));
            end = smaller(end, segment.end < part.taps ? 0 : (segment.end - part.taps) / run.advance + 1);
        }
    }
    begin = smaller(begin, run.outputs);
    return {begin, larger(begin, end)};
}

// Calls add(units, weights) for each tap of output q that exists: the address of its first unit, and its weights.
template <class C, class Add>
DGO_INLINE void each_tap(const GatherRun& run, int64_t q, int64_t from, int64_t c, const Add& add) {
    using T = typename C::T;
    for (const GatherPart& part : run.parts) {
        for (int64_t s = 0; s < part.count; ++s) {
            const GatherSegment& segment = part.segments[s];
            const float* weights = segment.weights + c;
            int64_t i = q * run.advance;
            const T* src = reinterpret_cast<const T*>(segment.src) + i * run.unit + from;
            for (int64_t t = 0; t < part.taps; ++t, ++i, src += run.unit, weights += run.tap_step) {
                if (i >= segment.begin && i < segment.end) add(src, weights);
            }
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

// ---- groups of several vectors -----------------------------------------------------------------------------------

// Returns element `at` of a group in all lanes; Odd: its number is.
template <class C, int L, bool Odd>
DGO_INLINE Floats<L> spread(const typename C::T* at) {
    if constexpr (kSame<C, Bf16>) {
        // two elements are loaded: to spread one of 16 bits takes an instruction of the unit that multiplies
        const auto both = *reinterpret_cast<const Words::u32*>(at - (Odd ? 1 : 0)) - typename Vec<L>::u32{};
        return bits<Floats<L>>(Odd ? both & 0xffff0000u : both << 16);
    }
    // the sum with zero would be computed, as it makes 0 of -0
    return C::get(at) - Floats<L>{};
}

// Adds the products of channel m of a group: K taps with their weights in registers; bit i of `present`: unit i exists.
template <class C, int Q, int K, int A, bool Edge, bool Odd>
DGO_INLINE void add_channel(Lanes (&sum)[Q], const typename C::T* at, int64_t unit, const float* weights,
                            int64_t tap_step, uint64_t present) {
    Lanes w[K];
#pragma GCC unroll 4
    for (int t = 0; t < K; ++t) w[t] = load_bytes<Lanes>(weights + t * tap_step);
#pragma GCC unroll 36
    for (int i = 0; i < (Q - 1) * A + K; ++i) {
        if (!Edge || (present >> i & 1) != 0) {
            const auto x = spread<C, kLanes, Odd>(at + i % 4 * unit);
#pragma GCC unroll 4
            for (int t = 0; t < K; ++t) {
                if (i >= t && (i - t) % A == 0 && (i - t) / A < Q) multiply_add(sum[(i - t) / A], x, w[t]);
            }
        }
        if (i % 4 != 3) continue;
        at += 4 * unit;
        asm volatile("" : "+r"(at));  // or else an address for each unit is kept in a register
    }
}

// Computes outputs [q, q + Q), or those of them that a run has. Edge: units may not exist.
template <class C, int Q, int A, bool Edge>
void around_tile(const GatherRun& run, int64_t q) {
    using T = typename C::T;
    const int64_t unit = run.unit, tap_step = run.tap_step, input_step = run.input_step, width = run.width;
    const int64_t outputs = Edge ? smaller(run.outputs - q, Q) : Q, first_unit = q * A;
    const FusedActivation activation = run.activation;
    for (int64_t c = 0; c < run.channels; c += kLanes) {
        const int64_t from = (run.first + c) / width * width - run.first + first_unit * unit;
        Lanes sum[Q];
        const Lanes start = bias_of<kLanes>(run, c);
#pragma GCC unroll 16
        for (int j = 0; j < Q; ++j) sum[j] = start;
        for (const GatherPart& part : run.parts) {
            const int64_t units = (outputs - 1) * A + part.taps;
            const auto add = [&](auto taps) __attribute__((always_inline)) {
                for (int64_t s = 0; s < part.count; ++s) {
                    const GatherSegment& segment = part.segments[s];
                    const T* src = reinterpret_cast<const T*>(segment.src) + from;
                    const float* weights = segment.weights + c;
                    uint64_t present = 0;
                    if constexpr (Edge) {
                        present = bits_between(segment.begin - first_unit, smaller(segment.end - first_unit, units));
                    }
                    for (int64_t m = 0; m < width; m += 2, weights += 2 * input_step) {
                        add_channel<C, Q, taps.value, A, Edge, false>(sum, src + m, unit, weights, tap_step, present);
                        add_channel<C, Q, taps.value, A, Edge, true>(sum, src + m + 1, unit, weights + input_step,
                                                                     tap_step, present);
                    }
                }
            };
            if (part.taps == 1) add(Number<1>());
            if (part.taps == 2) add(Number<2>());
            if (part.taps == 3) add(Number<3>());
        }
        finish<C, kLanes, Q>(run, activation, q, c, sum, outputs);
    }
}

// Computes an output whose units may not exist.
template <class C>
void around_single(const GatherRun& run, int64_t q) {
    using T = typename C::T;
    const int64_t width = run.width, input_step = run.input_step;
    for (int64_t c = 0; c < run.channels; c += kLanes) {
        constexpr int kSums = 8;  // under way, for the multipliers to be busy
        Lanes sum[kSums] = {};
        each_tap<C>(
            run, q, (run.first + c) / width * width - run.first, c,
            [&](const T* src, const float* weights) __attribute__((always_inline)) {
                for (int64_t m = 0; m < width; m += kSums, src += kSums) {
#pragma GCC unroll 8
                    for (int i = 0; i < kSums; ++i, weights += input_step) {
                        const auto w = load_bytes<Lanes>(weights);
                        sum[i] +=
                            (i % 2 == 0 ? spread<C, kLanes, false>(src + i) : spread<C, kLanes, true>(src + i)) * w;
                    }
                }
            });
#pragma GCC unroll 8
        for (int i = 1; i < kSums; ++i) sum[0] += sum[i];
        Lanes result[1] = {sum[0] + bias_of<kLanes>(run, c)};
        finish<C, kLanes, 1>(run, run.activation, q, c, result);
    }
}

// Outputs that are computed one by one: a tile of so few would wait for its own sums.
constexpr int64_t kSingle = 3;

template <class C, int A>
void gather_around(const GatherRun& run) {
    constexpr int Q = kOutputs<kLanes>, kFewer = Q / 2;
    const Whole whole = whole_outputs(run);
    for (int64_t q = 0; q < run.outputs;) {
        const int64_t rest = run.outputs - q;
        if (rest <= kSingle) {
            around_single<C>(run, q++);
            continue;
        }
        const int64_t most = rest > kFewer ? Q : kFewer;
        const bool edge = q < whole.begin || q + most > whole.end;
        const auto tile = most == Q ? edge ? around_tile<C, Q, A, true> : around_tile<C, Q, A, false>
                          : edge    ? around_tile<C, kFewer, A, true>
                                    : around_tile<C, kFewer, A, false>;
        tile(run, q);
        q += most;
    }
}

// ---- groups of W channels, 4 or 8, several in a vector -------------------------------------------------------------

// Sums of a tile; two or three more registers hold a vector of weights and sources.
constexpr int kTurnedSums = kLanes == 16 ? 24 : 12;

// Returns the vector whose lane l is the sum over r of lane l ^ r of sum[r].
template <int L, int W, int Bit = 1>
DGO_INLINE Floats<L> joined(Floats<L> (&sum)[W]) {
    if constexpr (Bit < W) {
        typename Vec<L>::s32 lanes;
        for (int l = 0; l < L; ++l) lanes[l] = l ^ Bit;
#pragma GCC unroll 8
        for (int r = 0; r < W; r += 2 * Bit) sum[r] += permute<L>(sum[r + Bit], lanes);
        return joined<L, W, 2 * Bit>(sum);
    }
    return sum[0];
}

// Adds the products of a tap of Q outputs. Lane s of sum r belongs to the result in lane s ^ r, so that sources are
// multiplied as they lie.
template <class C, int L, int W, int Q>
DGO_INLINE void add_turned(Floats<L> (&sum)[Q][W], const typename C::T* src, int64_t step, const float* weights,
                           int64_t input_step) {
    Floats<L> x[Q];
#pragma GCC unroll 16
    for (int j = 0; j < Q; ++j, src += step) x[j] = load_float<C, L>(src);
#pragma GCC unroll 8
    for (int r = 0; r < W; ++r, weights += input_step) {
        asm volatile("" : "+r"(weights));  // or else an address for each is kept in a register
        auto w = load_bytes<Floats<L>>(weights);
        hold<L, 1>(w);
#pragma GCC unroll 16
        for (int j = 0; j < Q; ++j) sum[j][r] += x[j] * w;
    }
}

// Computes outputs [q, q + Q). Edge: units may not exist.
template <class C, int L, int W, int Q, bool Edge>
void turned_tile(const GatherRun& run, int64_t q) {
    using T = typename C::T;
    const int64_t unit = run.unit, tap_step = run.tap_step, input_step = run.input_step, step = run.advance * unit;
    const FusedActivation activation = run.activation;
    for (int64_t done = 0; done < run.channels; done += L) {
        const int64_t c = smaller(done, run.channels - L);
        Floats<L> sum[Q][W] = {};
        if constexpr (Edge) {
            each_tap<C>(run, q, c, c, [&](const T* src, const float* weights) __attribute__((always_inline)) {
                add_turned<C, L, W, Q>(sum, src, step, weights, input_step);
            });
        } else {
            for (const GatherPart& part : run.parts) {
                for (int64_t s = 0; s < part.count; ++s) {
                    const T* src = reinterpret_cast<const T*>(part.segments[s].src) + q * step + c;
                    const float* weights = part.segments[s].weights + c;
                    for (int64_t t = 0; t < part.taps; ++t, src += unit, weights += tap_step) {
                        add_turned<C, L, W, Q>(sum, src, step, weights, input_step);
                    }
                }
            }
        }
        const Floats<L> start = bias_of<L>(run, c);
        Floats<L> result[Q];
#pragma GCC unroll 16
        for (int j = 0; j < Q; ++j) result[j] = joined<L, W>(sum[j]) + start;
        finish<C, L, Q>(run, activation, q, c, result);
    }
}

// Computes outputs [q, end), all of whose units exist.
template <class C, int L, int W, int Q = kTurnedSums / W>
DGO_INLINE void turned_tiles(const GatherRun& run, int64_t q, int64_t end) {
    for (; q + Q <= end; q += Q) turned_tile<C, L, W, Q, false>(run, q);
    if constexpr (Q > 1) turned_tiles<C, L, W, Q / 2>(run, q, end);
}

template <class C, int L, int W>
void gather_turned(const GatherRun& run) {
    const Whole whole = whole_outputs(run);
    for (int64_t q = 0; q < whole.begin; ++q) turned_tile<C, L, W, 1, true>(run, q);
    turned_tiles<C, L, W>(run, whole.begin, whole.end);
    for (int64_t q = whole.end; q < run.outputs; ++q) turned_tile<C, L, W, 1, true>(run, q);
}

template <class C, int L>
DGO_INLINE void gather_groups(const GatherRun& run) {
    if (run.turned && run.width == 4) return gather_turned<C, L, 4>(run);
    if constexpr (kLanes == 16) {
        if (run.turned) return gather_turned<C, L, 8>(run);
    }
    gather_with<C, L, Lay::within>(run);
}

// ---- depthwise: few outputs -----------------------------------------------------------------------------------------

constexpr int kFew = 4;

// Whether a run is kFew outputs in one part, all of whose units exist, one apart.
DGO_INLINE bool is_few(const GatherRun& run) {
    const GatherPart& part = run.parts[0];
    if (run.outputs != kFew || run.advance != 1 || run.parts[1].count > 0) return false;
    for (int64_t s = 0; s < part.count; ++s) {
        if (part.segments[s].begin > 0 || part.segments[s].end < kFew - 1 + part.taps) return false;
    }
    return true;
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
        const FromBytes<L> bytes{};
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

template <class C>
DGO_INLINE void gather(const GatherRun& run) {
    // a task on a few groups may still load whole vectors, from the channels next to its own
    const int64_t loaded = run.width > 1 ? run.first + run.readable : run.channels;
    const bool wide = kLanes == 8 || loaded >= kLanes;
    if constexpr (!kSame<C, U8>) {  // of bytes, there are no groups
        if (run.width % kLanes == 0) {
            return run.advance == 2 ? gather_around<C, 2>(run) : gather_around<C, 1>(run);
        }
        if (run.width > 1) return wide ? gather_groups<C, kLanes>(run) : gather_groups<C, 8>(run);
    }
    if constexpr (kSame<C, F32>) {
        if (wide && is_few(run)) return gather_few<C, kLanes>(run);
    }
    return wide ? gather_with<C, kLanes, Lay::own>(run) : gather_with<C, 8, Lay::own>(run);
}

}  // namespace

}  // namespace dgo::DGO_ISA
