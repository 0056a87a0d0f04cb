#include "kernels/elementwise/axes.hpp"

#include <algorithm>

#include "kernels/checked.hpp"

namespace dgo {

std::vector<ElementwiseAxis> merged_axes(const std::vector<int64_t>& shape,
                                         const std::vector<std::vector<int64_t>>& strides) {
    std::vector<ElementwiseAxis> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1) continue;
        ElementwiseAxis axis{shape[i], {}};
        for (const std::vector<int64_t>& of : strides) axis.strides.push_back(of[i]);
        axes.push_back(axis);
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [](const ElementwiseAxis& a, const ElementwiseAxis& b) { return a.strides[0] > b.strides[0]; });
    std::vector<ElementwiseAxis> merged;
    for (const ElementwiseAxis& axis : axes) {
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

ElementwiseRows::ElementwiseRows(const char* kernel, const std::vector<int64_t>& shape,
                                 const std::vector<std::vector<int64_t>>& strides)
    : outer(merged_axes(shape, strides)), row{1, std::vector<int64_t>(strides.size(), 0)} {
    if (!outer.empty()) {
        row = outer.back();
        outer.pop_back();
    }
    for (const ElementwiseAxis& axis : outer) rows = checked_product(kernel, {rows, axis.size});
    elements = checked_product(kernel, {rows, row.size});
}

void ElementwiseRows::add_offsets(int64_t number, int64_t* offsets) const {
    for (size_t axis = outer.size(); axis-- > 0; number /= outer[axis].size) {
        const int64_t place = number % outer[axis].size;
        for (size_t i = 0; i < row.strides.size(); ++i) offsets[i] += place * outer[axis].strides[i];
    }
}

}  // namespace dgo
