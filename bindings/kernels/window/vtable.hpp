// The vector code of pooling, reductions and resampling: a table of functions for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"
#include "kernels/quotient.hpp"
#include "kernels/window/fold.hpp"

namespace dgo {

// The result of an integer that is a sum or a maximum: (integer - zero) * scale / divisor in f64, as f32, or as the
// nearest integer of 8 bits, ties to even, to which to_zero is added. `factor`, if not 0: the product in f32 of it and
// (integer - zero) gives the same results.
struct Rescale {
    double scale, divisor;
    int64_t zero, to_zero;
    float factor;
};

// `outputs` results at equal distances, each over all channels: the taps of all rows, folded. Steps count elements.
// Integers, of 8 bits or s32, give sums and maxima: as s32, or rescaled.
struct FoldRun {
    Fold fold;
    ElementType from, to;
    int64_t channels, outputs;
    const char* const* rows;  // the first tap of output 0
    int64_t row_count, taps;
    int64_t tap_step, advance;  // elements between taps; between outputs
    char* dst;
    int64_t dst_step;
    float divisor;  // sums of floats are divided by it
    bool root;      // the results are square roots of sums of floats
    Rescale rescale;
};

// Each row of `count` neighbours becomes one number, divided or under a root as in FoldRun, or s32 of integers; `pitch`
// elements from one row to the next.
struct RowFold {
    Fold fold;
    ElementType from;
    const char* src;
    int64_t count, rows, pitch;
    float* dst;
    float divisor;
    bool root;
};

// The sum over the rows of weight * row, in f32: `outputs` times all channels. An integer stands for (it - zero) * scale.
struct MixRun {
    ElementType from;
    int64_t channels, outputs;
    const char* const* rows;
    const float* weights;
    int64_t row_count, step;
    float* dst;
    int64_t dst_step;
    float zero, scale;
};

// For each of `outputs` windows the first largest tap, or the last NaN: the element of `to` at its place grows by the
// element of diff. Steps count elements.
struct PeakRun {
    ElementType type;
    int64_t channels, outputs;
    const char* src;
    const char* diff;
    float* to;
    const int64_t *src_taps, *to_taps;  // offsets of the taps
    int64_t taps;
    int64_t src_step, diff_step, to_step;  // elements between outputs
};

// One place between two sources, by elements from the first one of a row. Where `part` is 0, `right` is not read.
struct LinearTap {
    int64_t left, right;
    float part;  // the weight of `right`
};

// Mixes integers as MixRun does.
struct LinearRun {
    ElementType from, to;
    int64_t channels, outputs;
    const char* src;
    const LinearTap* taps;
    char* dst;
    int64_t dst_step;  // elements
    float zero, scale;
};

// Rows of floats become integers, u8 or s8. Up to 31 floats past the last are read.
struct RoundRun {
    ElementType to;
    int64_t count, rows;
    const float* src;
    int64_t src_step;
    char* dst;
    int64_t dst_step;
    Quotient by;
};

// `outputs` pixels of so many bytes, each from its offset in the source.
struct MoveRun {
    int64_t bytes, outputs;
    const char* src;
    const int64_t* offsets;  // bytes
    char* dst;
    int64_t dst_step;  // bytes
};

struct WindowCode {
    void (*fold)(const FoldRun& run);
    // Folds all numbers of rows of `count` neighbours to f32, or to s32 for integers.
    void (*fold_row)(Fold fold, ElementType from, const char* const* rows, int64_t row_count, int64_t count, char* to);
    void (*fold_rows)(const RowFold& rows);
    void (*mix)(const MixRun& run);
    void (*peak)(const PeakRun& run);
    void (*linear)(const LinearRun& run);
    void (*move)(const MoveRun& run);
    void (*round)(const RoundRun& run);
};

}  // namespace dgo
