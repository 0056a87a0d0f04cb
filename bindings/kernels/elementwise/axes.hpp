// The axes of tensors of one shape, some of them stretched, merged to as few as possible.
#pragma once

#include <cstdint>
#include <vector>

namespace dgo {

// An axis of all tensors; strides: dst first.
struct ElementwiseAxis {
    int64_t size;
    std::vector<int64_t> strides;
};

// Returns the axes in the order of dst, outermost first, merged with their neighbours where all tensors allow it.
std::vector<ElementwiseAxis> merged_axes(const std::vector<int64_t>& shape,
                                         const std::vector<std::vector<int64_t>>& strides);

// The finest axis as rows, and the place of each row in every tensor.
struct ElementwiseRows {
    std::vector<ElementwiseAxis> outer;
    ElementwiseAxis row;
    int64_t rows = 1, elements;

    // Throws where there are more elements than a tensor can have.
    ElementwiseRows(const char* kernel, const std::vector<int64_t>& shape,
                    const std::vector<std::vector<int64_t>>& strides);

    // Adds to each tensor's place the elements up to a row.
    void add_offsets(int64_t number, int64_t* offsets) const;
    // Returns the number of rows.
    int64_t tasks() const { return row.size == 0 ? 0 : rows; }
};

}  // namespace dgo
