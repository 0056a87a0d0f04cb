#include "kernels/recurrent/vtable.hpp"

#include "kernels/isa/table.hpp"
#include "kernels/isa/vector/functions.hpp"
#include "kernels/recurrent/part.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kRegisters = kLanes == 16 ? 16 : 8;  // vectors of sums in registers
constexpr int kRowsAtOnce = 6;  // rows of inputs: two vectors of sums for each fill the registers

// to[s][j] = the sum over k of from[s][k] * part[k][j], of kVectors vectors from column j on. Several parts of the depth
// are summed side by side where too few sums would wait for each other.
template <int kCount, int kVectors, int kHalves>
DGO_INLINE void columns(const float* part, const float* from, int64_t from_pitch, int64_t depth, float* to,
                        int64_t to_pitch) {
    Lanes sum[kHalves][kCount][kVectors] = {};
    const auto step = [&](int64_t k, int half) __attribute__((always_inline)) {
        Lanes w[kVectors];
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) w[j] = load_bytes<Lanes>(part + k * kPart + j * kLanes);
#pragma GCC unroll 6
        for (int s = 0; s < kCount; ++s) {
            const Lanes x = lanes_of(from[s * from_pitch + k]);
#pragma GCC unroll 8
            for (int j = 0; j < kVectors; ++j) sum[half][s][j] += x * w[j];
        }
    };
    int64_t k = 0;
    for (; k + kHalves <= depth; k += kHalves) {
#pragma GCC unroll 4
        for (int half = 0; half < kHalves; ++half) step(k + half, half);
    }
    for (; k < depth; ++k) step(k, 0);
#pragma GCC unroll 6
    for (int s = 0; s < kCount; ++s) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
            Lanes all = sum[0][s][j];
#pragma GCC unroll 4
            for (int half = 1; half < kHalves; ++half) all += sum[half][s][j];
            store_bytes(to + s * to_pitch + j * kLanes, all);
        }
    }
}

template <int kCount>
DGO_INLINE void product_of(const float* weights, int64_t panels, const float* from, int64_t from_pitch, int64_t depth,
                           float* to, int64_t to_pitch) {
    constexpr int kWhole = static_cast<int>(kPart / kLanes);
    constexpr int kFit = kCount > 4 ? 2 : kRegisters / (kCount == 3 ? 4 : kCount);
    constexpr int kVectors = kFit < kWhole ? kFit : kWhole;
    constexpr int kHalves = kCount * kVectors < 4 ? 4 : kCount * kVectors < 8 ? 2 : 1;
    for (int64_t p = 0; p < panels * (kPanel / kPart); ++p) {
        for (int j = 0; j < kWhole; j += kVectors) {
            columns<kCount, kVectors, kHalves>(weights + p * depth * kPart + j * kLanes, from, from_pitch, depth,
                                               to + p * kPart + j * kLanes, to_pitch);
        }
    }
}

void product(int64_t count, const float* weights, int64_t panels, const float* from, int64_t from_pitch, int64_t depth,
             float* to, int64_t to_pitch) {
    switch (count) {
        case 1: return product_of<1>(weights, panels, from, from_pitch, depth, to, to_pitch);
        case 2: return product_of<2>(weights, panels, from, from_pitch, depth, to, to_pitch);
        case 3: return product_of<3>(weights, panels, from, from_pitch, depth, to, to_pitch);
        default: return product_of<4>(weights, panels, from, from_pitch, depth, to, to_pitch);
    }
}

// Calls run(j, elements of the vector) for each vector of a state.
template <class Run>
DGO_INLINE void each_vector(int64_t size, Run&& run) {
    int64_t j = 0;
    for (; j + kLanes <= size; j += kLanes) run(j, int64_t{kLanes});
    if (j < size) run(j, size - j);
}

// Multiplies all rows by one panel after the other, so that a panel stays near.
void inputs(const RecurrentInputs& b) {
    const int64_t pitch = b.panels * kPanel;
    for (int64_t p = 0; p < b.panels; ++p) {
        const float* const weights = b.weights + p * b.depth * kPanel;
        const float* const bias = b.bias + p * kPanel;
        const int64_t filled = smaller(b.columns - p * kPanel, kPanel);
        for (int64_t i = 0, count = 0; i < b.rows; i += count) {
            float* const to = b.to + i * pitch + p * kPanel;
            const float* const from = b.from + i * b.depth;
            if (b.rows - i >= kRowsAtOnce) {
                count = kRowsAtOnce;
                product_of<kRowsAtOnce>(weights, 1, from, b.depth, b.depth, to, pitch);
            } else {
                count = smaller(b.rows - i, kSequences);
                product(count, weights, 1, from, b.depth, b.depth, to, pitch);
            }
            for (int64_t s = 0; s < count; ++s) {
                each_vector(filled, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
                    store_some(to + s * pitch + j, load_some(to + s * pitch + j, n) + load_some(bias + j, n), n);
                });
            }
        }
    }
}

DGO_INLINE void rnn_step(const RecurrentBlock& b, const float* ready, const float* sums, float* h) {
    each_vector(b.size, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
        const Lanes x = load_some(ready + j, n) + load_some(sums + j, n);
        store_some(h + j, b.cell == RecurrentCell::rnn_relu ? larger_of(x, Lanes{}) : hyperbolic_tangent(x), n);
    });
}

DGO_INLINE void lstm_step(const RecurrentBlock& b, const float* ready, const float* sums, float* h, float* c) {
    const int64_t size = b.size;
    each_vector(size, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
        const auto gate = [&](int64_t at) __attribute__((always_inline)) {
            return load_some(ready + at * size + j, n) + load_some(sums + at * size + j, n);
        };
        const Lanes state = logistic(gate(2)) * load_some(c + j, n) + logistic(gate(0)) * hyperbolic_tangent(gate(3));
        store_some(c + j, state, n);
        store_some(h + j, logistic(gate(1)) * hyperbolic_tangent(state), n);
    });
}

// Writes the update gate over its sum; the reset gate multiplies the state, or the sum of the new state.
DGO_INLINE void gru_gates(const RecurrentBlock& b, const float* ready, float* sums, const float* h, float* reset) {
    const int64_t size = b.size;
    each_vector(size, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
        const Lanes update = logistic(load_some(ready + j, n) + load_some(sums + j, n));
        const Lanes kept = logistic(load_some(ready + size + j, n) + load_some(sums + size + j, n));
        store_some(sums + j, update, n);
        store_some(reset + j, b.cell == RecurrentCell::gru ? kept * load_some(h + j, n) : kept, n);
    });
}

DGO_INLINE void gru_state(const RecurrentBlock& b, const float* ready, const float* sums, const float* late,
                          const float* reset, float* h) {
    const int64_t size = b.size;
    each_vector(size, [&](int64_t j, int64_t n) __attribute__((always_inline)) {
        Lanes inner = load_some(late + j, n);
        if (b.cell == RecurrentCell::gru_before_reset)
            inner = load_some(reset + j, n) * (inner + load_some(b.bias + j, n));
        const Lanes made = hyperbolic_tangent(load_some(ready + 2 * size + j, n) + inner);
        store_some(h + j, made + load_some(sums + j, n) * (load_some(h + j, n) - made), n);
    });
}

void run(const RecurrentBlock& b) {
    const bool gru = b.cell == RecurrentCell::gru || b.cell == RecurrentCell::gru_before_reset;
    const bool lstm = b.cell == RecurrentCell::lstm;
    const int64_t size = b.size, pitch = b.panels * kPanel, late_pitch = b.late_panels * kPanel;
    float* const late = b.sums + b.sequences * pitch;
    float* const reset = late + b.sequences * late_pitch;
    for (int64_t i = 0; i < b.steps; ++i) {
        const int64_t t = b.backwards ? b.steps - 1 - i : i;
        const float* ready = b.ready + t * b.ready_step;
        product(b.sequences, b.weights, b.panels, b.h, size, size, b.sums, pitch);
        if (gru) {
            for (int64_t s = 0; s < b.sequences; ++s) {
                gru_gates(b, ready + s * b.ready_pitch, b.sums + s * pitch, b.h + s * size, reset + s * size);
            }
            const float* from = b.cell == RecurrentCell::gru ? reset : b.h;
            product(b.sequences, b.late_weights, b.late_panels, from, size, size, late, late_pitch);
        }
        for (int64_t s = 0; s < b.sequences; ++s) {
            const float* given = ready + s * b.ready_pitch;
            const float* sums = b.sums + s * pitch;
            float* const h = b.h + s * size;
            if (gru) {
                gru_state(b, given, sums, late + s * late_pitch, reset + s * size, h);
            } else if (lstm) {
                lstm_step(b, given, sums, h, b.c + s * size);
            } else {
                rnn_step(b, given, sums, h);
            }
            float* const row = b.rows + t * b.row_step + s * size;
            each_vector(size, [&](int64_t j, int64_t n)
                                  __attribute__((always_inline)) { store_some(row + j, load_some(h + j, n), n); });
        }
    }
}

}  // namespace

extern const RecurrentCode kRecurrentCode;
const RecurrentCode kRecurrentCode = {inputs, run};

}  // namespace dgo::DGO_ISA
