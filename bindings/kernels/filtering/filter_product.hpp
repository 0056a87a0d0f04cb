// Dgrad and fprop with tiles of f32 or bf16, and the packing of their weights.
#pragma once

#include <memory>

#include "kernels/kernel.hpp"
#include "kernels/product/problem.hpp"

namespace dgo {

class Epilogue;
struct Dot;
struct Joined;

// Returns the kernel of dgrad or fprop. dot: the set that multiplies tiles of several results in bf16, or null for f32.
std::unique_ptr<ScratchKernel> filter_product(const Joined& joined, FilterDirection direction, int bias_dtype,
                                              int threads, const Epilogue& epilogue, const Dot* dot);
// Returns the kernel that packs weights of any dtype for filter_product. dot: for products of bf16.
std::unique_ptr<Kernel> filter_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, bool dot);

// Whether dgrad or fprop is computed in strips of rows a step apart, without looking up addresses.
bool filter_in_strips(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
                      const FilterTensor& dst);

}  // namespace dgo
