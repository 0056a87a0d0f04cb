// A forward transposed convolution as products that overlap: every position of src times all taps, which stay in the
// caches until they are added up, line by line of dst.
#pragma once

#include "kernels/filtering/filter_product.hpp"

namespace dgo {

// The same layer with its taps side by side instead of overlapping: its packed weights are those of overlap_product.
FilterProblem taps_apart(const FilterProblem& problem);

// Why overlap_product does not compute the problem, or empty.
std::string overlap_refusal(const FilterProblem& problem);

// Operands: src, packed, [bias], the tail's, scratch, dst. One group, direct tiles, no dilation on the last axis;
// bias_dtype 0: no bias; threads 0: as many as OpenMP gives; an empty tail: none.
std::unique_ptr<ScratchKernel> overlap_product(const FilterProblem& problem, const FilterTensor& src,
                                               const FilterTensor& dst, int bias_dtype, int threads, const Tail& tail);

}  // namespace dgo
