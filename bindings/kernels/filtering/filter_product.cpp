#include "kernels/filtering/filter_product.hpp"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/product/described.hpp"
#include "kernels/product/plan.hpp"
#include "kernels/filtering/gradient_params.hpp"
#include "kernels/filtering/vtable.hpp"
#include "kernels/isa.hpp"
#include "kernels/scratch.hpp"
#include "kernels/sets.hpp"

namespace dgo {

namespace {

// Both factors of a step of wgrad, within these numbers of tiles: they stay in the second cache level next to those that
// are fetched, and a panel in the first.
constexpr int64_t kGradientBytes = 512 * 1024, kFewestSteps = 48, kMostSteps = 96;
constexpr int64_t kStreamedBytes = 8 * 1024 * 1024;  // of a gradient of few positions
constexpr int64_t kParallelFloats = 1 << 16;  // transformed weights
constexpr int64_t kFewTiles = 128;
constexpr int64_t kNarrowRun = 64, kNarrowOddRun = 128;  // channels of a position in lines

const FilterCode& code() { return vector_code().filter; }

class PackKernel final : public Kernel {
public:
    PackKernel(const FilterProblem& problem, FilterDirection direction, const FilterWeights& weights, int threads,
               bool dot)
        : arrangement_(problem, direction, dot ? kBf16Panels : filter_panels()),
          params_(arrangement_.pack_params(problem, direction, weights)) {
        name = "filter_pack";
        arity = 2;
        const bool small = problem.groups * params_.packed < kParallelFloats;
        params_.threads = small ? 1 : threads > 0 ? threads : omp_get_max_threads();
        scratch_array_ = scratch_.add<float>(checked_product(name, {code().pack_scratch(params_), params_.threads}));
        params_.as = dot ? PackedAs::bf16 : PackedAs::f32;
        params_.unit = kBf16Unit;
    }

    void run(char* const* operands) const override {
        const Scratch scratch(scratch_, {}, 1);
        code().pack(params_, operands[0], scratch_array_.in(scratch.shared()), operands[1]);
    }

private:
    Arrangement arrangement_;
    PackParams params_;
    ScratchLayout scratch_;
    ScratchArray<float> scratch_array_;
};

int64_t tiles_of(const GradientParams& params) {
    return params.batch * params.tiles[0] * params.tiles[1] * params.tiles[2];
}

// Splitting the tiles costs a second set of sums; splitting the channels transforms the other factor again.
void lay_out_tasks(GradientParams& params, const FilterCode& of) {
    const int64_t panels = ceil_div(params.diff.segments * params.diff.channels, of.panel), columns = panels * of.panel;
    const int64_t strip = 4 * of.rows, strips = ceil_div(params.src.channels, strip);  // parts have whole ones
    const double set = static_cast<double>(params.planes * params.src.channels * columns);
    const int64_t threads = params.threads;
    double best = -1;
    for (int64_t by_tile = 1; by_tile <= threads; ++by_tile) {
        for (int64_t by_row = 1; by_row * by_tile <= threads; ++by_row) {
            const int64_t by_column = std::clamp<int64_t>(threads / by_tile / by_row, 1, std::max<int64_t>(1, panels));
            if (by_row > 1 && by_row * strip > params.src.channels) continue;
            if (by_tile > 1 && by_tile * 16 > tiles_of(params)) continue;
            const double part = static_cast<double>(ceil_div(tiles_of(params), by_tile));
            const double rows = static_cast<double>(std::min(ceil_div(strips, by_row) * strip, params.src.channels));
            const double wide = static_cast<double>(ceil_div(panels, by_column) * of.panel);
            // The cost in multiplications: the products, the transforms, and adding the sums up (about 32 per value).
            const double products = rows * wide + kTransformCost * (rows + wide);
            const double parts = static_cast<double>(by_tile) / static_cast<double>(threads);
            const double adding = by_tile > 1 ? 32.0 * set * parts : 0.0;
            const double cost = part * params.planes * products + adding;
            if (best >= 0 && cost >= best) continue;
            best = cost;
            params.tile_parts = by_tile;
            params.row_parts = by_row;
            params.column_parts = by_column;
        }
    }
    // Few tiles: the sums are as large as the weights and better not stored.
    const int64_t least = strip * (threads > 1 ? 2 * threads : 1);
    params.in_items = tiles_of(params) <= kFewTiles && params.src.channels >= least;
    if (params.in_items) {
        params.row_parts = threads;
        params.column_parts = params.tile_parts = 1;
    }
    const int64_t widths = params.src.channels / params.row_parts + columns / params.column_parts;
    const int64_t row_bytes = params.planes * 4 * widths;
    params.block = std::clamp<int64_t>(kGradientBytes / std::max<int64_t>(1, row_bytes), kFewestSteps, kMostSteps);
    params.block = std::clamp<int64_t>(ceil_div(tiles_of(params), params.tile_parts), 1, params.block);
    if (params.in_items) params.block = std::max<int64_t>(1, tiles_of(params));
}

// Steps of wider positions share few sets of the first cache level. Runs of whole panels are cheap to copy.
bool is_in_lines(const GradientParams& params, const VectorCode& of) {
    const int64_t most = params.diff.run % of.filter.panel == 0 ? kNarrowRun : kNarrowOddRun;
    const auto narrow = [most](int64_t count, int64_t least) { return count >= least && count <= most; };
    return params.planes == 1 && !params.in_items && params.row_parts == 1 && params.column_parts == 1 &&
           params.src.type == ElementType::f32 && params.diff.type == ElementType::f32 &&
           narrow(params.src.channels, of.filter.rows) && narrow(params.diff.run, of.lanes) &&
           params.tiles[kFilterAxes - 1] >= kShortLine;
}

class GradientKernel final : public ScratchKernel {
public:
    // exchanged: src and diff_dst are each other's operands.
    GradientKernel(const FilterProblem& problem, const FilterTensor& src, const FilterTensor& diff,
                   const FilterWeights& weights, int threads, bool exchanged)
        : layout_(fprop_layout(problem)), params_(gradient_params(problem, src, diff, layout_, threads, vector_code())),
          src_(exchanged ? 1 : 0) {
        name = "filter_wgrad";
        by = convolution_name("wgrad");
        arity = 4;
        params_.taps = layout_.taps();
        params_.weights_type = float_type(weights.dtype);
        params_.weights_item = item_size(weights.dtype);
        params_.group_stride = weights.group_stride;
        params_.in_stride = weights.in_stride;
        params_.out_stride = weights.out_stride;
        params_.tap_strides = weights.tap_strides;
        params_.kernel = problem.kernel;
        const int64_t pairs = problem.in_channels * problem.out_channels * problem.groups;
        params_.streams = params_.in_items && params_.out_stride == 1 && params_.weights_type == ElementType::f32 &&
                          pairs * params_.weights_item > kStreamedBytes;
        params_.scratch_per_thread = code().gradient_scratch(params_);
        params_.sums = checked_product(name, {params_.scratch_per_thread, params_.threads});
        scratch_bytes = params_.sums + code().gradient_sums(params_);
        checked_product(name, {scratch_bytes});
        const int64_t columns = params_.diff.segments * params_.diff.channels;
        products = bounded(static_cast<double>(tiles_of(params_)) * static_cast<double>(used_products(layout_, {0})) *
                           padded(pairs, columns, filter_panels()));
    }

    void run(char* const* operands) const override {
        code().gradient(params_, operands[src_], operands[1 - src_], operands[2], operands[3]);
    }

private:
    FilterLayout layout_;
    GradientParams params_;
    int src_;  // the number of its operand
};

}  // namespace

std::unique_ptr<Kernel> filter_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, bool dot) {
    return std::make_unique<PackKernel>(problem, direction, weights, threads, dot);
}

bool exchanges(const FilterProblem& p, const FilterCode& of) {
    bool pointwise = p.groups == 1;
    for (int a = 0; a < kFilterAxes; ++a) {
        pointwise = pointwise && p.kernel[a] == 1 && p.stride[a] == 1 && p.pad[a] == 0 && p.in[a] == p.out[a];
    }
    const bool narrow = std::max(p.in_channels, p.out_channels) <= kNarrowRun;
    return pointwise && !narrow && p.out_channels % of.panel != 0 && p.in_channels % of.panel == 0;
}

FilterProblem exchanged(FilterProblem problem) {
    std::swap(problem.in_channels, problem.out_channels);
    return problem;
}

GradientParams gradient_params(const FilterProblem& problem, const FilterTensor& src, const FilterTensor& diff,
                               const FilterLayout& layout, int threads, const VectorCode& of) {
    GradientParams params{};
    params.src = image(src, problem.in_channels, problem.in, layout.dst_step, layout.dst_first);
    params.diff = image(diff, problem.out_channels, problem.out, layout.src_step, layout.src_first);
    params.batch = problem.batch;
    params.channel_groups = problem.groups;
    params.points = layout.points;
    params.window = layout.tile;
    for (int a = 0; a < kFilterAxes; ++a) params.tiles[a] = ceil_div(problem.in[a], layout.tile[a]);
    // The roles of taps and outputs are swapped: a window of src is the filter, the taps are the outputs.
    std::copy_n(layout.output_shape, kFilterAxes, params.window_shape);
    std::copy_n(layout.filter_shape, kFilterAxes, params.tap_shape);
    params.planes = static_cast<int>(layout.planes);
    params.zero = layout.zero.empty() ? nullptr : layout.zero.data();
    params.threads = filter_threads(problem, threads);
    lay_out_tasks(params, of.filter);
    params.in_lines = is_in_lines(params, of);
    return params;
}

namespace {

int64_t packed_size(const FilterProblem& problem, const std::string& direction) {
    return Arrangement(problem, filter_direction(direction)).packed_size(problem);
}

Bytes packing(const FilterProblem& problem, const std::string& direction) {
    return {Arrangement(problem, filter_direction(direction)).packing(problem)};
}

std::unique_ptr<Kernel> make_pack(const FilterProblem& p, const std::string& direction, int dtype, const Dims& strides,
                                  int threads) {
    const FilterWeights weights = filter_weights(p, dtype, strides);
    return filter_pack(p, filter_direction(direction), weights, threads, false);
}

template <FilterDirection direction>
std::unique_ptr<ScratchKernel> make_product(const FilterProblem& p, int src_dtype, const Dims& src_strides,
                                            int dst_dtype, const Dims& dst_strides, int bias_dtype, int threads,
                                            const Epilogue& epilogue) {
    const FilterSides sides(p, direction, src_dtype, src_strides, dst_dtype, dst_strides);
    return float_product(Joined(p, sides.src, sides.dst), direction, nullptr, bias_dtype, threads, epilogue);
}

std::unique_ptr<ScratchKernel> make_gradient(const FilterProblem& p, int src_dtype, const Dims& src_strides,
                                             int diff_dst_dtype, const Dims& diff_dst_strides, int weights_dtype,
                                             const Dims& weights_strides, int threads) {
    const FilterSides sides(p, FilterDirection::dgrad, src_dtype, src_strides, diff_dst_dtype, diff_dst_strides);
    FilterWeights weights = filter_weights(p, weights_dtype, weights_strides);
    if (!exchanges(p, code())) {
        return std::make_unique<GradientKernel>(p, sides.src, sides.dst, weights, threads, false);
    }
    std::swap(weights.in_stride, weights.out_stride);
    return std::make_unique<GradientKernel>(exchanged(p), sides.dst, sides.src, weights, threads, true);
}

}  // namespace

const Declaration kFilter[] = {
    {"FilterProblem.refusal(self)", axes_refusal, "Returns why no filter kernel computes the layer; empty if they do."},
    {"FilterProblem.packed_size(self, direction)", packed_size,
     "Returns the f32 elements of the packed weights of 'dgrad' or 'fprop'."},
    {"FilterProblem.packing(self, direction)", packing,
     "Returns the parameters of filter_pack as bytes, without the weights' layout and data: equal bytes, equal packed "
     "weights."},
    {"filter_pack(problem, direction, weights_dtype, weights_strides, threads=0)", make_pack,
     "weights (in_channels, out_channels / groups, kernel), packed",
     "packed = weights for filter_dgrad or filter_fprop. weights_strides: in channel, out channel (of one group), "
     "taps; the in channels of the groups follow each other. threads 0: the number that OpenMP gives."},
    {"filter_dgrad(problem, src_dtype, src_strides, dst_dtype, dst_strides, bias_dtype=0, threads=0, epilogue=...)",
     make_product<FilterDirection::dgrad>,
     "src (batch, in_spatial, in_channels), packed, [bias (out_channels)], epilogue's..., scratch, dst (batch, "
     "out_spatial, out_channels)",
     "dst = bias + the transposed convolution of src. A bias_dtype of 0 means no bias. Strides: batch, then spatial "
     "axes; the channels are contiguous."},
    {"filter_fprop(problem, diff_dst_dtype, diff_dst_strides, diff_src_dtype, diff_src_strides, bias_dtype=0, "
     "threads=0, epilogue=...)",
     make_product<FilterDirection::fprop>,
     "diff_dst (batch, out_spatial, out_channels), packed, [bias (in_channels)], epilogue's..., scratch, diff_src "
     "(batch, "
     "in_spatial, in_channels)",
     "diff_src = bias + the ordinary convolution of diff_dst. Strides as in filter_dgrad."},
    {"filter_wgrad(problem, src_dtype, src_strides, diff_dst_dtype, diff_dst_strides, weights_dtype, "
     "weights_strides, threads=0)",
     make_gradient,
     "src (batch, in_spatial, in_channels), diff_dst (batch, out_spatial, out_channels), scratch, diff_weights "
     "(in_channels, out_channels / groups, kernel)",
     ""},
};

}  // namespace dgo
