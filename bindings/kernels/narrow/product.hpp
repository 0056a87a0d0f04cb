// Forward and backward data of a transposed convolution as narrow products: src and weights in bf16, sums in f32, rounded
// once. The direct form of filter_product.hpp by other instructions.
#pragma once

#include <memory>
#include <string>

#include "kernels/filtering/filter_product.hpp"
#include "kernels/tail/tail.hpp"

namespace dgo {

// Elements (bf16) of the packed weights; they are packed alike for all instruction sets.
int64_t narrow_packed_size(const FilterProblem& problem, FilterDirection direction);
// As filter_packing.
std::string narrow_packing(const FilterProblem& problem, FilterDirection direction);

// `isa`: the set by its name, or empty; see narrow_code_of.
// Operands: weights, packed.
std::unique_ptr<Kernel> narrow_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, const std::string& isa);
// Operands: src (backward data: diff_dst), packed, [bias], the tail's, scratch, dst (diff_src); see filter_forward.
std::unique_ptr<ScratchKernel> narrow_product(const FilterProblem& problem, FilterDirection direction,
                                              const FilterTensor& src, const FilterTensor& dst, int bias_dtype,
                                              int threads, const Tail& tail, const std::string& isa);

}  // namespace dgo
