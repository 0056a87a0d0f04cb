// Dgrad and fprop with tiles of f32 or bf16, and the packing of their weights.
#pragma once

#include <memory>

#include "kernels/kernel.hpp"
#include "kernels/product/problem.hpp"

namespace dgo {

class Epilogue;
struct Dot;
struct Joined;

// Dgrad or fprop; dot: a set that multiplies bf16, by which tiles of several results are multiplied, or null.
std::unique_ptr<ScratchKernel> filter_product(const Joined& joined, FilterDirection direction, int bias_dtype,
                                              int threads, const Epilogue& epilogue, const Dot* dot);
// The packing of its weights, of any dtype; dot: for products of bf16.
std::unique_ptr<Kernel> filter_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, bool dot);

// Whether dgrad or fprop is computed in strips: rows of src that nothing is looked up for.
bool filter_in_strips(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
                      const FilterTensor& dst);

}  // namespace dgo
