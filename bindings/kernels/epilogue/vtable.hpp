// Post-ops as kernels apply them: a short program on f32 values that are about to be written.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"

namespace dgo {

// A function of x (`left`) and, for ops of two operands, y (`right`).
enum class EpilogueOp : uint8_t {
#define UNARY(name, ...) name,
#define BINARY UNARY
#define OTHER UNARY
#include "kernels/epilogue/ops.inc"
#undef UNARY
#undef BINARY
#undef OTHER
};

// The spread of an operand over dst.
enum class EpilogueSpread : uint8_t {
    one,            // a single element
    channel,        // f32, one for each channel
    full,           // an element for each of dst, with dst's strides
    image_channel,  // f32, one for each image and channel: vectors as of `channel`, one after the other
    pixel,          // one for each position of all images: strides are dst's divided by the pixel pitch
};

constexpr int kEpilogueRegisters = 8;
constexpr int kEpilogueOperands = 64;  // numbers from here on are operands
// Elements after the last channel of vectors of channels, which begin again with the first one: rows that are many
// pixels of few channels start at any channel.
constexpr int64_t kEpilogueRepeat = 512;

// to = op(left, right). Registers: 0 is the value that is written; the others are empty at first.
struct EpilogueStep {
    EpilogueOp op;
    int16_t left, right, to;
    float alpha, beta;
};

struct EpilogueOperand {
    EpilogueSpread spread;
    ElementType type;  // f32, bf16 or f16
};

// The channel stride of dst is 1; its other strides are multiples of the pixel pitch, that of the images is the largest.
struct EpilogueParams {
    const EpilogueStep* steps;
    int64_t count;  // no steps: nothing is done
    const EpilogueOperand* operands;
    int64_t channels, pixel_pitch, image_pitch;
    bool by_channel;  // an operand has an element for each channel
};

// A post-op on results that are still in registers.
struct FusedActivation {
    enum class As : uint8_t { it_is, relu, clamp, hardswish, leaky_relu };
    As as;
    float alpha, beta;
};

// Rows of `columns` values in f32 in any memory. A row stays within a pixel, or the pixel pitch is the number of
// channels and it stays within an image.
struct EpilogueTile {
    float* const* rows;
    const int64_t* offsets;  // elements of dst from its first one to that of each row
    int64_t count, columns;
    int64_t channel;  // the channel of column 0
};

struct EpilogueCode {
    void (*apply)(const EpilogueParams& params, const char* const* operands, const EpilogueTile& tile);
};

}  // namespace dgo
