// Elements taken from and put to places that tensors of indices tell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// Rows of data (outer, *sizes, row), all in a row, of elements of `item` bytes. An index counts from the end of its axis
// where it is negative; outside of it, it is an error.
struct PlacesProblem {
    int64_t outer;
    std::vector<int64_t> sizes;
    int64_t row, item, count;
    int64_t index_item;  // bytes of an index, 4 or 8
    // indices (outer, count, row) on a single axis, one for each element; else (count, axes)
    bool each;
};

// data, indices, one for each element, dst (outer, count, row)
std::shared_ptr<Kernel> make_pick(const PlacesProblem& problem);

// data, indices, updates (outer, count, row), dst: a copy of data with the updates in the place of rows, or combined with
// them one after the other. how: "none" of any item, or of f32 "add", "mul", "max" or "min", the last two NaN of any NaN.
std::shared_ptr<Kernel> make_put(const PlacesProblem& problem, const std::string& how);

}  // namespace dgo
