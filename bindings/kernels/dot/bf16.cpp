// Dgrad and fprop as bf16 products: src and weights in bf16, sums in f32, rounded once.
#include <algorithm>
#include <string>

#include "kernels/declaration.hpp"
#include "kernels/dot/pack.hpp"
#include "kernels/sets.hpp"
#include "kernels/filtering/filter_product.hpp"
#include "kernels/product/described.hpp"
#include "kernels/product/plan.hpp"

namespace dgo {

namespace {

void check_bf16(const char* name, int dtype) {
    if (dtype == 0 || float_type(dtype) != ElementType::bf16) {
        fail(ErrorKind::invalid_argument, std::string("narrow product: ") + name + " must be bf16");
    }
}

int64_t packed_size(const FilterProblem& problem, const std::string& direction) {
    return Arrangement(problem, filter_direction(direction), kBf16Panels).packed_size(problem);
}

Bytes packing(const FilterProblem& problem, const std::string& direction) {
    return {Arrangement(problem, filter_direction(direction), kBf16Panels).packing(problem)};
}

std::unique_ptr<Kernel> make_pack(const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides,
                                  int threads, const std::string& isa) {
    const FilterWeights weights = filter_weights(p, dtype, strides);
    const Dot& dot = bf16_sets().of(isa);
    check_tiles(p, dot);
    if (is_tiled(p)) return filter_pack(p, filter_direction(direction), weights, threads, true);
    check_bf16("weights", dtype);
    return dot_pack("bf16_pack", dot, p, filter_direction(direction), weights, ElementType::bf16, threads);
}

std::unique_ptr<ScratchKernel> make_product(const FilterProblem& p, const std::string& direction, int src_dtype,
                                            const Dims& src_strides, int dst_dtype, const Dims& dst_strides,
                                            int bias_dtype, int threads, const Epilogue& epilogue,
                                            const std::string& isa) {
    const FilterDirection to = filter_direction(direction);
    const FilterSides sides(p, to, src_dtype, src_strides, dst_dtype, dst_strides);
    const Joined joined(p, sides.src, sides.dst);
    const Dot& dot = bf16_sets().of(isa);
    check_tiles(p, dot);
    if (!is_tiled(p)) check_bf16("src", src_dtype);
    return float_product(joined, to, &dot, bias_dtype, threads, epilogue);
}

std::pair<std::string, std::string> isa_and_reason() { return bf16_sets().isa_and_reason(); }

}  // namespace

// isa: the set by its name, or empty for the chosen one.
const Declaration kBf16[] = {
    {"FilterProblem.bf16_packed_size(self, direction)", packed_size,
     "Returns the bf16 elements of the packed weights of bf16_product."},
    {"FilterProblem.bf16_packing(self, direction)", packing,
     "Returns the parameters of bf16_pack as bytes, as `packing` does for filter_pack."},
    {"bf16_isa()", isa_and_reason,
     "Returns the instruction set of bf16 products: 'amx', 'avx512bf16', 'emulated', or '' for none; and why no better "
     "one is used, or ''."},
    {"bf16_pack(problem, direction, weights_dtype, weights_strides, threads=0, isa='')", make_pack,
     "weights (in_channels, out_channels / groups, kernel), packed",
     "packed = weights for bf16_product, with the strides of filter_pack. packed is bf16, and so are weights where "
     "tiles have one result."},
    {"bf16_product(problem, direction, src_dtype, src_strides, dst_dtype, dst_strides, bias_dtype=0, threads=0, "
     "epilogue=..., isa='')",
     make_product, "src, packed, [bias], epilogue's..., scratch, dst",
     "dst = bias + the convolution of src in a direction, as filter_dgrad and filter_fprop compute it, in products of "
     "bf16 with sums in f32. packed is bf16, and so is src where tiles have one result."},
};

}  // namespace dgo
