// The plan of dgrad and fprop in f32, bf16 and 8 bits, and their kernels in floats.
#pragma once

#include <memory>

#include "kernels/kernel.hpp"
#include "kernels/product/arrangement.hpp"

namespace dgo {

// A kernel of dgrad or fprop: arrangement, tensors, post-ops, and tiles shared out into tasks.
class ProductKernel : public ScratchKernel {
protected:
    // dot: the set that multiplies bf16 or 8 bits, or null for f32.
    ProductKernel(const Joined& joined, FilterDirection direction, const Dot* dot, int bias_dtype, int threads,
                  const Epilogue& epilogue);

    // Takes the code that runs the parameters as they are now, and the scratch memory that it needs.
    void runs(const ProductCode& code);
    // Runs the code; the last two of `all` are scratch memory and dst.
    void call(const ProductCall& operands, char* const* all) const {
        code_->run(params_, operands, all[arity - 2], all[arity - 1]);
    }

    Arrangement arrangement_;
    FittedEpilogue epilogue_;
    ProductParams params_{};

private:
    const ProductCode* code_ = nullptr;
};

// Returns the kernel of dgrad or fprop. dot: the set that multiplies bf16, or null for f32.
std::unique_ptr<ScratchKernel> float_product(const Joined& joined, FilterDirection direction, const Dot* dot,
                                             int bias_dtype, int threads, const Epilogue& epilogue);

// For example 'conv_dgrad_f32_avx512_12x32'.
std::string convolution_name(const std::string& direction);

// Whether dgrad or fprop is computed in strips of rows a step apart, without looking up addresses.
bool is_in_strips(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
                  const FilterTensor& dst);

}  // namespace dgo
