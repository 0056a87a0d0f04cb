// Tensors of a layer from lists of strides, as declarations of products take them.
#pragma once

#include <string>

#include "kernels/kernel.hpp"
#include "kernels/product/problem.hpp"

namespace dgo {

// strides: batch, then the spatial axes, whose sizes are `spatial`; name: of the argument, for errors.
FilterTensor filter_tensor(const FilterProblem& p, int dtype, const Dims& strides, const char* name,
                           const Axes& spatial);

// strides: in channel, out channel, then the taps.
FilterWeights filter_weights(const FilterProblem& p, int dtype, const Dims& strides);

FilterDirection filter_direction(const std::string& name);

// The tensors that a direction reads (src) and writes (dst).
struct FilterSides {
    FilterTensor src, dst;

    FilterSides(const FilterProblem& p, FilterDirection direction, int src_dtype, const Dims& src_strides,
                int dst_dtype, const Dims& dst_strides, const char* src_name = "src_strides");
};

}  // namespace dgo
