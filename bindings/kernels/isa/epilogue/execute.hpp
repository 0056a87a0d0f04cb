// One step of a program on rows of f32.
#pragma once

#include "kernels/isa/vector/integer.hpp"
#include "kernels/epilogue/vtable.hpp"

namespace dgo::DGO_ISA {

// The value of row r and column c is rows[r * row_step][c * lane_step]; the steps are 0 or 1. Where lane_step is 0, a row is a
// vector whose lanes all hold its value.
struct EpilogueSource {
    const float* const* rows;
    int64_t row_step, lane_step;
};

// to[r][c] = the step's op of left and right, which may be the same place.
void execute(const EpilogueStep& step, const EpilogueSource& left, const EpilogueSource& right, float* const* to,
             int64_t rows, int64_t columns);

}  // namespace dgo::DGO_ISA
