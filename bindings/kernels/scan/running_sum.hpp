// Sums of all elements up to each one.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel.hpp"

namespace dgo {

// src, dst (outer, length, inner), f32 in a row: sums along the length, in f64 and rounded once. exclusive: without the
// element itself; reverse: from the end.
std::shared_ptr<Kernel> make_running_sum(int64_t outer, int64_t length, int64_t inner, bool exclusive, bool reverse);

}  // namespace dgo
