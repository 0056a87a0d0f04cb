// Taps folded in registers.
#include "kernels/isa/table.hpp"
#include "kernels/isa/window/code.hpp"
#include "kernels/isa/window/lane.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kManyTaps = 16;
// Taps whose sum is rounded on its own, so that the error does not grow with the square of an image.
constexpr int64_t kChunk = 256;

template <Fold F, class In>
struct FoldPixel {
    const FoldRun& run;
    int64_t q;
    bool exact;  // the divisor is a power of two
    float factor;

    template <int L, int V, int K>
    DGO_INLINE void few(Floats<L> (&sum)[V], const typename In::T* at) const {
        const int64_t step = run.tap_step;
        for (int64_t left = run.taps; left > 0; --left, at += step) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sum[v] = folded<F, L>(sum[v], load_lanes<In, L, K>(at + v * L));
        }
    }

    // Several taps side by side: a sum waits for the one before it.
    template <int L, int V, int K>
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
                        part[i][v] = folded<F, L>(part[i][v], load_lanes<In, L, K>(at + i * step + v * L));
                    }
                }
            }
            for (; t < taps; ++t, at += step) {
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) part[0][v] = folded<F, L>(part[0][v], load_lanes<In, L, K>(at + v * L));
            }
#pragma GCC unroll 8
            for (int i = 0; i < P * V; ++i) sum[i % V] = folded<F, L>(sum[i % V], part[i / V][i % V]);
        }
    }

    template <class Out, int L, int V, int K>
    DGO_INLINE void put(const Floats<L> (&sum)[V], int64_t c) const {
        auto* dst = reinterpret_cast<typename Out::T*>(run.dst) + q * run.dst_step + c;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) store_lanes<Out, L, K>(dst + v * L, sum[v]);
    }

    template <int L, int V, int K>
    DGO_INLINE void at(int64_t c) const {
        Floats<L> sum[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[v] = Floats<L>{} + kFirst<F>;
        const int64_t offset = q * run.advance + c;
        const char* const* const rows = run.rows;
        const int64_t count = run.row_count;
        const auto start = [&](int64_t r) { return reinterpret_cast<const typename In::T*>(rows[r]) + offset; };
        if (run.taps < kManyTaps) {
            for (int64_t r = 0; r < count; ++r) few<L, V, K>(sum, start(r));
        } else {
            for (int64_t r = 0; r < count; ++r) many<L, V, K>(sum, start(r));
        }
        if constexpr (F == Fold::sum) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sum[v] = exact ? sum[v] * factor : sum[v] / run.divisor;
        }
        // chosen at run time: the taps' code is the same for all types of results
        if (run.to == Cell::f32) return put<F32, L, V, K>(sum, c);
        if constexpr (!kSame<In, F16>) {
            if (kSame<In, Bf16> || run.to == Cell::bf16) return put<Bf16, L, V, K>(sum, c);
        }
        if constexpr (!kSame<In, Bf16>) put<F16, L, V, K>(sum, c);
    }
};

template <Fold F, class In>
struct FoldPixels {
    const FoldRun& run;

    // a function for each width: in a single one, what rows need is moved to and from the stack
    template <int L, int K>
    __attribute__((noinline)) void with() const {
        const uint32_t mantissa = bits<uint32_t>(run.divisor) << 9;
        for (int64_t q = 0; q < run.outputs; ++q) {
            pieces<L, K>(run.channels, FoldPixel<F, In>{run, q, mantissa == 0, 1.0f / run.divisor});
        }
    }
};

template <Fold F, class In>
struct Folds {
    static void fold(const FoldRun& run) { by_width(run.channels, FoldPixels<F, In>{run}); }

    // Neighbouring numbers.
    static float fold_row(const char* src, int64_t count) {
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
            float all = kFirst<F>;  // vectors of one lane are kept in memory
            if (n >= L) {
#pragma GCC unroll 16
                for (int i = 0; i < L; ++i) all = folded<F>(all, part[0][i]);
            }
            for (; t < n; ++t) all = folded<F>(all, In::get(at + t));
            result = folded<F>(result, all);
            at += n;
        }
        return result;
    }
};

// Calls code(Folds<F, In>()) for a fold and a type known at run time.
template <Fold F, class Code>
DGO_INLINE auto with_cell(Cell from, const Code& code) {
    if (from == Cell::f32) return code(Folds<F, F32>());
    return from == Cell::bf16 ? code(Folds<F, Bf16>()) : code(Folds<F, F16>());
}

template <class Code>
DGO_INLINE auto with_folds(Fold fold, Cell from, const Code& code) {
    if (fold == Fold::sum) return with_cell<Fold::sum>(from, code);
    return fold == Fold::max ? with_cell<Fold::max>(from, code) : with_cell<Fold::min>(from, code);
}

void fold(const FoldRun& run) {
    with_folds(run.fold, run.from, [&](auto folds) { folds.fold(run); });
}

float fold_row(Fold fold, Cell from, const char* src, int64_t count) {
    return with_folds(fold, from, [&](auto folds) { return folds.fold_row(src, count); });
}

}  // namespace

const WindowCode kWindowCode = {fold, fold_row, mix, linear, move};

}  // namespace dgo::DGO_ISA
