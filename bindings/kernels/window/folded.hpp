// The sum, the larger or the smaller of two numbers, by name.
#pragma once

#include "kernels/window/fold.hpp"

namespace dgo {

// Returns NaN if either number is NaN.
template <Fold kFold>
float folded(float all, float next) {
    if (kFold == Fold::sum) return all + next;
    if (kFold == Fold::max) return all > next || all != all ? all : next;
    return all < next || all != all ? all : next;
}

}  // namespace dgo
