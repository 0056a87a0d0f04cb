// Tensors of one shape, some of them stretched, by as few axes as there are.
#pragma once

#include <cstdint>
#include <vector>

namespace dgo {

// An axis of all tensors; strides: dst first.
struct ChainAxis {
    int64_t size;
    std::vector<int64_t> strides;
};

// The axes in the order of dst, outermost first, neighbours merged where all tensors allow it.
std::vector<ChainAxis> merged_axes(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides);

}  // namespace dgo
