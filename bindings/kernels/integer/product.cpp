#include "kernels/integer/product.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/integer/isa.hpp"
#include "kernels/narrow/layout.hpp"

namespace dgo {

namespace {

constexpr int64_t kParallelBytes = 1 << 16;
constexpr int64_t kPositionBytes = 4;  // positions of rows have multiples of these
constexpr const char* kName = "integer product";

Cell integer_cell(const char* name, int dtype) {
    const Cell cell = number_cell(dtype);
    if (cell != Cell::s8 && cell != Cell::u8) {
        fail(ErrorKind::invalid_argument, std::string(kName) + ": " + name + " must be s8 or u8");
    }
    return cell;
}

int threads_for(int64_t bytes, int threads) {
    if (bytes < kParallelBytes) return 1;
    return threads > 0 ? threads : omp_get_max_threads();
}

PanelSizes panels(const IntegerCode& code) { return {kNarrowPanel, 64, code.depth}; }

// Elements of the packed weights for each column.
int64_t panel_depth(const Arrangement& of, const IntegerCode& code) {
    const int64_t depth = panels(code).depth;
    return of.layout.segments * (ceil_div(of.rows, depth) * depth);
}

// What geometry is laid out with: the code for floats knows no integers, and their sizes follow.
FilterTensor as_floats(FilterTensor tensor) {
    tensor.dtype = kF32;
    return tensor;
}
FilterWeights as_floats(FilterWeights weights) {
    weights.dtype = kF32;
    return weights;
}

// Where the totals of the columns lie behind the weights.
int64_t weights_bytes(const Arrangement& of, const FilterProblem& problem, const IntegerCode& code) {
    return ceil_div(checked_product(kName, {of.packed_size(problem), code.item}), 64) * 64;
}

class IntegerRowsKernel final : public Kernel {
public:
    IntegerRowsKernel(const IntegerRows& params, const IntegerCode& code) : code_(code), params_(params) {
        name = "integer_rows";
        arity = 2;
    }

    void run(char* const* operands) const override { code_.rows(params_, operands[0], operands[1]); }

private:
    const IntegerCode& code_;
    const IntegerRows params_;
};

class IntegerPack final : public Kernel {
public:
    IntegerPack(const FilterProblem& problem, FilterDirection direction, const FilterWeights& weights, int64_t channels,
                bool has_points, int threads, const IntegerCode& code)
        : code_(code), arrangement_(problem, direction, panels(code)),
          params_(arrangement_.pack_params(problem, direction, as_floats(weights))), has_points_(has_points),
          totals_(weights_bytes(arrangement_, problem, code)) {
        name = "integer_pack";
        arity = has_points ? 3 : 2;
        check_direct(problem);
        params_.cell = integer_cell("weights", weights.dtype);
        params_.item = 1;
        const int64_t step = panels(code).depth;
        check_number(name, "channels", channels, (params_.k - 1) / step * step + 1, params_.k);
        params_.k = channels;
        params_.threads = threads_for(totals_, threads);
    }

    void run(char* const* operands) const override {
        const auto* points = has_points_ ? reinterpret_cast<const int32_t*>(operands[1]) : nullptr;
        char* packed = operands[arity - 1];
        code_.pack(params_, operands[0], points, packed, reinterpret_cast<int32_t*>(packed + totals_));
    }

private:
    const IntegerCode& code_;
    Arrangement arrangement_;
    PackParams params_;
    const bool has_points_;
    const int64_t totals_;
};

// How quotients by the scale are found: as products by its inverse, but where the two may be rounded to different numbers.
// Within 512, beyond which every result is the largest or the smallest, they differ by less than 2e-4.
void find_inverse(IntegerParams& params) {
    constexpr float kDoubtful = 0.5f - 2e-4f;
    int exponent;
    const float inverse = 1 / params.scale;
    const bool normal = std::isnormal(inverse), exact = std::frexp(params.scale, &exponent) == 0.5f;
    params.inverse = normal ? inverse : 0;
    params.doubtful = !normal ? -1 : exact ? 2 : kDoubtful;
}

class IntegerProduct final : public ScratchKernel {
public:
    IntegerProduct(const Joined& joined, FilterDirection direction, const IntegerQuantization& how, int dst_dtype,
                   int bias_dtype, int64_t position, int threads, const Tail& tail, const IntegerCode& code)
        : code_(code), layout_(joined, direction, panels(code), code.item, bias_dtype, threads, tail),
          has_points_(how.has_points), totals_(weights_bytes(layout_.arrangement, joined.problem, code)) {
        name = direction == FilterDirection::forward ? "integer_forward" : "integer_backward_data";
        ProductParams& params = layout_.params;
        params.src.item = code.item;
        params.dst.cell = number_cell(dst_dtype);
        params.dst.item = item_size(dst_dtype);
        check_finish(how, dst_dtype, bias_dtype);
        const bool is_s8 = integer_cell("src", how.src_dtype) == Cell::s8;
        check_number(name, "src_zero", how.src_zero, is_s8 ? -128 : 0, is_s8 ? 127 : 255);
        // bytes without a sign are 128 more, words have none
        integer_.src_zero = code.item == 1 ? how.src_zero + (is_s8 ? 128 : 0) : 0;
        integer_.sums = params.dst.cell == Cell::s32;
        integer_.scale = static_cast<float>(how.dst_scale);
        find_inverse(integer_);
        integer_.zero = static_cast<float>(how.dst_zero);
        const bool signs = params.dst.cell == Cell::s8;
        integer_.low = std::max(how.dst_low, signs ? -128 : 0);
        integer_.high = std::min(how.dst_high, signs ? 127 : 255);
        integer_.panel_depth = panel_depth(layout_.arrangement, code);
        if (how.has_points) {
            check_number(name, "position", position, joined.problem.groups * params.dst.channels, kMostSize);
            integer_.pitch = position * params.dst.item;
            // a run of several positions would meet several sums
            for (TargetGroup& group : layout_.arrangement.groups.groups) group.folded = false;
        }
        arity = (integer_.sums ? 4 : 5) + (params.has_bias ? 1 : 0) + (has_points_ ? 2 : 0) + layout_.tail.operands();
        params.scratch_per_thread = code_.products_scratch(params);
        scratch_bytes = checked_product(name, {params.scratch_per_thread, params.threads});
    }

    void run(char* const* operands) const override {
        const ProductParams& params = layout_.params;
        NarrowCall call{operands[0], operands[1], nullptr, {}, &integer_};
        call.totals = reinterpret_cast<const int32_t*>(operands[1] + totals_);
        char* const* next = operands + 2;
        if (!integer_.sums) call.scales = reinterpret_cast<const float*>(*next++);
        if (params.has_bias) call.bias = *next++;
        if (has_points_) {
            call.points = reinterpret_cast<const int32_t*>(*next++);
            call.sums = reinterpret_cast<const int32_t*>(*next++);
        }
        call.tail = layout_.tail.call(next);
        code_.products(params, call, operands[arity - 2], operands[arity - 1]);
    }

private:
    void check_finish(const IntegerQuantization& how, int dst_dtype, int bias_dtype) const {
        const Cell cell = number_cell(dst_dtype);
        if (cell == Cell::s32 && (bias_dtype != 0 || how.has_points || layout_.tail)) {
            fail(ErrorKind::invalid_argument, name + ": sums have no bias, points or post-ops");
        }
        if (bias_dtype != 0 && bias_dtype != kF32) fail(ErrorKind::invalid_argument, name + ": bias must be f32");
        if (how.dst_low > how.dst_high) {
            fail(ErrorKind::invalid_argument, name + ": dst_low must be at most dst_high");
        }
        if (!(how.dst_scale > 0) || !std::isfinite(static_cast<float>(how.dst_scale))) {
            fail(ErrorKind::invalid_argument, name + ": dst_scale must be positive and finite");
        }
    }

    const IntegerCode& code_;
    NarrowLayout layout_;
    IntegerParams integer_;
    const bool has_points_;
    const int64_t totals_;
};

}  // namespace

IntegerLayout integer_layout(int64_t channels, int dtype, const std::string& isa) {
    const IntegerCode& code = integer_code_of(isa);
    const int64_t step = kPositionBytes / code.item, pitch = ceil_div(channels, step) * step;
    return {code.item, pitch, code.item == 1 && integer_cell("src", dtype) == Cell::u8 && pitch == channels};
}

int64_t integer_packed_size(const FilterProblem& problem, FilterDirection direction, const std::string& isa) {
    const IntegerCode& code = integer_code_of(isa);
    const Arrangement of(problem, direction, panels(code));
    return weights_bytes(of, problem, code) + of.packed_size(problem) / panel_depth(of, code) * 4;  // a total of each
}

std::string integer_packing(const FilterProblem& problem, FilterDirection direction, const std::string& isa) {
    const IntegerCode& code = integer_code_of(isa);
    return code.isa + Arrangement(problem, direction, panels(code)).packing(problem);
}

bool integer_pack_subtracts(const std::string& isa) { return integer_code_of(isa).item == 2; }

std::unique_ptr<Kernel> integer_rows(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                     int64_t channels, int dtype, int zero, int threads, const std::string& isa) {
    const IntegerCode& code = integer_code_of(isa);
    if (sizes.size() != strides.size() || sizes.size() > 4) {
        fail(ErrorKind::invalid_argument, "integer_rows: sizes and strides of at most 4 axes are needed");
    }
    std::vector<int64_t> all_sizes = sizes, all_strides = strides;
    all_sizes.push_back(channels);
    all_strides.push_back(1);
    check_extent("integer_rows", "src", all_sizes, all_strides);
    IntegerRows params{{1, 1, 1, 1},
                       {0, 0, 0, 0},
                       channels,
                       integer_layout(channels, dtype, isa).pitch,
                       integer_cell("src", dtype),
                       zero,
                       1};
    std::copy(sizes.rbegin(), sizes.rend(), std::reverse_iterator(params.sizes + 4));
    std::copy(strides.rbegin(), strides.rend(), std::reverse_iterator(params.strides + 4));
    const int64_t bytes = checked_product("integer_rows", {sizes.empty() ? 1 : params.sizes[0], params.sizes[1],
                                                           params.sizes[2], params.sizes[3], params.pitch, code.item});
    params.threads = threads_for(bytes, threads);
    return std::make_unique<IntegerRowsKernel>(params, code);
}

std::unique_ptr<Kernel> integer_pack(const FilterProblem& problem, FilterDirection direction,
                                     const FilterWeights& weights, int64_t channels, bool has_points, int threads,
                                     const std::string& isa) {
    const IntegerCode& code = integer_code_of(isa);
    return std::make_unique<IntegerPack>(problem, direction, weights, channels, has_points, threads, code);
}

std::unique_ptr<ScratchKernel> integer_product(const FilterProblem& problem, FilterDirection direction,
                                               const FilterTensor& rows, const FilterTensor& dst,
                                               const IntegerQuantization& how, int bias_dtype, int64_t position,
                                               int threads, const Tail& tail, const std::string& isa) {
    const Joined joined(problem, as_floats(rows), as_floats(dst));
    return std::make_unique<IntegerProduct>(joined, direction, how, dst.dtype, bias_dtype, position, threads, tail,
                                            integer_code_of(isa));
}

}  // namespace dgo
