// Axes of tensors of one shape, joined to as few as possible.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace dgo {

// An axis of all tensors. Strides: a vector or an array.
template <class Strides>
struct StridedAxis {
    int64_t size;
    Strides strides;
};
template <class Strides>
using StridedAxes = std::vector<StridedAxis<Strides>>;
template <size_t Tensors>
using AxesOf = StridedAxes<std::array<int64_t, Tensors>>;

// Appends an axis, or joins it with the last one where the two are one axis in every tensor.
template <class Strides>
void join(StridedAxes<Strides>& axes, const StridedAxis<Strides>& axis) {
    bool joins = !axes.empty();
    for (size_t i = 0; joins && i < axis.strides.size(); ++i) {
        joins = axes.back().strides[i] == axis.strides[i] * axis.size;
    }
    if (joins) {
        axes.back() = {axes.back().size * axis.size, axis.strides};
    } else {
        axes.push_back(axis);
    }
}

// Returns the axes from the slowest to the fastest of the first tensor, joined.
template <class Strides>
StridedAxes<Strides> joined(StridedAxes<Strides> axes) {
    std::stable_sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.strides > b.strides; });
    StridedAxes<Strides> all;
    for (const StridedAxis<Strides>& axis : axes) join(all, axis);
    return all;
}

// Removes the last axis and returns it, or `otherwise` where there is none.
template <class Strides>
StridedAxis<Strides> take_last(StridedAxes<Strides>& axes, const StridedAxis<Strides>& otherwise) {
    if (axes.empty()) return otherwise;
    const StridedAxis<Strides> axis = axes.back();
    axes.pop_back();
    return axis;
}

// Adds the place of element `number`, in row-major order, to the offset in each tensor; returns the number of such
// elements before.
template <class Strides, class Offsets>
int64_t add_offsets(const StridedAxes<Strides>& axes, int64_t number, Offsets& offsets) {
    for (size_t axis = axes.size(); axis-- > 0; number /= axes[axis].size) {
        const int64_t place = number % axes[axis].size;
        for (size_t i = 0; i < axes[axis].strides.size(); ++i) offsets[i] += place * axes[axis].strides[i];
    }
    return number;
}

}  // namespace dgo
