// Elements of one of two tensors, as a third says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// Operands: cond, in bytes; src_0 where it is not 0, else src_1; dst. Strides, in elements of `item` bytes (1, 2, 4 or 8), of
// each operand in this order: 0 where it is stretched.
std::shared_ptr<Kernel> make_select(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides,
                                    int64_t item);

}  // namespace dgo
