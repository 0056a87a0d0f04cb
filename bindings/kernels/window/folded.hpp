// Two numbers become one.
#pragma once

#include "kernels/window/fold.hpp"

namespace dgo {

template <Fold kFold>
float folded(float all, float next) {
    if (kFold == Fold::sum) return all + next;
    // a NaN stays
    if (kFold == Fold::max) return all > next || all != all ? all : next;
    return all < next || all != all ? all : next;
}

}  // namespace dgo
