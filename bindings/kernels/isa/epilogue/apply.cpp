#include "kernels/isa/epilogue/apply.hpp"

#include "kernels/isa/vector/convert.hpp"
#include "kernels/isa/table.hpp"
#include "kernels/isa/epilogue/execute.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kMostRows = 32, kMostFloats = 1024;  // rows and floats of a part of a tile

// A part of a tile that is small enough for temporaries on the stack.
struct Part {
    const EpilogueParams& params;
    const char* const* operands;
    const int64_t* offsets;  // offset of column 0
    int64_t rows, columns, column, channel;
    bool crossing;  // a row is many pixels

    // Memory for operands that are not read in place: both sides of a step may need it.
    struct Side {
        alignas(64) float values[kMostFloats];
        const float* rows[kMostRows];
    };

    int64_t pitch() const { return round_up(columns, kLanes); }
    int64_t offset(int64_t row) const { return offsets[row] + column; }
    int64_t item(const EpilogueOperand& operand) const { return operand.type == ElementType::f32 ? 4 : 2; }

    EpilogueSource source(int64_t number, Side& side) const {
        const EpilogueOperand& operand = params.operands[number];
        const char* const base = operands[number];
        switch (operand.spread) {
            case EpilogueSpread::one: splat(operand, base, side.values); break;
            case EpilogueSpread::channel: side.rows[0] = reinterpret_cast<const float*>(base) + channel; break;
            case EpilogueSpread::image_channel:
                for (int64_t r = 0; r < rows; ++r) {
                    const int64_t image = offset(r) / params.image_pitch;
                    side.rows[r] =
                        reinterpret_cast<const float*>(base) + image * (params.channels + kEpilogueRepeat) + channel;
                }
                return {side.rows, 1, 1};
            case EpilogueSpread::full:
                for (int64_t r = 0; r < rows; ++r) {
                    const char* const at = base + offset(r) * item(operand);
                    if (operand.type == ElementType::f32) {
                        side.rows[r] = reinterpret_cast<const float*>(at);
                    } else {
                        float* const values = side.values + r * pitch();
                        widen(operand.type, at, columns, values);
                        side.rows[r] = values;
                    }
                }
                return {side.rows, 1, 1};
            case EpilogueSpread::pixel:
                for (int64_t r = 0; r < rows; ++r) pixels(operand, base, r, side.values + r * pitch(), side.rows[r]);
                return {side.rows, 1, crossing};
        }
        if (operand.spread == EpilogueSpread::one) side.rows[0] = side.values;
        return {side.rows, 0, operand.spread == EpilogueSpread::channel};
    }

    void splat(const EpilogueOperand& operand, const char* at, float* to) const {
        float value;
        widen(operand.type, at, 1, &value);
        store_bytes(to, value - Lanes{});
    }

    void pixels(const EpilogueOperand& operand, const char* base, int64_t row, float* values,
                const float*& place) const {
        place = values;
        const int64_t first = offset(row) / params.pixel_pitch;
        if (!crossing) return splat(operand, base + first * item(operand), values);
        int64_t c = channel;
        for (int64_t i = 0, pixel = first; i < columns; ++pixel, c = 0) {
            float value;
            widen(operand.type, base + pixel * item(operand), 1, &value);
            for (; c < params.channels && i < columns; ++c, ++i) values[i] = value;
        }
    }
};

void run(const Part& part, float* const* written) {
    const EpilogueParams& params = part.params;
    alignas(64) float memory[(kEpilogueRegisters - 1) * kMostFloats];
    float* registers[kEpilogueRegisters - 1][kMostRows];
    Part::Side sides[2];
    int made = 0;
    for (const EpilogueStep *step = params.steps, *end = step + params.count; step != end; ++step) {
        for (; made < step->to; ++made) {
            for (int64_t r = 0; r < part.rows; ++r) {
                registers[made][r] = memory + made * kMostFloats + r * part.pitch();
            }
        }
        const auto rows_of = [&](int64_t number) { return number == 0 ? written : registers[number - 1]; };
        const auto source = [&](int64_t number, Part::Side& side) {
            if (number >= kEpilogueOperands) return part.source(number - kEpilogueOperands, side);
            return EpilogueSource{rows_of(number), 1, 1};
        };
        execute(*step, source(step->left, sides[0]), source(step->right, sides[1]), rows_of(step->to), part.rows,
                part.columns);
    }
}

}  // namespace

void apply_epilogue(const EpilogueParams& params, const char* const* operands, const EpilogueTile& tile) {
    if (params.count == 0) return;
    const bool crossing = tile.channel + tile.columns > params.channels;
    const int64_t most = crossing && params.by_channel ? kEpilogueRepeat : kMostFloats;
    for (int64_t column = 0, columns; column < tile.columns; column += columns) {
        columns = smaller(tile.columns - column, most);
        int64_t channel = tile.channel + column;
        if (crossing) channel %= params.channels;
        const int64_t together = smaller(kMostFloats / round_up(columns, kLanes), kMostRows);
        for (int64_t row = 0; row < tile.count; row += together) {
            const int64_t rows = smaller(tile.count - row, together);
            float* shifted[kMostRows];
            for (int64_t r = 0; r < rows; ++r) shifted[r] = tile.rows[row + r] + column;
            run({params, operands, tile.offsets + row, rows, columns, column, channel, crossing}, shifted);
        }
    }
}

const EpilogueCode kEpilogueCode = {apply_epilogue};

}  // namespace dgo::DGO_ISA
