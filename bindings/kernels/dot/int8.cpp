// Dgrad or fprop of integers of 8 bits: exact sums in s32, then
// scales, bias and post-ops in f32, then integers again or f32. The direct form; Winograd
// with words, whose transforms are exact where 2^(axes of four points) times every sum fits into s32.
//
// src is first made into rows: bytes without a sign or, where an instruction set multiplies words, 16 bits. Positions
// that src lacks stand for its zero point. Zero points of weights need the sums of what each position reads.
#include <omp.h>

#include <algorithm>
#include <string>

#include "kernels/declaration.hpp"
#include "kernels/dot/int8.hpp"
#include "kernels/dot/pack.hpp"
#include "kernels/sets.hpp"
#include "kernels/product/described.hpp"
#include "kernels/product/plan.hpp"
#include "kernels/isa.hpp"

namespace dgo {

namespace {

constexpr int64_t kParallelBytes = 1 << 16;
constexpr int64_t kPositionBytes = 4;  // positions of rows have multiples of these
constexpr const char* kName = "integer product";

int threads_for(int64_t bytes, int threads) {
    if (bytes < kParallelBytes) return 1;
    return threads > 0 ? threads : omp_get_max_threads();
}

// Returns the elements of the packed weights for each column.
int64_t panel_depth(const Arrangement& of, const Dot& dot) {
    return of.layout.segments * (ceil_div(of.rows, dot.unit) * dot.unit);
}

class Int8RowsKernel final : public Kernel {
public:
    Int8RowsKernel(const Int8Rows& params, bool has_zero, const Dot& dot)
        : dot_(dot), params_(params), has_zero_(has_zero) {
        name = "int8_rows";
        arity = has_zero ? 3 : 2;
    }

    void run(char* const* operands) const override {
        Int8Rows params = params_;
        if (has_zero_) params.zero = zero_at(operands[1], params.type);
        vector_code().dot.int8_rows(dot_, params, operands[0], operands[arity - 1]);
    }

private:
    const Dot& dot_;
    const Int8Rows params_;
    const bool has_zero_;
};

class Int8Product final : public ProductKernel {
public:
    Int8Product(const Joined& joined, FilterDirection direction, const IntegerQuantization& how, int dst_dtype,
                int bias_dtype, int64_t channels, int threads, const Epilogue& epilogue, const Dot& dot)
        : ProductKernel(joined, direction, &dot, bias_dtype, threads, epilogue), how_(how),
          src_type_(integer_type(kName, "src", how.src_dtype)),
          totals_(packed_bytes(kName, arrangement_, joined.problem, dot)) {
        name = direction == FilterDirection::dgrad ? "int8_dgrad" : "int8_fprop";
        for (const FilterAxis& axis : arrangement_.layout.axes) integer_.shift += axis.points == 4 ? 1 : 0;
        params_.src.item = dot.item;
        params_.dst.type = number_type(dst_dtype);
        params_.dst.item = item_size(dst_dtype);
        integer_.sums = params_.dst.type == ElementType::s32;
        if (integer_.sums && (bias_dtype != 0 || how.has_scale || epilogue_)) {
            fail(ErrorKind::invalid_argument, name + ": sums have no scale, bias or post-ops");
        }
        set_results(name, how.result, dst_dtype, bias_dtype, integer_);
        if (how.residual) set_residual();
        const int zero = unsigned_zero(name, how.src_dtype, how.src_zero);
        // rows of words have lost their zero points
        integer_.src_zero = dot.item == 1 ? zero : 0;
        integer_.panel_depth = panel_depth(arrangement_, dot);
        if (how.has_points && dot.item == 2) fail(ErrorKind::invalid_argument, name + ": packing subtracts points");
        if (channels != 0) check_number(name, "channels", channels, 1, params_.src.channels);
        integer_.channels = channels == 0 ? params_.src.channels : channels;
        arity = (integer_.sums ? 4 : 5) + how.has_scale + how.has_zero + (params_.has_bias ? 1 : 0) + how.has_points +
                how.residual.has_value() + epilogue_.operands();
        const DotCode& code = vector_code().dot;
        runs(params_.planes > 1 ? code.int8_filtering : code.int8);
    }

    void run(char* const* operands) const override {
        Int8Params integer = integer_;
        ProductCall all{operands[0], operands[1], nullptr, {}, &integer};
        all.totals = reinterpret_cast<const int32_t*>(operands[1] + totals_);
        char* const* next = operands + 2;
        if (!integer_.sums) all.scales = reinterpret_cast<const float*>(*next++);
        if (how_.has_scale) integer.src_scale = *reinterpret_cast<const float*>(*next++);
        if (how_.has_zero) {
            const int32_t zero = zero_at(*next++, src_type_) + sign_shift(src_type_);
            if (params_.dot->item == 1) integer.src_zero = zero;
        }
        if (params_.has_bias) all.bias = *next++;
        if (how_.has_points) all.points = reinterpret_cast<const int32_t*>(*next++);
        if (how_.residual) all.residual = *next++;
        all.epilogue = epilogue_.call(next);
        call(all, operands);
    }

private:
    void set_residual() {
        const auto& [dtype, scale, zero, inner] = *how_.residual;
        const bool is_signed = integer_type(name, "residual", dtype) == ElementType::s8;
        if (epilogue_ || !is_byte(params_.dst.type)) {
            fail(ErrorKind::invalid_argument, name + ": a residual needs a dst of s8 or u8, without post-ops");
        }
        integer_.residual = {checked_quotient(name, inner), is_signed,
                             static_cast<float>(unsigned_zero(name, dtype, zero)), static_cast<float>(scale)};
    }

    Int8Params integer_;
    const IntegerQuantization how_;
    const ElementType src_type_;
    const int64_t totals_;
};

// Returns the elements of a position of rows.
int64_t pitch_of(int64_t channels, const Dot& dot) {
    const int64_t step = kPositionBytes / dot.item;
    return ceil_div(channels, step) * step;
}

std::tuple<int64_t, int64_t, bool> layout_of(int64_t channels, int dtype, const std::string& isa) {
    const Dot& dot = int8_sets().of(isa);
    const int64_t pitch = pitch_of(channels, dot);
    return {dot.item, pitch,
            dot.item == 1 && integer_type(kName, "src", dtype) == ElementType::u8 && pitch == channels};
}

int64_t packed_size(const FilterProblem& problem, const std::string& direction, const std::string& isa) {
    const Dot& dot = int8_sets().of(isa);
    const Arrangement of(problem, filter_direction(direction), panels(&dot));
    return packed_bytes(kName, of, problem, dot) +
           of.packed_size(problem) / panel_depth(of, dot) * 4;  // a total of each
}

Bytes packing(const FilterProblem& problem, const std::string& direction, const std::string& isa) {
    const Dot& dot = int8_sets().of(isa);
    return {dot.isa + Arrangement(problem, filter_direction(direction), panels(&dot)).packing(problem)};
}

bool pack_subtracts(const std::string& isa) { return int8_sets().of(isa).item == 2; }

std::unique_ptr<Kernel> make_rows(const Dims& sizes, const Dims& strides, int64_t channels, int dtype, int zero,
                                  int threads, const std::string& isa, int64_t before, int64_t pitch, bool has_zero) {
    const Dot& dot = int8_sets().of(isa);
    if (sizes.size() != strides.size() || sizes.size() > 4) {
        fail(ErrorKind::invalid_argument, "int8_rows: sizes and strides of at most 4 axes are needed");
    }
    std::vector<int64_t> all_sizes = sizes, all_strides = strides;
    all_sizes.push_back(channels);
    all_strides.push_back(1);
    check_extent("int8_rows", "src", all_sizes, all_strides);
    check_number("int8_rows", "channels", channels, 0, kMostSize);
    check_number("int8_rows", "before", before, 0, kMostSize);
    if (pitch == 0) pitch = pitch_of(channels, dot);
    check_number("int8_rows", "pitch", pitch, before + channels, kMostSize);
    Int8Rows params{{1, 1, 1, 1}, {0, 0, 0, 0}, channels, pitch, before, integer_type(kName, "src", dtype), zero, 1};
    std::copy(sizes.rbegin(), sizes.rend(), std::reverse_iterator(params.sizes + 4));
    std::copy(strides.rbegin(), strides.rend(), std::reverse_iterator(params.strides + 4));
    const int64_t bytes = checked_product("int8_rows", {sizes.empty() ? 1 : params.sizes[0], params.sizes[1],
                                                        params.sizes[2], params.sizes[3], params.pitch, dot.item});
    params.threads = threads_for(bytes, threads);
    return std::make_unique<Int8RowsKernel>(params, has_zero, dot);
}

std::unique_ptr<Kernel> make_pack(const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides,
                                  int64_t channels, bool has_points, int threads, const std::string& isa) {
    const FilterWeights weights = filter_weights(p, dtype, strides);
    const FilterDirection to = filter_direction(direction);
    const Dot& dot = int8_sets().of(isa);
    check_number("int8_pack", "channels", channels, 1, kMostSize);
    return dot_pack("int8_pack", dot, p, to, weights, integer_type(kName, "weights", dtype), threads, channels,
                    has_points);
}

std::unique_ptr<ScratchKernel> make_product(const FilterProblem& p, const std::string& direction,
                                            const Dims& rows_strides, int dst_dtype, const Dims& dst_strides,
                                            int src_dtype, int src_zero, const IntegerResult& result, bool has_points,
                                            int bias_dtype, int64_t channels, int threads, const Epilogue& epilogue,
                                            const std::string& isa, bool has_scale, bool has_zero,
                                            const IntegerResidual& residual) {
    const FilterDirection to = filter_direction(direction);
    const FilterSides sides(p, to, src_dtype, rows_strides, dst_dtype, dst_strides, "rows_strides");
    const Joined joined(p, as_floats(sides.src), as_floats(sides.dst));
    const IntegerQuantization how{src_dtype, src_zero, result, has_points, has_scale, has_zero, residual};
    const Dot& dot = int8_sets().of(isa);
    check_tiles(p, dot);
    return std::make_unique<Int8Product>(joined, to, how, dst_dtype, bias_dtype, channels, threads, epilogue, dot);
}

std::pair<std::string, std::string> isa_and_reason() { return int8_sets().isa_and_reason(); }

}  // namespace

const Declaration kInt8[] = {
    {"int8_isa()", isa_and_reason,
     "Returns the instruction set of 8-bit products, or '' for none; and why no better one is used, or ''."},
    {"int8_layout(channels, src_dtype, isa='')", layout_of,
     "Returns the layout of rows: bytes of an element, elements of a position, and whether src is rows as it lies."},
    {"int8_pack_subtracts(isa='')", pack_subtracts,
     "Returns whether int8_pack takes the zero points of weights, rather than int8_product."},
    {"int8_packed_size(problem, direction, isa='')", packed_size,
     "Returns the bytes of the packed weights of int8_product."},
    {"int8_packing(problem, direction, isa='')", packing,
     "Returns the parameters of int8_pack as bytes, as FilterProblem.packing does for filter_pack."},
    {"int8_rows(sizes, strides, channels, src_dtype, src_zero, threads=0, isa='', before=0, pitch=0, has_zero=False)",
     make_rows, "src (sizes, channels), [zero (1)], rows",
     "rows[position, before + c] = src[position, c]: the left factor of int8_product. sizes and strides are those of "
     "all axes but the channels, which are contiguous. src_zero, or the operand zero of src's type, fills up `before` "
     "elements before the channels and the rest of `pitch` after them; a pitch of 0 is that of int8_layout."},
    {"int8_pack(problem, direction, weights_dtype, weights_strides, channels, has_points=False, threads=0, isa='')",
     make_pack, "weights (in_channels, out_channels / groups, kernel), [points (out_channels)], packed",
     "packed = weights for int8_product, with the strides of filter_pack; sets that multiply words take tiles of "
     "several results. weights are s8 or u8, points s32. channels: how many in channels of a group the weights have; "
     "the weights of the others, which fill up a position of rows, are zero."},
    {"int8_product(problem, direction, rows_strides, dst_dtype, dst_strides, src_dtype, src_zero, "
     "result=None, has_points=False, bias_dtype=0, channels=0, threads=0, epilogue=..., isa='', "
     "has_scale=False, has_zero=False, residual=None)",
     make_product,
     "rows, packed, scales (out_channels), [scale (1)], [zero (1)], [bias (out_channels)], [points (out_channels)], "
     "[residual], epilogue's..., scratch, dst",
     "dst = scale * scales * sum + bias and the epilogue, where sum is exact: the sum of (rows - zero) * (weights - "
     "points). scales and bias are f32 for all out channels; scale is a factor of all of them; zero, in src's type, "
     "takes the place of src_zero; points are zero points of the weights in s32, for sets that multiply bytes. "
     "result, of a dst of s8 or u8, is (scale, zero, low, high): quotients by scale, rounded, plus zero, from low to "
     "high; a dst of s32 has the sums without scales. channels: as of int8_pack, 0: all. residual is (dtype, scale, "
     "zero, result): to integers by its result, (residual - zero) * scale is added before the quotients of dst; the "
     "operand is laid out as dst."},
};

}  // namespace dgo
