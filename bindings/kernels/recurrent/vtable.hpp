// The vector code of recurrent layers: a table of functions for each instruction set.
#pragma once

#include <cstdint>

namespace dgo {

constexpr int64_t kPanel = 64;  // columns of a panel of weights
constexpr int64_t kSequences = 4;  // sequences of a block
enum class RecurrentCell { rnn_tanh, rnn_relu, gru, gru_before_reset, lstm };

// Up to kSequences sequences side by side, through all steps. Weights are panels of kPanel columns, `size` rows each,
// first those of the gates that are multiplied by the state, then (GRU) those of the new state.
struct RecurrentBlock {
    RecurrentCell cell;
    int64_t sequences, steps, size;
    bool backwards;
    const float* ready;  // products of the inputs of step t, sequence s: at t * ready_step + s * ready_pitch
    int64_t ready_step, ready_pitch;
    const float *weights, *late_weights;
    const float* bias;  // the bias of gru_before_reset's new state
    float *h, *c;       // the state before, then after the last step: rows of `size`
    float* rows;        // h of all steps, at t * row_step + s * size
    int64_t row_step;
    float* sums;  // panels * kPanel floats for each sequence, and after them late_panels * kPanel, and `size`
    int64_t panels, late_panels;
};

// Rows of inputs times weights, plus a bias: to[i][j] of `panels` panels, whose columns after the bias are not defined.
struct RecurrentInputs {
    int64_t rows, depth, panels, columns;
    const float *from, *weights, *bias;
    float* to;
};

struct RecurrentCode {
    void (*inputs)(const RecurrentInputs& block);
    void (*run)(const RecurrentBlock& block);
};

}  // namespace dgo
