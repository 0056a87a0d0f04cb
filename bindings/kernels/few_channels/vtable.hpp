// The vector code of few-channel kernels: a table of functions for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/epilogue/vtable.hpp"

namespace dgo {

// A step: a value of the image times a panel's weights. source: the offset of position 0's first value; weights: the
// offset of the panel's weights.
struct FewChannelsStep {
    int32_t source, weights;
};

// Neighbouring results of a row: of position q and channel m, bias[m] + the sum over the steps of
// source[step.source + q * advance] * panel[step.weights + m % panel's channels].
struct FewChannelsRow {
    int64_t count, channels;
    const FewChannelsStep *steps, *steps_end;
    const float* source;
    int64_t advance;
    const float* weights;
    int64_t panel;      // floats from one packed panel to the next
    const float* bias;  // f32, filled up to whole panels or to kMostPlanes
    ElementType type;  // the results' type
    char* to;
    int64_t to_step;  // elements from one position to the next
    FusedActivation activation;
    bool vast;        // f32 written past the caches, from an address and with a step that are whole vectors
    // rows under each other, in planes of channels; floats from one to the next
    int64_t lines, source_line, to_line;
};

// A row's term in the gradient of the weights: sums[step.weights + m] += the sum over positions q of
// source[step.source + q * advance] * results[q * results_step + m], for all panels of channels. Runs of `length` steps
// read neighbouring values.
struct FewChannelsGradient {
    int64_t count, channels;
    const FewChannelsStep *steps, *steps_end;
    int64_t length;
    const float* source;
    int64_t advance;
    const float* results;  // f32, whole vectors of channels side by side
    int64_t results_step;
    float* sums;
    int64_t panel;  // floats from one packed panel to the next
};

// Results whose channels lie in planes, at most; packed panels have as many channels.
constexpr int64_t kMostPlanes = 4;
// Floats behind copied rows that `planes` may read.
constexpr int64_t kPlanesSlack = 16;

struct FewChannelsCode {
    int64_t rows;  // positions of a register tile
    int64_t panel;      // channels of a packed panel
    int64_t alignment;  // bytes, of results that are vast
    void (*run)(const FewChannelsRow& row);
    void (*gradient)(const FewChannelsGradient& row);
    // A row whose `advance` is 1, by vectors of positions: f32 results to planes of channels that are to_step apart.
    void (*planes)(const FewChannelsRow& row);
};

}  // namespace dgo
