// Register tiles of a matrix product on packed panels of columns.
#pragma once

#include "kernels/isa/epilogue/fused_activation.hpp"

namespace dgo::DGO_ISA {

constexpr int kTileRows = kLanes == 16 ? 12 : 6;
constexpr int kFewRows = kTileRows / 3;  // tiles of one, two and three times as many leave few rows computed in vain
constexpr int kTileVectors = 2;
constexpr int kPanel = kTileVectors * kLanes;
// Floats from one row of a panel to the next. A last panel with columns for one vector is dense: its rows are in all
// sets of the cache.
constexpr int64_t panel_pitch(int64_t columns) { return columns > kLanes ? kPanel : kLanes; }
// Register tiles of two panels have half the rows: each broadcast meets four vectors of weights in 32 registers.
constexpr bool kPairs = kWide;
constexpr int kPairRows = kTileRows / 2;
// Steps of the inner dimension without a branch: a core whose other thread is busy has few slots to spare.
constexpr int kSteps = 8;
// Weights that stay in the second cache level from one row of tiles to the next, alone or next to those to come.
constexpr int64_t kNearBytes = 256 * 1024;
constexpr int kStrip = 3 * kLanes;  // columns of a transposed left factor kept together: whole vectors, whole tiles

DGO_INLINE Lanes broadcast(float value) { return value - Lanes{}; }

// sum += left * right, in place: left to itself GCC moves the sums of an unrolled loop about and spills them.
DGO_INLINE void multiply_add(Lanes& sum, Lanes left, Lanes right) {
    if constexpr (kEmulates) {
        sum += left * right;
    } else {
        asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
    }
}

// One step of the inner dimension of a register tile; of two panels, the second one lies `further` floats behind.
template <int kVectors, int kRows>
DGO_INLINE void tile_step(const float* const* left, int64_t k, const float* weights, Lanes (&sum)[kRows][kVectors],
                          int64_t further = 0) {
    Lanes right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
        const float* const panel = j < kTileVectors ? weights : weights + further;
        right[j] = *reinterpret_cast<const LanesAt*>(panel + j % kTileVectors * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
        const float value = left[i][k];
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], broadcast(value), right[j]);
    }
}

// A range of the inner dimension: elements [begin, end) of one of the runs that a row consists of.
struct Span {
    int64_t run, begin, end;
};

// Memory that a later tile reads: each step of a product fetches a little of it.
struct Ahead {
    const char* at;
    int64_t step;  // bytes

    DGO_INLINE void fetch(int64_t steps) {
        const char* const fetched = at + steps * step;
        for (const char* line = at; line < fetched; line += 64) _mm_prefetch(line, _MM_HINT_T1);
        at = fetched;
    }
};

// Fetches rows [next, end), `length` elements of each from row(i) on, a few cache lines at a time.
template <class Row>
struct Fetch {
    Row row;
    int64_t next, end, length;
    int64_t at = 0;

    void lines(int64_t count) {
        for (; count > 0 && next < end; --count) {
            _mm_prefetch(reinterpret_cast<const char*>(row(next) + at), _MM_HINT_T1);
            at += 64 / static_cast<int64_t>(sizeof(*row(next)));
            if (at < length) continue;
            at = 0;
            ++next;
        }
    }
    // Returns at least so many of the next lines, as memory that `steps` steps fetch between multiplications, whole lines
    // at a time; none unless rows follow each other in memory.
    Ahead spread(int64_t count, int64_t steps) {
        const float* const from = row(next) + at;
        const int64_t left = (end - next) * length - at;
        if (count == 0 || left <= 0 || row(end - 1) - row(next) != (end - 1 - next) * length) return {nullptr, 0};
        const int64_t step = round_up(ceil_div(count * 64, steps), 64 / kSteps);
        at += smaller(steps * step / static_cast<int64_t>(sizeof(float)), left);
        next += at / length;
        at %= length;
        return {reinterpret_cast<const char*>(from), step};
    }
};
template <class Row>
Fetch(Row, int64_t, int64_t, int64_t) -> Fetch<Row>;

// to[i][:] = bias + sum over the spans of rows[i * runs + run][k] * panel[run * depth + k][:]; without a bias
// the sum goes on from what is there. Four vectors are two panels, of which the second one lies `further` floats behind.
template <int kVectors, int kRows>
DGO_INLINE void multiply_tile(const float* const* rows, int64_t runs, const Span* spans, int64_t span_count,
                              int64_t depth, const float* panel, int64_t further, const float* bias, float* const* to,
                              Ahead ahead, const FusedActivation& activation) {
    constexpr int64_t kPitch = panel_pitch(kVectors * kLanes);
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
            sum[i][j] = *reinterpret_cast<const LanesAt*>((bias != nullptr ? bias : to[i]) + j * kLanes);
        }
    }
    for (const Span* span = spans; span != spans + span_count; ++span) {
        const float* a[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) a[i] = rows[i * runs + span->run];
        const float* b = panel + (span->run * depth + span->begin) * kPitch;
        int64_t k = span->begin;
        for (; k + kSteps <= span->end; k += kSteps, b += kSteps * kPitch) {
            ahead.fetch(kSteps);
#pragma GCC unroll 8
            for (int u = 0; u < kSteps; ++u) tile_step(a, k + u, b + u * kPitch, sum, further);
        }
        for (; k < span->end; ++k, b += kPitch) tile_step(a, k, b, sum, further);
    }
    activate_tile(activation, sum);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) *reinterpret_cast<LanesAt*>(to[i] + j * kLanes) = sum[i][j];
    }
}

// Computes a register tile of one panel. Of a last panel that is half empty one vector is enough.
template <int kVectors, int kRows>
__attribute__((noinline)) void tile_product(const float* const* rows, int64_t runs, const Span* spans,
                                            int64_t span_count, int64_t depth, const float* panel, const float* bias,
                                            float* const* to, Ahead ahead, const FusedActivation& activation) {
    multiply_tile<kVectors, kRows>(rows, runs, spans, span_count, depth, panel, 0, bias, to, ahead, activation);
}

// Computes a register tile of two panels and half as many rows, which takes fewer instructions.
template <int kRows>
__attribute__((noinline)) void pair_product(const float* const* rows, int64_t runs, const Span* spans,
                                            int64_t span_count, int64_t depth, const float* panel, int64_t further,
                                            const float* bias, float* const* to, Ahead ahead,
                                            const FusedActivation& activation) {
    multiply_tile<2 * kTileVectors, kRows>(rows, runs, spans, span_count, depth, panel, further, bias, to, ahead,
                                           activation);
}

// Returns the smallest tile of at least `rows` rows; its further rows are computed and not stored.
template <int kVectors>
auto tile_of(int64_t rows) {
    return rows > 2 * kFewRows ? &tile_product<kVectors, 3 * kFewRows>
           : rows > kFewRows   ? &tile_product<kVectors, 2 * kFewRows>
                               : &tile_product<kVectors, kFewRows>;
}
// Returns the smallest tile of at least `rows` rows for a panel of which `columns` columns are left.
inline auto tile_of(int64_t rows, int64_t columns) {
    return columns > kLanes ? tile_of<kTileVectors>(rows) : tile_of<1>(rows);
}

// Returns the smallest tile of two panels of at least `rows` rows, or that of kPairRows.
inline auto pair_of(int64_t rows) {
    return rows > 4 ? &pair_product<kPairRows> : rows > 2 ? &pair_product<smaller(4, kPairRows)> : &pair_product<2>;
}

// Rows that are a step apart on both sides.
struct Strip {
    int64_t count, row_step, to_step;
};

// to[i * to_step][:] = bias + the sum over the spans of rows[i * row_step][k] * panel[k][:] for i < strip.count, whole
// tiles of kRows, with rows of one run. Plain sums begin with zero and have one span: short sums have no time for more.
template <int kVectors = kTileVectors, bool kElementwiseInt = false, int kRows = kTileRows,
          int64_t kPitch = panel_pitch(kVectors * kLanes)>
__attribute__((noinline)) void strip_product(const float* rows, Strip strip, const Span* spans, int64_t span_count,
                                             const float* panel, const float* bias, float* to, Ahead ahead) {
    const int64_t to_step = strip.to_step, row_step = strip.row_step;
    Lanes sum[kRows][kVectors];
    const auto add = [&](int64_t k, int64_t end) __attribute__((always_inline)) {
        const float* a[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) a[i] = rows + i * row_step;
        const float* b = panel + k * kPitch;
        for (; k + kSteps <= end; k += kSteps, b += kSteps * kPitch) {
            ahead.fetch(kSteps);
#pragma GCC unroll 8
            for (int u = 0; u < kSteps; ++u) tile_step(a, k + u, b + u * kPitch, sum);
        }
        for (; k < end; ++k, b += kPitch) tile_step(a, k, b, sum);
    };
    const int64_t depth = spans->end;
    for (int64_t t = 0; t < strip.count; t += kRows, rows += kRows * row_step, to += kRows * to_step) {
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
            const float* start = bias != nullptr ? bias : to + i * to_step;
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) {
                sum[i][j] = kElementwiseInt ? Lanes{} : *reinterpret_cast<const LanesAt*>(start + j * kLanes);
            }
        }
        if (kElementwiseInt) add(0, depth);
        for (const Span* span = spans; !kElementwiseInt && span != spans + span_count; ++span)
            add(span->begin, span->end);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) *reinterpret_cast<LanesAt*>(to + i * to_step + j * kLanes) = sum[i][j];
        }
    }
}

// The register tiles of `count` rows: of 3, 2 and 1 times kFewRows.
struct TileCounts {
    int64_t whole, two_thirds, third;

    explicit TileCounts(int64_t count) {
        const int64_t units = ceil_div(count, kFewRows);
        // two tiles of two thirds take less time than a whole tile and one of a third
        const bool even = units % 3 == 1 && units > 1;
        whole = units / 3 - (even ? 1 : 0);
        two_thirds = even ? 2 : units % 3 == 2 ? 1 : 0;
        third = even ? 0 : units % 3 == 1 ? 1 : 0;
    }

    int64_t all() const { return whole + two_thirds + third; }
};

// c[i][:] (+)= sum over k of strip[k][i] * panel[k][:], the strip kStrip wide. With one vector the sums of the other
// half of a panel are zeros.
template <int kVectors, int kRows>
__attribute__((noinline)) void tile_product_transposed(const float* strip, int64_t count, const float* panel, float* c,
                                                       bool add, Ahead ahead) {
    Lanes sum[kRows][kVectors] = {};
    // Old sums are fetched while the new ones are computed.
    for (int i = 0; add && i < kRows; ++i) _mm_prefetch(reinterpret_cast<const char*>(c + i * kPanel), _MM_HINT_T0);
    const auto step = [&](const float* a, const float* b) __attribute__((always_inline)) {
        Lanes right[kVectors];
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) right[j] = *reinterpret_cast<const LanesAt*>(b + j * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) multiply_add(sum[i][j], broadcast(a[i]), right[j]);
        }
    };
    int64_t k = 0;
    for (; k + kSteps <= count; k += kSteps, strip += kSteps * kStrip, panel += kSteps * kPanel) {
        ahead.fetch(kSteps);
#pragma GCC unroll 8
        for (int u = 0; u < kSteps; ++u) step(strip + u * kStrip, panel + u * kPanel);
    }
    for (; k < count; ++k, strip += kStrip, panel += kPanel) step(strip, panel);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kTileVectors; ++j) {
            LanesAt* at = reinterpret_cast<LanesAt*>(c + i * kPanel + j * kLanes);
            if (j < kVectors)
                *at = add ? *at + sum[i][j < kVectors ? j : 0] : sum[i][j < kVectors ? j : 0];
            else if (!add)
                *at = Lanes{};
        }
    }
}

}  // namespace dgo::DGO_ISA
