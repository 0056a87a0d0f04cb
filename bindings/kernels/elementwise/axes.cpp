#include "kernels/elementwise/axes.hpp"

#include "kernels/checked.hpp"

namespace dgo {

StridedAxes<Dims> merged_axes(const Dims& shape, const std::vector<Dims>& strides) {
    StridedAxes<Dims> axes;
    for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 1) continue;
        axes.push_back({shape[i], {}});
        for (const Dims& of : strides) axes.back().strides.push_back(of[i]);
    }
    return joined(std::move(axes));
}

ElementwiseRows::ElementwiseRows(const char* kernel, const Dims& shape, const std::vector<Dims>& strides)
    : outer(merged_axes(shape, strides)), row(take_last(outer, {1, Dims(strides.size(), 0)})) {
    for (const StridedAxis<Dims>& axis : outer) rows = checked_product(kernel, {rows, axis.size});
    elements = checked_product(kernel, {rows, row.size});
}

}  // namespace dgo
