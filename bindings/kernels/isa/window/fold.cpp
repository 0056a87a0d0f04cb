// Taps folded in registers.
#pragma once

#include "kernels/isa/window/code.hpp"
#include "kernels/isa/window/lane.hpp"

namespace dgo::DGO_ISA {

constexpr int64_t kManyTaps = 16;
// Taps whose sum is rounded on its own, so that the error does not grow with the square of an image.
constexpr int64_t kChunk = 256;

template <Fold F, class In, class Out>
struct FoldPixel {
    const FoldRun& run;
    int64_t q;
    bool exact;  // the divisor is a power of two
    float factor;

    template <int L, int V>
    DGO_INLINE void run_rows(Floats<L> (&sum)[V], int64_t c) const {
        for (int64_t r = 0; r < run.row_count; ++r) {
            const auto* at = reinterpret_cast<const typename In::T*>(run.rows[r]) + q * run.advance + c;
            if (run.taps >= kManyTaps) {
                many<L, V>(sum, at);
                continue;
            }
            for (int64_t t = 0; t < run.taps; ++t, at += run.tap_step) {
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) sum[v] = folded<F, L>(sum[v], load_lanes<In, L>(at + v * L));
            }
        }
    }

    // Several taps side by side: a sum waits for the one before it.
    template <int L, int V>
    DGO_INLINE void many(Floats<L> (&sum)[V], const typename In::T* at) const {
        constexpr int P = 8 / V;
        const int64_t step = run.tap_step;
        for (int64_t left = run.taps; left > 0; left -= kChunk) {
            const int64_t taps = smaller(left, kChunk);
            Floats<L> part[P][V];
#pragma GCC unroll 8
            for (int i = 0; i < P * V; ++i) part[i / V][i % V] = Floats<L>{} + kFirst<F>;
            int64_t t = 0;
            for (; t + P <= taps; t += P, at += P * step) {
#pragma GCC unroll 8
                for (int i = 0; i < P; ++i) {
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) {
                        part[i][v] = folded<F, L>(part[i][v], load_lanes<In, L>(at + i * step + v * L));
                    }
                }
            }
            for (; t < taps; ++t, at += step) {
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) part[0][v] = folded<F, L>(part[0][v], load_lanes<In, L>(at + v * L));
            }
#pragma GCC unroll 8
            for (int i = 0; i < P * V; ++i) sum[i % V] = folded<F, L>(sum[i % V], part[i / V][i % V]);
        }
    }

    template <int L, int V>
    DGO_INLINE void at(int64_t c) const {
        Floats<L> sum[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[v] = Floats<L>{} + kFirst<F>;
        run_rows<L, V>(sum, c);
        auto* dst = reinterpret_cast<typename Out::T*>(run.dst) + q * run.dst_step + c;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            if (F == Fold::sum) sum[v] = exact ? sum[v] * factor : sum[v] / run.divisor;
            store_lanes<Out, L>(dst + v * L, sum[v]);
        }
    }
};

template <Fold F, class In, class Out>
struct FoldPixels {
    const FoldRun& run;

    template <int L>
    DGO_INLINE void with() const {
        const uint32_t mantissa = bits<uint32_t>(run.divisor) << 9;
        for (int64_t q = 0; q < run.outputs; ++q) {
            pieces<L>(run.channels, FoldPixel<F, In, Out>{run, q, mantissa == 0, 1.0f / run.divisor});
        }
    }
};

template <Fold F, class In, class Out>
void fold_cells(const FoldRun& run) {
    by_width(run.channels, FoldPixels<F, In, Out>{run});
}

// Neighbouring numbers.
template <Fold F, class In>
float fold_neighbours(const char* src, int64_t count) {
    constexpr int L = kLanes, P = 8;
    const auto* at = reinterpret_cast<const typename In::T*>(src);
    float result = kFirst<F>;
    for (int64_t left = count; left > 0; left -= kChunk * L) {
        const int64_t n = smaller(left, kChunk * L);
        Floats<L> part[P];
#pragma GCC unroll 8
        for (int i = 0; i < P; ++i) part[i] = Floats<L>{} + kFirst<F>;
        int64_t t = 0;
        for (; t + P * L <= n; t += P * L) {
#pragma GCC unroll 8
            for (int i = 0; i < P; ++i) part[i] = folded<F, L>(part[i], load_lanes<In, L>(at + t + i * L));
        }
        for (; t + L <= n; t += L) part[0] = folded<F, L>(part[0], load_lanes<In, L>(at + t));
#pragma GCC unroll 8
        for (int i = 1; i < P; ++i) part[0] = folded<F, L>(part[0], part[i]);
        Floats<1> all{kFirst<F>};
        if (n >= L) {
#pragma GCC unroll 16
            for (int i = 0; i < L; ++i) all = folded<F, 1>(all, Floats<1>{part[0][i]});
        }
        for (; t < n; ++t) all = folded<F, 1>(all, load_lanes<In, 1>(at + t));
        result = folded<F, 1>(Floats<1>{result}, all)[0];
        at += n;
    }
    return result;
}

template <Fold F>
void fold_by_cells(const FoldRun& run) {
    if (run.from == Cell::f32) {
        if (run.to == Cell::f32) return fold_cells<F, F32, F32>(run);
        return run.to == Cell::bf16 ? fold_cells<F, F32, Bf16>(run) : fold_cells<F, F32, F16>(run);
    }
    if (run.from == Cell::bf16) {
        return run.to == Cell::f32 ? fold_cells<F, Bf16, F32>(run) : fold_cells<F, Bf16, Bf16>(run);
    }
    return run.to == Cell::f32 ? fold_cells<F, F16, F32>(run) : fold_cells<F, F16, F16>(run);
}

template <Fold F>
float fold_row_by_cell(Cell from, const char* src, int64_t count) {
    if (from == Cell::f32) return fold_neighbours<F, F32>(src, count);
    return from == Cell::bf16 ? fold_neighbours<F, Bf16>(src, count) : fold_neighbours<F, F16>(src, count);
}

}  // namespace dgo::DGO_ISA
