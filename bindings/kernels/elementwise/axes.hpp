// The axes of tensors of one shape, some of them stretched, merged to as few as possible.
#pragma once

#include "kernels/axes.hpp"
#include "kernels/kernel.hpp"

namespace dgo {

// Returns the axes of tensors with these strides, dst first, in the order of dst, outermost first, joined.
StridedAxes<Dims> merged_axes(const Dims& shape, const std::vector<Dims>& strides);

// The finest axis as rows, and the place of each row in every tensor.
struct ElementwiseRows {
    StridedAxes<Dims> outer;
    StridedAxis<Dims> row;
    int64_t rows = 1, elements;

    // Throws where there are more elements than a tensor can have.
    ElementwiseRows(const char* kernel, const Dims& shape, const std::vector<Dims>& strides);

    // Adds to each tensor's place the elements up to a row.
    void add_offsets(int64_t number, int64_t* offsets) const { dgo::add_offsets(outer, number, offsets); }
    // Returns the number of rows.
    int64_t tasks() const { return row.size == 0 ? 0 : rows; }
};

}  // namespace dgo
