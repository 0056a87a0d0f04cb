// Element-wise ops on numbers and truth values as they are, one at a time: what chains of floats are not for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// Operands: one or two sources of `src_dtype`, dst. Strides, in elements, of each of them in this order: 0 where it is
// stretched.
//  add, subtract, multiply, maximum, minimum: s32 or s64, which overflow as they do in NumPy
//  equal, greater, greater_equal, less, less_equal: f32, s32, s64, s8, u8 or boolean to boolean
//  and, or, xor, not: boolean; is_nan: f32 to boolean
//  cast: any two of these types but f32 to s8 or u8; what no integer holds is the least one
std::shared_ptr<Kernel> make_plain(const std::string& op, const std::vector<int64_t>& shape,
                                   const std::vector<std::vector<int64_t>>& strides, int src_dtype, int dst_dtype);

}  // namespace dgo
