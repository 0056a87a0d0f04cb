// The parameters of wgrad in f32, with its work shared out.
#pragma once

#include "kernels/product/axis.hpp"
#include "kernels/isa.hpp"

namespace dgo {

// Whether wgrad of a layer of one tap computes the transposed gradient: columns that fill panels are channels of src.
bool exchanges(const FilterProblem& problem, const FilterCode& of);
// Returns the problem with src and diff_dst exchanged.
FilterProblem exchanged(FilterProblem problem);

// Returns all parameters that do not depend on the weights' strides. `layout`, fprop_layout(problem), must outlive
// them. of: the vector code that runs them.
GradientParams gradient_params(const FilterProblem& problem, const FilterTensor& src, const FilterTensor& diff,
                               const FilterLayout& layout, int threads, const VectorCode& of);

}  // namespace dgo
