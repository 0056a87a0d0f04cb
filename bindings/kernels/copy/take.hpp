// Rows of a tensor by their places.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// src (outer, sizes..., inner), places (outer or 1, rows, as many as there are sizes), dst (outer, rows, inner), all in a
// row: dst[o, r] = src[o, places[o, r]]. Elements of src have `item` bytes, places `index` of 4 or 8; those below 0 count
// from the end. What lies outside is an error.
struct TakeProblem {
    int64_t outer;
    std::vector<int64_t> sizes;
    int64_t inner, rows, item, index;
    bool batched;  // places for each of outer
};

std::shared_ptr<Kernel> make_take(const TakeProblem& problem);

}  // namespace dgo
