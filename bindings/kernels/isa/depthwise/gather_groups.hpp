// Results of layers of groups: of whole vectors of channels, or of several groups in a vector.
#pragma once

#include "kernels/isa/depthwise/gather_tiles.hpp"

namespace dgo::DGO_ISA {

namespace {

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
DGO_INLINE void gather_groups_of_vector(const GatherRun& run) {
    if (run.turned && run.width == 4) return gather_turned<C, L, 4>(run);
    if constexpr (kLanes == 16) {
        if (run.turned) return gather_turned<C, L, 8>(run);
    }
    gather_with<C, L, Lay::within>(run);
}

// wide: whole vectors may be loaded.
template <class C>
DGO_INLINE void gather_groups(const GatherRun& run, bool wide) {
    if (run.width % kLanes == 0) return run.advance == 2 ? gather_around<C, 2>(run) : gather_around<C, 1>(run);
    return wide ? gather_groups_of_vector<C, kLanes>(run) : gather_groups_of_vector<C, 8>(run);
}

}  // namespace

}  // namespace dgo::DGO_ISA
