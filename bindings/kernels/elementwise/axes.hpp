// Tensors of one shape, some of them stretched, by as few axes as there are.
#pragma once

#include <cstdint>
#include <vector>

namespace dgo {

// An axis of all tensors; strides: dst first.
struct ElementwiseAxis {
    int64_t size;
    std::vector<int64_t> strides;
};

// The axes in the order of dst, outermost first, neighbours merged where all tensors allow it.
std::vector<ElementwiseAxis> merged_axes(const std::vector<int64_t>& shape,
                                         const std::vector<std::vector<int64_t>>& strides);

// The finest of them as rows, and where each of these begins.
struct ElementwiseRows {
    std::vector<ElementwiseAxis> outer;
    ElementwiseAxis row;
    int64_t rows = 1, elements;

    // Throws where there are more elements than a tensor can have.
    ElementwiseRows(const char* kernel, const std::vector<int64_t>& shape,
                    const std::vector<std::vector<int64_t>>& strides);

    // To each tensor's place the elements up to a row.
    void add_offsets(int64_t number, int64_t* offsets) const;
    // How many rows are to be computed.
    int64_t tasks() const { return row.size == 0 ? 0 : rows; }
};

}  // namespace dgo
