// Makers of kernels. Data types are numbers of dnnl_data_type_t, strides count elements; bad arguments raise
// NativeError. The comment of each names the operands of run().
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "kernel.hpp"

namespace dgo {

using Dims = std::vector<int64_t>;

// src, dst
std::shared_ptr<Kernel> make_copy(const Dims& shape, int src_dtype, const Dims& src_strides, int dst_dtype,
                                  const Dims& dst_strides);

// dst
std::shared_ptr<Kernel> make_fill(const Dims& shape, int dtype, const Dims& strides, double value);

// bias, dst: dst[...] = bias[index on `axis`]
std::shared_ptr<Kernel> make_fill_channel(const Dims& shape, int dtype, const Dims& dst_strides, int axis,
                                          int bias_dtype);

// shape, source offset, source strides, destination offset, destination strides
using CopyItem = std::tuple<Dims, int64_t, Dims, int64_t, Dims>;

// src, dst: dst[0:zero_elements] = 0, then every item in order
std::shared_ptr<Kernel> make_copy_list(const std::vector<CopyItem>& items, int src_dtype, int dst_dtype,
                                       int64_t zero_elements);

}  // namespace dgo
