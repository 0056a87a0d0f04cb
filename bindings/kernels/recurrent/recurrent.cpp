// LSTM, GRU and RNN, one direction: the inputs of all steps in one product, then step by step.
#include <algorithm>
#include <cstring>
#include <string>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/division.hpp"
#include "kernels/factories.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
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

struct RecurrentKernel : Kernel {
    Kind kind;
    RecurrentBlock block{};
    int64_t inputs, sequences, tasks, columns, input_panels;
    double bytes, input_bytes;
    ScratchLayout shared, each;
    ScratchArray<float> ready, input_weights, panels, sums;

    RecurrentKernel(const std::string& cell, int64_t steps, int64_t batch, int64_t width, int64_t size, bool backwards,
                    int64_t row_step)
        : kind(kind_of(cell)), inputs(width), sequences(batch) {
        name = kName;
        arity = 10;
        for (const int64_t number : {steps, batch, width, row_step})
            check_number(kName, "sizes", number, 0, kMostElements);
        check_number(kName, "size", size, 1, kMostSize);
        block.cell = kind.cell;
        block.steps = steps;
        block.size = size;
        block.backwards = backwards;
        columns = checked_product(kName, {size, kind.gates + kind.late});
        input_panels = ceil_div(columns, kPanel);
        block.ready_pitch = input_panels * kPanel;
        block.ready_step = checked_product(kName, {batch, block.ready_pitch});
        checked_product(kName, {std::max(block.ready_step, row_step), std::max<int64_t>(steps, 1)});
        checked_product(kName, {std::max<int64_t>(steps, 1), batch, width});
        block.row_step = row_step;
        block.panels = ceil_div(kind.gates * size, kPanel);
        block.late_panels = ceil_div(kind.late * size, kPanel);
        const int64_t all = (block.panels + block.late_panels) * kPanel;
        const double rows = static_cast<double>(steps) * static_cast<double>(batch);
        bytes = static_cast<double>(all) * static_cast<double>(size) * rows;
        input_bytes = static_cast<double>(block.ready_pitch) * static_cast<double>(width) * rows;
        // few sequences are spread over the threads, many go together
        tasks = ceil_div(batch, kSequences);
        sums = each.add<float>(checked_product(kName, {kSequences, all + 2 * size}));
        panels = shared.add<float>(checked_product(kName, {all, size}));
        input_weights = shared.add<float>(checked_product(kName, {block.ready_pitch, width}));
        ready = shared.add<float>(checked_product(kName, {steps, block.ready_step}));
    }

    // `count` rows, as columns of panels; the last columns are zeros.
    static void pack(const float* rows, int64_t count, int64_t depth, float* to) {
        for (int64_t first = 0; first < count; first += kPanel, to += kPanel * depth) {
            const int64_t filled = std::min(kPanel, count - first);
            for (int64_t begin = 0; begin < depth; begin += kBlock) {
                const int64_t end = std::min(depth, begin + kBlock);
                for (int64_t j = 0; j < filled; ++j) {
                    const float* from = rows + (first + j) * depth;
                    for (int64_t k = begin; k < end; ++k) to[k * kPanel + j] = from[k];
                }
                for (int64_t k = begin; k < end; ++k) std::fill(to + k * kPanel + filled, to + (k + 1) * kPanel, 0.0f);
            }
        }
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
        float* const packed = panels.in(scratch.shared());
        float* const late = packed + block.panels * kPanel * size;
        float* const input_packed = input_weights.in(scratch.shared());
        float* const given = ready.in(scratch.shared());
        pack(floats(kWeights), kind.gates * size, size, packed);
        pack(floats(kWeights) + kind.gates * size * size, kind.late * size, size, late);
        pack(floats(kInputWeights), columns, inputs, input_packed);
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
                one.weights = packed;
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

}  // namespace

std::shared_ptr<Kernel> make_recurrent(const std::string& cell, int64_t steps, int64_t batch, int64_t width,
                                       int64_t size, bool backwards, int64_t row_step) {
    return std::make_shared<RecurrentKernel>(cell, steps, batch, width, size, backwards, row_step);
}

}  // namespace dgo
