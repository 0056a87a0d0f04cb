// What the stem kernel asks of the vector code.
#pragma once

#include <cstdint>

#include "kernels/cell.hpp"

namespace dgo {

// Neighbouring results of a row: of position q and channel m, bias[m] + the sum over segments s and steps k < length of
// source[s][q * step + k] * weights[m / panel][first[s] + k][m % panel].
struct StemRow {
    int64_t count, channels;
    int64_t segments, length;
    const float* const* source;
    const int64_t* first;
    int64_t step;
    const float* weights;
    int64_t depth;      // steps of the whole kernel
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
