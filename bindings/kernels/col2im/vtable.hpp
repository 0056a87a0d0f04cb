// The parameters of col2im_product.cpp's vector code: plain data.
#pragma once

#include <cstdint>

#include "kernels/element_type.hpp"
#include "kernels/product/problem.hpp"
#include "kernels/epilogue/call.hpp"

namespace dgo {

// One side of the layer. Strides in elements.
struct Col2imImage {
    ElementType type;
    int64_t item, channels, batch_stride;
    Axes size, strides;
};

// A task writes a block of the lines of dst (axis 1) at one position of axis 0, of each those `runs` that as many
// positions of src begin. Columns are the products of a position of src with the taps of one position of axis 0.
struct Col2imParams {
    Col2imImage src, dst;
    ElementType bias_type;
    bool has_bias, vast;
    Axes kernel, stride, pad, dilation;
    int64_t batch;
    int64_t run;                  // elements of dst from one position of src to the next
    int64_t shifts;               // positions of src that meet in a run
    int64_t first_run, all_runs;  // the first run of a line of dst; all runs
    int64_t runs, sections;  // runs of a task; sections of a line
    int64_t blocks;  // blocks of lines: the tasks of a position of axis 0
    int64_t planes;               // positions of axis 0 that meet in a line of dst
    int64_t live, together;       // lines of src that meet in a line of dst, and that are multiplied at once
    int64_t width;                // elements from the columns of one position to those of the next
    int64_t scratch_per_thread;   // bytes
    int threads;

    // Always inline, as they belong to no instruction set.
    __attribute__((always_inline)) int64_t columns() const { return kernel[1] * kernel[2] * dst.channels; }
    __attribute__((always_inline)) int64_t positions() const { return runs + shifts - 1; }
    __attribute__((always_inline)) int64_t kept() const { return live + together - 1; }
};

struct Col2imCode {
    int64_t panel;  // columns of a packed panel
    int64_t (*scratch)(const Col2imParams& params);  // bytes per thread
    void (*run)(const Col2imParams& params, const char* src, const float* packed, const char* bias,
                EpilogueCall epilogue, char* scratch, char* dst);
};

}  // namespace dgo
