// How wgrad shares out its work.
#pragma once

#include "kernels/product/axis.hpp"
#include "kernels/isa.hpp"

namespace dgo {

// All but what only the weights tell; `layout`, fprop_layout(problem), must outlive it. `of`: the vector code it is
// for.
GradientParams gradient_params(const FilterProblem& problem, const FilterTensor& src, const FilterTensor& diff,
                               const FilterLayout& layout, int threads, const VectorCode& of);

}  // namespace dgo
