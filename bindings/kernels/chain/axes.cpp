#include "kernels/chain/axes.hpp"

#include <algorithm>

namespace dgo {

std::vector<ChainAxis> merged_axes(const std::vector<int64_t>& shape,
                                   const std::vector<std::vector<int64_t>>& strides) {
    std::vector<ChainAxis> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1) continue;
        ChainAxis axis{shape[i], {}};
        for (const std::vector<int64_t>& of : strides) axis.strides.push_back(of[i]);
        axes.push_back(axis);
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [](const ChainAxis& a, const ChainAxis& b) { return a.strides[0] > b.strides[0]; });
    std::vector<ChainAxis> merged;
    for (const ChainAxis& axis : axes) {
        bool joins = !merged.empty();
        for (size_t i = 0; joins && i < strides.size(); ++i) {
            joins = merged.back().strides[i] == axis.strides[i] * axis.size;
        }
        if (joins) {
            merged.back() = {merged.back().size * axis.size, axis.strides};
        } else {
            merged.push_back(axis);
        }
    }
    return merged;
}

}  // namespace dgo
