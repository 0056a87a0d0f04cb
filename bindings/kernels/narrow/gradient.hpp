// Backward weights of a transposed convolution by narrow products: src and diff_dst in bf16, sums in f32.
#pragma once

#include <memory>
#include <string>

#include "kernels/filtering/filter_product.hpp"

namespace dgo {

// Operands: src, diff_dst, scratch, diff_weights (f32 or bf16). Channels are contiguous; isa: see narrow_code_of;
// threads 0: as many as OpenMP gives. The same sums for the same number of threads.
std::unique_ptr<ScratchKernel> narrow_backward_weights(const FilterProblem& problem, const FilterTensor& src,
                                                       const FilterTensor& diff_dst, const FilterWeights& diff_weights,
                                                       int threads, const std::string& isa);

}  // namespace dgo
