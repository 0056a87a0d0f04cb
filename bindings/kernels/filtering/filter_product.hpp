// The packing of weights for dgrad and fprop with tiles of f32 or bf16.
#pragma once

#include <memory>

#include "kernels/kernel.hpp"
#include "kernels/product/problem.hpp"

namespace dgo {

// Returns the kernel that packs weights of any dtype. dot: for products of bf16.
std::unique_ptr<Kernel> filter_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, bool dot);

}  // namespace dgo
