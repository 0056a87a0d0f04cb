// The largest or smallest elements along an axis, in their order.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel.hpp"

namespace dgo {

// src (outer, length, inner), [values, f32,] places, s64 (outer, count, inner), all in a row: of equal ones the first;
// NaN counts as the largest.
std::shared_ptr<Kernel> make_top(int64_t outer, int64_t length, int64_t inner, int64_t count, bool largest,
                                 bool has_values);

}  // namespace dgo
