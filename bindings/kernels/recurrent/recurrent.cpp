// LSTM, GRU and RNN, one direction: the inputs of all steps in one product, then step by step.
#include <algorithm>
#include <cstring>
#include <string>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/recurrent/part.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "recurrent";
constexpr int64_t kBlock = 16;  // rows of a panel that are written together
constexpr int kSrc = 0, kInputWeights = 1, kInputBias = 2, kWeights = 3, kBias = 4, kFirstH = 5, kFirstC = 6, kRows = 7,
              kLastH = 8, kLastC = 9;

struct Kind {
    const char* name;
    RecurrentCell cell;
    int64_t gates, late;  // columns of `size` that the state is multiplied by, at first and for the new state
};
constexpr Kind kKinds[] = {{"rnn_tanh", RecurrentCell::rnn_tanh, 1, 0},
                           {"rnn_relu", RecurrentCell::rnn_relu, 1, 0},
                           {"gru", RecurrentCell::gru, 2, 1},
                           {"gru_before_reset", RecurrentCell::gru_before_reset, 2, 1},
                           {"lstm", RecurrentCell::lstm, 4, 0}};

const Kind& kind_of(const std::string& name) {
    for (const Kind& kind : kKinds) {
        if (name == kind.name) return kind;
    }
    fail(ErrorKind::invalid_argument, std::string(kName) + ": '" + name + "' is no cell");
}

// Packs `count` rows as columns of the parts of panels; the last columns are zeros.
void pack(const float* rows, int64_t count, int64_t depth, float* to) {
    for (int64_t first = 0; first < ceil_div(count, kPanel) * kPanel; first += kPart, to += kPart * depth) {
        const int64_t filled = std::clamp<int64_t>(count - first, 0, kPart);
        for (int64_t begin = 0; begin < depth; begin += kBlock) {
            const int64_t end = std::min(depth, begin + kBlock);
            for (int64_t j = 0; j < filled; ++j) {
                const float* from = rows + (first + j) * depth;
                for (int64_t k = begin; k < end; ++k) to[k * kPart + j] = from[k];
            }
            for (int64_t k = begin; k < end; ++k) std::fill(to + k * kPart + filled, to + (k + 1) * kPart, 0.0f);
        }
    }
}

// Sizes of the packed weights of one direction.
struct Panels {
    int64_t inputs, first, late;  // panels of the inputs' weights, and of the state's
    int64_t width, size;

    Panels(const Kind& kind, int64_t width, int64_t size)
        : inputs(ceil_div(checked_product(kName, {size, kind.gates + kind.late}), kPanel)),
          first(ceil_div(kind.gates * size, kPanel)), late(ceil_div(kind.late * size, kPanel)), width(width),
          size(size) {}

    int64_t input_floats() const { return checked_product(kName, {inputs * kPanel, width}); }
    int64_t state_floats() const { return checked_product(kName, {(first + late) * kPanel, size}); }
    void pack_inputs(const Kind& kind, const float* weights, float* to) const {
        pack(weights, (kind.gates + kind.late) * size, width, to);
    }
    void pack_state(const Kind& kind, const float* weights, float* to) const {
        pack(weights, kind.gates * size, size, to);
        pack(weights + kind.gates * size * size, kind.late * size, size, to + first * kPanel * size);
    }
};

void check_sizes(int64_t width, int64_t size) {
    check_number(kName, "sizes", width, 0, kMostElements);
    check_number(kName, "size", size, 1, kMostSize);
}

struct RecurrentPack : Kernel {
    Kind kind;
    Panels panels;

    RecurrentPack(const std::string& cell, int64_t width, int64_t size)
        : kind((check_sizes(width, size), kind_of(cell))), panels(kind, width, size) {
        name = "recurrent_pack";
        arity = 4;
        panels.input_floats();
        panels.state_floats();
    }
    void run(char* const* operands) const override {
        const auto floats = [&](int operand) { return reinterpret_cast<float*>(operands[operand]); };
        panels.pack_inputs(kind, floats(0), floats(2));
        panels.pack_state(kind, floats(1), floats(3));
    }
};

struct RecurrentKernel : Kernel {
    Kind kind;
    bool packed;  // the weights come so
    RecurrentBlock block{};
    int64_t inputs, sequences, tasks, columns, input_panels;
    double bytes, input_bytes;
    ScratchLayout shared, each;
    ScratchArray<float> ready, input_weights, panels, sums;

    RecurrentKernel(const std::string& cell, int64_t steps, int64_t batch, int64_t width, int64_t size, bool backwards,
                    int64_t row_step, bool packed)
        : kind(kind_of(cell)), packed(packed), inputs(width), sequences(batch) {
        name = kName;
        arity = 10;
        for (const int64_t number : {steps, batch, row_step}) check_number(kName, "sizes", number, 0, kMostElements);
        check_sizes(width, size);
        const Panels all_panels(kind, width, size);
        block.cell = kind.cell;
        block.steps = steps;
        block.size = size;
        block.backwards = backwards;
        columns = checked_product(kName, {size, kind.gates + kind.late});
        input_panels = all_panels.inputs;
        block.ready_pitch = input_panels * kPanel;
        block.ready_step = checked_product(kName, {batch, block.ready_pitch});
        checked_product(kName, {std::max(block.ready_step, row_step), std::max<int64_t>(steps, 1)});
        checked_product(kName, {std::max<int64_t>(steps, 1), batch, width});
        block.row_step = row_step;
        block.panels = all_panels.first;
        block.late_panels = all_panels.late;
        const int64_t all = (block.panels + block.late_panels) * kPanel;
        const double rows = static_cast<double>(steps) * static_cast<double>(batch);
        bytes = static_cast<double>(all) * static_cast<double>(size) * rows;
        input_bytes = static_cast<double>(block.ready_pitch) * static_cast<double>(width) * rows;
        // few sequences are spread over the threads, many are computed together
        tasks = ceil_div(batch, kSequences);
        sums = each.add<float>(checked_product(kName, {kSequences, all + 2 * size}));
        panels = shared.add<float>(packed ? 0 : all_panels.state_floats());
        input_weights = shared.add<float>(packed ? 0 : all_panels.input_floats());
        ready = shared.add<float>(checked_product(kName, {steps, block.ready_step}));
    }

    void run(char* const* operands) const override {
        const auto floats = [&](int operand) { return reinterpret_cast<float*>(operands[operand]); };
        const int64_t size = block.size, state = sequences * size * static_cast<int64_t>(sizeof(float));
        if (state == 0) return;
        if (operands[kLastH] != operands[kFirstH]) std::memcpy(operands[kLastH], operands[kFirstH], state);
        if (kind.cell == RecurrentCell::lstm && operands[kLastC] != operands[kFirstC]) {
            std::memcpy(operands[kLastC], operands[kFirstC], state);
        }
        const int64_t rows = block.steps * sequences, groups = ceil_div(rows, kSequences);
        const int threads = threads_for(tasks, bytes), readers = threads_for(groups, input_bytes);
        const Scratch scratch(shared, each, std::max(threads, readers));
        float* const state_packed = packed ? floats(kWeights) : panels.in(scratch.shared());
        float* const late = state_packed + block.panels * kPanel * size;
        float* const input_packed = packed ? floats(kInputWeights) : input_weights.in(scratch.shared());
        float* const given = ready.in(scratch.shared());
        if (!packed) {
            const Panels all_panels(kind, inputs, size);
            all_panels.pack_state(kind, floats(kWeights), state_packed);
            all_panels.pack_inputs(kind, floats(kInputWeights), input_packed);
        }
        parallel_parts(readers, groups, [&](int64_t begin, int64_t end, int) {
            const int64_t first = begin * kSequences;
            vector_code().recurrent.inputs({std::min(rows, end * kSequences) - first, inputs, input_panels, columns,
                                            floats(kSrc) + first * inputs, input_packed, floats(kInputBias),
                                            given + first * block.ready_pitch});
        });
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t first = task * kSequences;
                RecurrentBlock one = block;
                one.sequences = std::min(kSequences, sequences - first);
                one.ready = given + first * block.ready_pitch;
                one.weights = state_packed;
                one.late_weights = late;
                one.bias = floats(kBias);
                one.h = floats(kLastH) + first * size;
                one.c = floats(kLastC) + first * size;
                one.rows = floats(kRows) + first * size;
                one.sums = sums.in(scratch.of(rank));
                vector_code().recurrent.run(one);
            }
        });
    }
};

std::vector<int64_t> packed_floats(const std::string& cell, int64_t width, int64_t size) {
    const RecurrentPack pack(cell, width, size);
    return {pack.panels.input_floats(), pack.panels.state_floats()};
}

}  // namespace

const Declaration kRecurrent[] = {
    {"recurrent(cell, steps, batch, width, size, backwards, row_step, packed=False)",
     kernel_by<RecurrentKernel, std::string, int64_t, int64_t, int64_t, int64_t, bool, int64_t, bool>,
     "src (steps, batch, width), input_weights (gates, size, width), input_bias (gates, size), weights (gates, size, "
     "size), bias (size), h (batch, size), c (batch, size), rows, last_h (batch, size), last_c (batch, size)",
     "rows[t] = h of step t of one direction, in f32. input_bias holds all biases but `bias`, which gru_before_reset "
     "adds to the new state's product; weights are those of the state. The gates are i, o, f, c (lstm) or z, r and the "
     "new state (gru). Only lstm reads and writes c and last_c. h of step t lies at t * row_step. packed: both weights "
     "come packed."},
    {"recurrent_pack(cell, width, size)", kernel_by<RecurrentPack, std::string, int64_t, int64_t>,
     "input_weights (gates, size, width), weights (gates, size, size), packed_input_weights, packed_weights",
     "packed_input_weights, packed_weights = both weights for recurrent with packed=True, in f32."},
    {"recurrent_packed(cell, width, size)", packed_floats,
     "Returns the floats of packed_input_weights and of packed_weights."},
};

}  // namespace dgo
