// What the stem kernel asks of the vector code.
#pragma once

#include <cstdint>

#include "kernels/cell.hpp"

namespace dgo {

// A value of the image times a panel's weights: from where position 0 has its first value, and the panel its weights.
struct StemStep {
    int32_t source, weights;
};

// Neighbouring results of a row: of position q and channel m, bias[m] + the sum over the steps of
// source[step.source + q * advance] * panel[step.weights + m % panel's channels].
struct StemRow {
    int64_t count, channels;
    const StemStep *steps, *steps_end;
    const float* source;
    int64_t advance;
    const float* weights;
    int64_t panel;      // floats from one packed panel to the next
    const float* bias;  // of whole panels
    Cell cell;          // of the results
    char* to;
    int64_t to_step;  // elements from one position to the next
    bool vast;        // f32 written past the caches, from an address and with a step that are whole vectors
};

struct StemCode {
    int64_t panel;      // channels of a packed panel
    int64_t alignment;  // bytes, of results that are vast
    void (*run)(const StemRow& row);
};

}  // namespace dgo
