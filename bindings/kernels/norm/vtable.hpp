// The vector code of norms and softmax: a table of functions for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"
#include "kernels/epilogue/vtable.hpp"
#include "kernels/quotient.hpp"

namespace dgo {

constexpr int64_t kNormColumns = 64;  // columns that become integers at once, at most

// A block of rows of neighbouring values, `pitch` elements apart. Values of s8 are read as u8, 128 more.
struct NormRows {
    ElementType type;
    const char* at;
    int64_t rows, width, pitch;
};

// Column sums of a block of rows: a center near the mean, sum(x - center) and sum((x - center)^2). Three contiguous arrays of
// `width` floats.
struct NormSums {
    float *center, *sum, *squares;

    NormSums(float* memory, int64_t width) : center(memory), sum(memory + width), squares(memory + 2 * width) {}
};

// to[i, j] = (from[i, j] - mean[j]) * scale[j] + shift[j], and post-ops, if there are any: `offset` is that of the first
// element in dst, whose column is channel 0. Vectors are readable up to a multiple of kNormColumns.
struct NormAffine {
    NormRows from;
    ElementType type;
    char* to;
    int64_t pitch;
    const float *mean, *scale, *shift;
    const EpilogueParams* epilogue;
    const char* const* operands;
    int64_t offset;
    float* scratch;  // norm_scratch(width) floats
    const Quotient* quotient;  // how results become integers, from a `from` of integers; null: they are floats
};

// Softmax over an axis of `length` elements, `columns` times side by side; columns 0: over neighbours. Steps count
// elements.
struct SoftmaxBlock {
    ElementType src_type, dst_type;
    const char* src;
    char* dst;
    int64_t length, src_step, dst_step, columns;
    int64_t src_column, dst_column;  // elements between columns
    bool log;
    float* scratch;  // `length` floats for each column, twice where a column's step is not 1
};

// The gradient of softmax over an axis of `length` elements, `step` apart, for `columns` neighbours. A step of 1: along
// neighbours, for `rows` rows next to each other.
struct SoftmaxGradientBlock {
    ElementType type;
    const char *diff, *dst;
    char* to;
    int64_t length, step, columns, rows;
    bool log;
};

// to[i, j] = d[i, j] * scale[j] / sqrt(mean of d[i, :]^2 + epsilon) + shift[j]; d: from, less its row's mean if
// `centered`. scale null: ones, shift null: zeros.
struct RowNorm {
    NormRows from;
    ElementType type;
    char* to;
    int64_t pitch;
    const float *scale, *shift;
    float epsilon;
    bool centered;
};

struct NormCode {
    void (*sums)(const NormRows& rows, const NormSums& to);
    // total[j] += the sum of column j over the `rows` rows of a block
    void (*add_totals)(const NormSums& block, int64_t rows, int64_t width, double* total);
    // total[j] += the squares of column j's distances from mean[j]
    void (*add_squares)(const NormSums& block, int64_t rows, int64_t width, const double* mean, double* total);
    void (*affine)(const NormAffine& block);
    // Returns the scratch floats of post-ops on rows of this width.
    int64_t (*scratch)(int64_t width);
    void (*softmax)(const SoftmaxBlock& block);
    void (*softmax_gradient)(const SoftmaxGradientBlock& block);
    void (*row_norm)(const RowNorm& block);
};

}  // namespace dgo
