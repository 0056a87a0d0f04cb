// Taps folded in registers.
#include "kernels/isa/vector/cascade.hpp"
#include "kernels/isa/vector/elements_of_rows.hpp"
#include "kernels/isa/table.hpp"
#include "kernels/isa/window/code.hpp"
#include "kernels/isa/window/lane.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kManyTaps = 16;
// Taps in a partial sum, so that the error does not grow with the number of pixels.
constexpr int64_t kChunk = 256;
// The most neighbours that are not summed in halves.
constexpr int64_t kHalved = 16 * kChunk * kLanes;

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
            for (int v = 0; v < V; ++v) sum[v] = taken<F, L>(sum[v], load_lanes<In, L, K>(at + v * L));
        }
    }

    // Several taps side by side: a sum waits for the one before it. `add` takes the sums of each chunk.
    template <int L, int V, int K, class Add>
    DGO_INLINE void many(const typename In::T* at, const Add& add) const {
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
                        part[i][v] = taken<F, L>(part[i][v], load_lanes<In, L, K>(at + i * step + v * L));
                    }
                }
            }
            for (; t < taps; ++t, at += step) {
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) part[0][v] = taken<F, L>(part[0][v], load_lanes<In, L, K>(at + v * L));
            }
#pragma GCC unroll 4
            for (int n = P / 2; n > 0; n /= 2) {
#pragma GCC unroll 8
                for (int i = 0; i < n * V; ++i) {
                    Floats<L>& sum = part[i / V][i % V];
                    sum = folded<joining(F), L>(sum, part[n + i / V][i % V]);
                }
            }
            add(part[0]);
        }
    }

    // Folds all taps of all rows in chunks, whose sums `add` takes.
    template <int L, int V, int K, class Add>
    DGO_INLINE void chunks(int64_t offset, const Add& add) const {
        const auto start = [&](int64_t r) { return reinterpret_cast<const typename In::T*>(run.rows[r]) + offset; };
        if (run.taps >= kManyTaps) {
            for (int64_t r = 0; r < run.row_count; ++r) many<L, V, K>(start(r), add);
            return;
        }
        const int64_t together = kChunk / larger(run.taps, 1);
        for (int64_t r = 0; r < run.row_count; r += together) {
            Floats<L> part[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) part[v] = Floats<L>{} + kFirst<F>;
            for (int64_t i = r; i < smaller(r + together, run.row_count); ++i) few<L, V, K>(part, start(i));
            add(part);
        }
    }

    template <int L, int V, int K>
    __attribute__((noinline)) void cascaded(Floats<L> (&sum)[V], int64_t offset) const {
        Cascade<L, V> all;
        chunks<L, V, K>(offset, [&](const Floats<L>(&part)[V]) __attribute__((always_inline)) { all.add(part); });
        all.add_to(sum);
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
        const auto add = [&](const Floats<L>(&part)[V]) __attribute__((always_inline)) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sum[v] = folded<joining(F), L>(sum[v], part[v]);
        };
        if (joining(F) == Fold::sum && run.row_count * run.taps > kChunk * Cascade<L, V>::kWays) {
            cascaded<L, V, K>(sum, offset);
        } else {
            chunks<L, V, K>(offset, add);
        }
        if constexpr (F == Fold::sum) {
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sum[v] = exact ? sum[v] * factor : sum[v] / run.divisor;
        }
        if constexpr (F == Fold::sum || F == Fold::squares) {
            if (run.root) {
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) sum[v] = square_root<L>(sum[v]);
            }
        }
        // chosen at run time: the taps' code is the same for all types of results
        if (run.to == ElementType::f32) return put<F32, L, V, K>(sum, c);
        if constexpr (!kSame<In, F16>) {
            if (kSame<In, Bf16> || run.to == ElementType::bf16) return put<Bf16, L, V, K>(sum, c);
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
    static constexpr Fold J = joining(F);

    static void fold(const FoldRun& run) { by_width(run.channels, FoldPixels<F, In>{run}); }

    // Folds `count` neighbours to a vector of partial results.
    static DGO_INLINE Lanes fold_lanes(const typename In::T* at, int64_t count) {
        if constexpr (J == Fold::sum) {
            if (count > kHalved) return fold_halves(at, count);
        }
        return fold_block(at, count);
    }

    static __attribute__((noinline)) Lanes fold_halves(const typename In::T* at, int64_t count) {
        const int64_t half = ((count - 1) / 2 / kHalved + 1) * kHalved;  // below count
        return fold_lanes(at, half) + fold_lanes(at + half, count - half);
    }

    static DGO_INLINE Lanes fold_block(const typename In::T* at, int64_t count) {
        constexpr int L = kLanes, P = 8;
        Lanes all = lanes_of(kFirst<F>), rest = all;
        while (count >= P * L) {
            Lanes part[P];
#pragma GCC unroll 8
            for (int i = 0; i < P; ++i) part[i] = lanes_of(kFirst<F>);
            const int64_t steps = smaller(count / (P * L), kChunk / P);
            for (int64_t t = 0; t < steps; ++t, at += P * L) {
#pragma GCC unroll 8
                for (int i = 0; i < P; ++i) part[i] = taken<F, L>(part[i], load_lanes<In, L>(at + i * L));
            }
#pragma GCC unroll 4
            for (int n = P / 2; n > 0; n /= 2) {
#pragma GCC unroll 8
                for (int i = 0; i < n; ++i) part[i] = folded<J, L>(part[i], part[n + i]);
            }
            all = folded<J, L>(all, part[0]);
            count -= steps * P * L;
        }
        for (; count >= L; count -= L, at += L) rest = taken<F, L>(rest, load_lanes<In, L>(at));
        if (count > 0) rest = taken<F, L>(rest, some_lanes(at, count));
        return folded<J, L>(all, rest);
    }

    // Loads the first of `count` numbers that fit into a vector; lanes beyond `count` hold the identity of the fold.
    static DGO_INLINE Lanes some_lanes(const typename In::T* at, int64_t count) {
        if (count >= kLanes) return load_lanes<In, kLanes>(at);
        const Lanes none = lanes_of(kFirst<F>);
        return count <= 0 ? none : lanes_before(load_lanes<In>(at, count), count, none);
    }

    static float fold_row(const char* const* rows, int64_t row_count, int64_t count) {
        const auto row = [&](int64_t r) { return fold_lanes(reinterpret_cast<const typename In::T*>(rows[r]), count); };
        Lanes all = lanes_of(kFirst<F>);
        if constexpr (J == Fold::sum) {
            Cascade<kLanes, 1> sums;
            for (int64_t r = 0; r < row_count; ++r) sums.add({row(r)});
            Lanes sum[1] = {all};
            sums.add_to(sum);
            all = sum[0];
        } else {
            for (int64_t r = 0; r < row_count; ++r) all = folded<J, kLanes>(all, row(r));
        }
        for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) all = neighbours_folded(all, all);
        return all[0];
    }

    // Folds each lane of even number with the next one: the results of a, then those of b.
    static DGO_INLINE Lanes neighbours_folded(Lanes a, Lanes b) {
        Integers even;
        for (int i = 0; i < kLanes; ++i) even[i] = 2 * i;
        return folded<J, kLanes>(__builtin_shuffle(a, b, even), __builtin_shuffle(a, b, even + 1));
    }

    // Folds kLanes rows at a time. Contiguous rows of 2, 4, ... numbers share vectors.
    static void fold_rows(const RowFold& run) {
        const int64_t count = run.count, pitch = run.pitch;
        const bool shared = pitch == count && count < kLanes && (count & (count - 1)) == 0;
        const int64_t vectors = shared ? count : kLanes;
        const auto* at = reinterpret_cast<const typename In::T*>(run.src);
        float* dst = run.dst;
        for (int64_t rows = run.rows; rows > 0; rows -= kLanes, at += kLanes * pitch, dst += kLanes) {
            Lanes v[kLanes];
            for (int64_t i = 0; i < vectors; ++i) {
                if (shared) {
                    v[i] =
                        taken<F, kLanes>(lanes_of(kFirst<F>), some_lanes(at + i * kLanes, rows * count - i * kLanes));
                } else {
                    v[i] = i < rows ? fold_lanes(at + i * pitch, count) : lanes_of(kFirst<F>);
                }
            }
            for (int64_t n = vectors / 2; n > 0; n /= 2) {
                for (int64_t i = 0; i < n; ++i) v[i] = neighbours_folded(v[2 * i], v[2 * i + 1]);
            }
            if constexpr (F == Fold::sum) v[0] /= run.divisor;
            store_some(dst, run.root ? root(v[0]) : v[0], rows);
        }
    }
};

// Calls code(Folds<F, In>()) for a fold and a type known at run time.
template <Fold F, class Code>
DGO_INLINE auto with_type(ElementType from, const Code& code) {
    if (from == ElementType::f32) return code(Folds<F, F32>());
    return from == ElementType::bf16 ? code(Folds<F, Bf16>()) : code(Folds<F, F16>());
}

template <class Code>
DGO_INLINE auto with_folds(Fold fold, ElementType from, const Code& code) {
    switch (fold) {
        case Fold::sum: return with_type<Fold::sum>(from, code);
        case Fold::max: return with_type<Fold::max>(from, code);
        case Fold::min: return with_type<Fold::min>(from, code);
        case Fold::product: return with_type<Fold::product>(from, code);
        case Fold::magnitudes: return with_type<Fold::magnitudes>(from, code);
        default: return with_type<Fold::squares>(from, code);
    }
}

bool of_integers(ElementType from) {
    return from == ElementType::u8 || from == ElementType::s8 || from == ElementType::s32;
}

void fold(const FoldRun& run) {
    if (of_integers(run.from)) return fold_integers(run);
    with_folds(run.fold, run.from, [&](auto folds) { folds.fold(run); });
}

void fold_row(Fold fold, ElementType from, const char* const* rows, int64_t row_count, int64_t count, char* to) {
    if (of_integers(from)) return store_bytes(to, fold_row_of_integers(fold, from, rows, row_count, count));
    store_bytes(to, with_folds(fold, from, [&](auto folds) { return folds.fold_row(rows, row_count, count); }));
}

void fold_rows(const RowFold& rows) {
    if (of_integers(rows.from)) return fold_rows_of_integers(rows);
    with_folds(rows.fold, rows.from, [&](auto folds) { folds.fold_rows(rows); });
}

}  // namespace

const WindowCode kWindowCode = {fold, fold_row, fold_rows, mix, peak, linear, move, round};

}  // namespace dgo::DGO_ISA
