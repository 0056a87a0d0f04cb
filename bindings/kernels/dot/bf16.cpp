// Forward and backward data of a transposed convolution as narrow products: src and weights in bf16, sums in f32, rounded
// once. The direct form of filter_product.hpp by other instructions.
#include <omp.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/declaration.hpp"
#include "kernels/dot/plan.hpp"
#include "kernels/sets.hpp"
#include "kernels/filtering/described.hpp"
#include "kernels/isa.hpp"

namespace dgo {

namespace {

constexpr int64_t kParallelWeights = 1 << 16;

void check_bf16(const char* name, int dtype) {
    if (dtype == 0 || float_cell(dtype) != Cell::bf16) {
        fail(ErrorKind::invalid_argument, std::string("narrow product: ") + name + " must be bf16");
    }
}

// Minimal filtering: products in f32 code around the set's.
bool is_tiled(const FilterProblem& problem) {
    return std::any_of(problem.tile.axis, problem.tile.axis + kFilterAxes, [](int64_t tile) { return tile > 1; });
}

// Coefficients of larger tiles make errors of bf16 several times as large.
void check_tiles(const FilterProblem& problem) {
    for (int64_t tile : problem.tile.axis) {
        if (tile > kLargeTile) {
            fail(ErrorKind::invalid_argument, "narrow product: tiles have up to 3 results; set tile to 3 or less");
        }
    }
}

class NarrowProduct final : public ScratchKernel {
public:
    NarrowProduct(const Joined& joined, FilterDirection direction, int bias_dtype, int threads, const Tail& tail,
                  const Dot& dot)
        : dot_(dot), layout_(joined, direction, kBf16Panels, 2, bias_dtype, threads, tail) {
        name = direction == FilterDirection::forward ? "narrow_forward" : "narrow_backward_data";
        by = dot_name(dot);
        check_bf16("src", joined.src.dtype);
        ProductParams& params = layout_.params;
        arity = (params.has_bias ? 5 : 4) + layout_.tail.operands();
        params.scratch_per_thread = vector_code().dot.bf16.scratch(dot_, params);
        scratch_bytes = checked_product(name, {params.scratch_per_thread, params.threads});
    }

    void run(char* const* operands) const override {
        const ProductParams& params = layout_.params;
        const char* bias = params.has_bias ? operands[2] : nullptr;
        char* const* last = operands + arity - 2;
        const DotCall call{operands[0], operands[1], bias, layout_.tail.call(operands + (params.has_bias ? 3 : 2))};
        vector_code().dot.bf16.run(dot_, params, call, last[0], last[1]);
    }

private:
    const Dot& dot_;
    DotPlan layout_;
};

class NarrowPack final : public Kernel {
public:
    NarrowPack(const FilterProblem& problem, FilterDirection direction, const FilterWeights& weights, int threads)
        : arrangement_(problem, direction, kBf16Panels) {
        name = "narrow_pack";
        arity = 2;
        check_direct(problem);
        check_bf16("weights", weights.dtype);
        PackParams& params = params_.weights;
        params = arrangement_.pack_params(problem, direction, weights);
        const bool small = problem.groups * params.packed < kParallelWeights;
        params.threads = small ? 1 : threads > 0 ? threads : omp_get_max_threads();
        if (params.n_stride != 1 && params.k_stride != 1) find_taps();
    }

    void run(char* const* operands) const override { vector_code().dot.bf16_pack(params_, operands[0], operands[1]); }

private:
    void find_taps() {
        const PackParams& params = params_.weights;
        const Axes &kernel = params.kernel, &strides = params.tap_strides;
        for (int64_t i = 0; i < kernel[0]; ++i) {
            for (int64_t j = 0; j < kernel[1]; ++j) {
                for (int64_t k = 0; k < kernel[2]; ++k) {
                    taps_.push_back({i * strides[0] + j * strides[1] + k * strides[2], -1, 0});
                }
            }
        }
        const int64_t segments = arrangement_.layout.segments;
        const int64_t words = ceil_div(params.k, kBf16Unit) * kBf16Unit * kDotColumns;
        for (const TargetGroup& group : arrangement_.groups.groups) {
            for (int64_t i = 0; i < group.target_count; ++i) {
                for (int64_t s = 0; s < segments; ++s) {
                    const int64_t tap = tap_of(s, group.targets[i]);
                    if (tap < 0) continue;
                    taps_[static_cast<size_t>(tap)].to = group.packed + s * words;
                    taps_[static_cast<size_t>(tap)].column = i * params.n;
                }
            }
        }
        params_.taps = taps_.data();
        params_.tap_count = static_cast<int64_t>(taps_.size());
        params_.run = 1;
        for (int a = kFilterAxes - 1; a >= 0 && (kernel[a] == 1 || strides[a] == params_.run); --a) {
            params_.run *= kernel[a];
        }
    }

    // The number of the tap that a target has of a segment, or -1.
    int64_t tap_of(int64_t segment, int64_t target) const {
        int64_t number = 0, step = 1;
        for (int a = kFilterAxes - 1; a >= 0; --a) {
            const FilterAxis& axis = arrangement_.layout.axes[a];
            const int64_t s = segment % axis.segments(), t = target % axis.targets();
            const int64_t tap = axis.tap[static_cast<size_t>(s * axis.targets() + t)];
            if (tap < 0) return -1;
            number += tap * step;
            step *= params_.weights.kernel[a];
            segment /= axis.segments();
            target /= axis.targets();
        }
        return number;
    }

    Arrangement arrangement_;
    std::vector<Bf16Tap> taps_;
    Bf16PackParams params_{};
};

int64_t packed_size(const FilterProblem& problem, const std::string& direction) {
    return Arrangement(problem, filter_direction(direction), kBf16Panels).packed_size(problem);
}

Bytes packing(const FilterProblem& problem, const std::string& direction) {
    return {Arrangement(problem, filter_direction(direction), kBf16Panels).packing(problem)};
}

std::unique_ptr<Kernel> make_pack(const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides,
                                  int threads, const std::string& isa) {
    const FilterWeights weights = filter_weights(p, dtype, strides);
    bf16_sets().of(isa);  // there is one
    check_tiles(p);
    if (is_tiled(p)) return filter_pack(p, filter_direction(direction), weights, threads, true);
    return std::make_unique<NarrowPack>(p, filter_direction(direction), weights, threads);
}

std::unique_ptr<ScratchKernel> make_product(const FilterProblem& p, const std::string& direction, int src_dtype,
                                            const Dims& src_strides, int dst_dtype, const Dims& dst_strides,
                                            int bias_dtype, int threads, const Tail& tail, const std::string& isa) {
    const FilterDirection to = filter_direction(direction);
    const FilterSides sides(p, to, src_dtype, src_strides, dst_dtype, dst_strides);
    const Joined joined(p, sides.src, sides.dst);
    const Dot& dot = bf16_sets().of(isa);
    check_tiles(p);
    if (is_tiled(p)) return filter_product(joined, to, bias_dtype, threads, tail, &dot);
    return std::make_unique<NarrowProduct>(joined, to, bias_dtype, threads, tail, dot);
}

std::pair<std::string, std::string> isa_and_reason() { return bf16_sets().isa_and_reason(); }

}  // namespace

// isa: the set by its name, or empty for the chosen one.
const Declaration kNarrow[] = {
    {"FilterProblem.narrow_packed_size(self, direction)", packed_size,
     "bf16 elements of the weights that narrow_product takes."},
    {"FilterProblem.narrow_packing(self, direction)", packing, "As `packing`, for narrow_pack."},
    {"narrow_isa()", isa_and_reason,
     "The instruction set of narrow products: 'amx', 'avx512bf16', 'emulated', or '' for none; and why no better one "
     "is used, or ''."},
    {"narrow_pack(problem, direction, weights_dtype, weights_strides, threads=0, isa='')", make_pack,
     "weights (in_channels, out_channels / groups, kernel), packed",
     "as filter_pack; packed is bf16, and so are weights where tiles have one result."},
    {"narrow_product(problem, direction, src_dtype, src_strides, dst_dtype, dst_strides, bias_dtype=0, threads=0, "
     "tail=..., isa='')",
     make_product, "src, packed, [bias], tail's..., scratch, dst",
     "as filter_forward or filter_backward_data: packed is bf16, and so is src where tiles have one result; sums f32."},
};

}  // namespace dgo
