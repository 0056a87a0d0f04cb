#include "kernels/filtering/filter_product.hpp"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/product/arrangement.hpp"
#include "kernels/product/described.hpp"
#include "kernels/product/tasks.hpp"
#include "kernels/filtering/gradient_params.hpp"
#include "kernels/filtering/vtable.hpp"
#include "kernels/isa.hpp"
#include "kernels/scratch.hpp"
#include "kernels/sets.hpp"

namespace dgo {

namespace {

// Transformed windows of a task: as much as the weights that they meet, within these bounds. Few weights leave the
// second cache level to them; many come from beyond it for each task, and larger tasks are fewer.
constexpr int64_t kLeastLeftBytes = 256 * 1024;
constexpr int64_t kMostLeftBytes = 2048 * 1024;
constexpr int64_t kGradientBytes = 2048 * 1024;  // both factors of a step of wgrad
constexpr int64_t kParallelFloats = 1 << 16;  // transformed weights
constexpr int64_t kFewTiles = 128;
constexpr int64_t kMostTiles = 96;
constexpr int64_t kFewestTiles = 24;
constexpr int64_t kShortestStrip = 24, kStripTiles = 1024;               // results of a line, tiles of a task
constexpr int64_t kStripBytes = 9 * 1024 * 1024;  // bytes of src and dst together
constexpr int64_t kStripColumns = 512, kStripWeights = 64 * 1024;  // columns of a position; its weights
constexpr int64_t kStagedDepth = 2048;  // one pass over the depth
constexpr double kDotRate = 8;  // how many times as fast products of bf16 are as those of f32
constexpr int64_t kStageBytes = 1024 * 1024;  // shared tiles for each thread, in the second cache levels of all
constexpr double kBarrier = 1e5, kBarrierOfThread = 3e3;  // multiplications that threads waiting for each other cost
constexpr int64_t kStageTasks = 2;  // of a thread, before and after products
constexpr double kStagesGain = 0.7;  // stages take less than so much of the seconds of whole tasks
constexpr int64_t kNarrowRun = 64, kNarrowOddRun = 128;  // channels of a position in lines

const FilterCode& code() { return vector_code().filter; }

// Returns the count as an integer, bounded; only estimates read it.
int64_t whole(double count) { return static_cast<int64_t>(std::min(count, 1e18)); }

// Narrows tiles [begin, end) of a line to those whose runs all lie inside the image.
void keep_whole(const FilterImage& image, int64_t base, int64_t& begin, int64_t& end) {
    constexpr int last = kFilterAxes - 1;
    const int64_t step = image.step[last];
    for (int64_t i = 0; i < image.segments; i += image.fold) {
        const int64_t position = image.first[i][last] + step * base;
        begin = std::max(begin, ceil_div(-position, step));
        end = std::min(end, floor_div(image.size[last] - image.fold - position, step) + 1);
    }
}

// Whether sums are computed in strips: the direct form, few weights, long lines, and results of one run.
bool is_in_strips(const FilterImage& src, const FilterImage& dst, int64_t batch, const Arrangement& of) {
    constexpr int last = kFilterAxes - 1;
    if (of.layout.planes != 1 || src.type != ElementType::f32 || dst.type != ElementType::f32) return false;
    // Large tensors come from memory: products that write whole vectors fetch ahead and are faster.
    const int64_t bytes = batch * (src.batch_stride * src.item + dst.batch_stride * dst.item);
    if (bytes > kStripBytes && dst.run % (code().panel / 2) == 0) return false;
    for (size_t g = 0; g < of.groups.groups.size(); ++g) {
        const TargetGroup& group = of.groups.groups[g];
        const int64_t columns = group.target_count * dst.channels, tiles = group.tiles[last];
        const int64_t fold = whole_runs(of.groups.targets[g], dst.fold) ? dst.fold : 1;
        if (group.target_count != fold || columns > kStripColumns) return false;
        if (src.segments * src.channels * columns > kStripWeights) return false;
        int64_t begin = 0, end = tiles;
        keep_whole(src, group.base[last], begin, end);
        keep_whole(dst, group.base[last], begin, end);
        if (end - begin < std::max(kShortestStrip, tiles / 2)) return false;
    }
    return true;
}

std::string convolution_name(const std::string& direction) {
    return code_name("conv_" + direction + "_f32", vector_code().isa, code().rows, code().panel);
}

int64_t tiles_of(const ProductParams& params, const TargetGroup& group) {
    return params.batch * group.tiles[0] * group.tiles[1] * group.tiles[2];
}

int64_t unit_rows(const ProductParams& params) { return params.dot == nullptr ? code().rows : kDotBlockRows; }

// Returns how many multiplications of the product take as long as one in f32.
double unit_rate(const ProductParams& params) { return params.dot == nullptr ? 1 : kDotRate; }

// Returns the cost of a transformed value, in multiplications of the product.
double transform_cost(const ProductParams& params) { return kTransformCost * unit_rate(params); }

// Returns the work on a group's tiles: of tasks that transform windows, multiply and transform back, or in place.
SplitWork work_of(const ProductParams& params, const TargetGroup& group, int64_t most_units) {
    const int64_t columns = group.target_count * params.dst.channels;
    const int64_t channels = params.src.segments * params.src.channels;
    const int64_t run = group.folded ? params.dst.run : params.dst.channels, lanes = code().panel / 2;
    // results that need no transform are written by panels, see direct() and is_staged()
    const bool by_panels = params.planes == 1 && params.dot == nullptr && params.dst.type == ElementType::f32 &&
                           (run % code().panel == 0 || (run % lanes == 0 && channels <= kStagedDepth));
    const int64_t share = by_panels ? code().panel : code().chunk;
    const double wide = static_cast<double>(share), planes = params.planes, depth = static_cast<double>(channels);
    const bool direct = params.planes == 1;
    const double value = direct ? kReadCost * unit_rate(params) : transform_cost(params);
    SplitWork work{tiles_of(params, group), unit_rows(params), most_units, ceil_div(columns, share), 0, 0, 0};
    work.prepare = planes * depth * value;
    work.product = planes * wide * (depth + value);
    work.weights = planes * depth * wide * kWeightCost * unit_rate(params);
    work.times = params.group_count * params.channel_groups;
    return work;
}

// Returns the work on the products of a group's planes, whose tiles threads share.
SplitWork plane_work(const ProductParams& params, const TargetGroup& group) {
    const int64_t columns = group.target_count * params.dst.channels, tiles = tiles_of(params, group);
    const auto wide = static_cast<double>(code().panel);
    const auto depth = static_cast<double>(params.src.segments * params.src.channels);
    SplitWork work{tiles, unit_rows(params), ceil_div(tiles, unit_rows(params)), ceil_div(columns, code().panel), 0, 0,
                   0};
    work.prepare = depth * kSharedCost * unit_rate(params);
    work.product = wide * (depth + kReadCost * unit_rate(params));
    work.weights = depth * wide * kWeightCost * unit_rate(params);
    work.times = params.planes;
    return work;
}

// Shares the tiles of small layers by Winograd out in stages, where tasks that do everything for a few tiles and columns
// are too few or transform windows again and again: all windows, then all products by planes, then all results.
void lay_out_stages(ProductParams& params, Arrangement& arrangement) {
    if (params.planes == 1 || params.threads == 1 || params.channel_groups > 1) return;
    if (params.dot != nullptr && params.src.channels % params.dot->step != 0) return;
    double tasks = 0, stages = 0, bytes = 0;
    int64_t shared = 0, block = 0;
    std::vector<TargetGroup> groups = arrangement.groups.groups;
    for (TargetGroup& group : groups) {
        const int64_t tiles = tiles_of(params, group), columns = group.target_count * params.dst.channels;
        if (tiles == 0 || columns == 0) return;
        const int64_t chunks = ceil_div(columns, code().chunk), enough = kStageTasks * params.threads;
        const int64_t channels = params.src.segments * params.src.channels;
        const SplitWork work = plane_work(params, group);
        const Split split = cheapest_split(work, params.threads);
        const double values = static_cast<double>(tiles) * params.planes;
        const double both = values * (static_cast<double>(channels) + static_cast<double>(chunks * code().chunk));
        const double barriers = 2 * (kBarrier + kBarrierOfThread * params.threads);
        bytes = std::max(bytes, both * 4);
        const double transforms = both * (transform_cost(params) + kSharedCost * unit_rate(params)) / params.threads;
        stages += static_cast<double>(params.planes) * split.seconds + barriers +
                  transforms * (1 + kHeldUp / static_cast<double>(kStageTasks));
        tasks += cheapest_split(work_of(params, group, params.block / unit_rows(params)), params.threads).seconds;
        group.blocks = split.blocks;
        group.parts = split.parts;
        // the last vector of a run is stored beyond it, where the next one begins
        const bool whole = params.src.runs == 1 || params.src.run % (code().panel / 2) == 0;
        group.window_blocks = std::min(tiles, enough);
        group.window_parts = whole ? std::clamp<int64_t>(params.src.run / kRunStep, 1, ceil_div(enough, tiles)) : 1;
        group.result_blocks = std::min(tiles, ceil_div(enough, chunks));
        shared = std::max(shared, work.most_units * unit_rows(params));
        block = std::max(block, ceil_div(tiles, group.result_blocks));
    }
    if (stages > kStagesGain * tasks || bytes > static_cast<double>(kStageBytes * params.threads)) return;
    arrangement.groups.groups = std::move(groups);
    params.groups = arrangement.groups.groups.data();
    params.shared = shared;
    params.block = block;
    params.tasks = 0;
}

class ProductKernel final : public ScratchKernel {
public:
    ProductKernel(const Joined& joined, FilterDirection direction, int bias_dtype, int threads,
                  const Epilogue& epilogue, const Dot* dot)
        : ProductKernel(joined.problem, direction, joined.src, joined.dst, bias_dtype, threads, epilogue, dot) {}

    ProductKernel(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
                  const FilterTensor& dst, int bias_dtype, int threads, const Epilogue& epilogue, const Dot* dot)
        : arrangement_(problem, direction, dot != nullptr ? kBf16Panels : filter_panels()),
          epilogue_(fitted_epilogue(epilogue, problem.batch, problem.groups * arrangement_.columns,
                                    direction == FilterDirection::dgrad ? problem.out : problem.in, dst)) {
        const bool dgrad = direction == FilterDirection::dgrad;
        name = dgrad ? "filter_dgrad" : "filter_fprop";
        by = dot != nullptr ? dot_name(*dot) : convolution_name(dgrad ? "dgrad" : "fprop");
        const Images images(problem, direction, arrangement_, src, dst);
        params_ = product_params(problem, arrangement_, images, bias_dtype, threads);
        arity = (params_.has_bias ? 5 : 4) + epilogue_.operands();
        params_.dot = dot;
        if (dot != nullptr) params_.src = apart(images.src, dot->unit);
        over_operands = params_.strips = is_in_strips(params_.src, params_.dst, problem.batch, arrangement_);
        products = lay_out_tiles(params_, arrangement_);
        lay_out_stages(params_, arrangement_);
        params_.activation = epilogue_.activation();
        params_.scratch_per_thread = code().products_scratch(params_);
        scratch_bytes =
            code().products_shared(params_) + checked_product(name, {params_.scratch_per_thread, params_.threads});
        checked_product(name, {scratch_bytes});
    }

    void run(char* const* operands) const override {
        const char* bias = params_.has_bias ? operands[2] : nullptr;
        char* const* last = operands + arity - 2;
        const EpilogueCall epilogue = epilogue_.call(operands + (params_.has_bias ? 3 : 2));
        code().products(params_, operands[0], operands[1], bias, epilogue, last[0], last[1]);
    }

private:
    Arrangement arrangement_;
    FittedEpilogue epilogue_;
    ProductParams params_{};
};

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
        params_.bf16 = dot;
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
    params.block = std::clamp<int64_t>(kGradientBytes / std::max<int64_t>(1, row_bytes), 48, 256);
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
    GradientKernel(const FilterProblem& problem, const FilterTensor& src, const FilterTensor& diff,
                   const FilterWeights& weights, int threads)
        : layout_(fprop_layout(problem)),
          params_(gradient_params(problem, src, diff, layout_, threads, vector_code())) {
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
        params_.scratch_per_thread = code().gradient_scratch(params_);
        params_.sums = checked_product(name, {params_.scratch_per_thread, params_.threads});
        scratch_bytes = params_.sums + code().gradient_sums(params_);
        checked_product(name, {scratch_bytes});
        const int64_t columns = params_.diff.segments * params_.diff.channels;
        const int64_t pairs = problem.in_channels * problem.out_channels * problem.groups;
        products = whole(static_cast<double>(tiles_of(params_)) * static_cast<double>(used_products(layout_, {0})) *
                         padded(pairs, columns, filter_panels()));
    }

    void run(char* const* operands) const override {
        code().gradient(params_, operands[0], operands[1], operands[2], operands[3]);
    }

private:
    FilterLayout layout_;
    GradientParams params_;
};

}  // namespace

ProductParams product_params(const FilterProblem& problem, const Arrangement& of, const Images& images, int bias_dtype,
                             int threads) {
    const FilterLayout& layout = of.layout;
    ProductParams params{};
    params.has_bias = bias_dtype != 0;
    params.bias_type = params.has_bias ? float_type(bias_dtype) : ElementType::f32;
    params.src = images.src;
    params.dst = images.dst;
    params.batch = problem.batch;
    params.channel_groups = problem.groups;
    params.points = layout.points;
    params.outputs = layout.tile;
    std::copy_n(layout.filter_shape, kFilterAxes, params.filter_shape);
    std::copy_n(layout.output_shape, kFilterAxes, params.output_shape);
    params.planes = static_cast<int>(layout.planes);
    params.zero = layout.zero.empty() ? nullptr : layout.zero.data();
    params.packed = of.groups.packed;
    params.threads = filter_threads(problem, threads);
    return params;
}

int64_t lay_out_tiles(ProductParams& params, Arrangement& arrangement) {
    int64_t products = 0;
    const bool is_f32 = params.dot == nullptr;
    const int64_t row_bytes = std::max<int64_t>(
        1, params.planes * params.src.segments * params.src.channels * (is_f32 ? 4 : params.dot->item));
    const int64_t rows = unit_rows(params);
    params.group_count = static_cast<int64_t>(arrangement.groups.groups.size());
    for (size_t g = 0; g < arrangement.groups.groups.size(); ++g) {
        TargetGroup& group = arrangement.groups.groups[g];
        const int64_t tiles = tiles_of(params, group);
        const int64_t columns = group.target_count * params.dst.channels;
        const int64_t left = std::clamp(row_bytes * columns, kLeastLeftBytes, kMostLeftBytes);
        // A strip looks up next to nothing; threads share the lines.
        const int64_t share = std::max(kStripTiles / 8, tiles / (4 * params.threads));
        const int64_t strip = params.threads == 1 ? kStripTiles : std::min(kStripTiles, share);
        const int64_t block =
            params.strips ? strip : std::clamp(left / row_bytes / rows * rows, kFewestTiles, kMostTiles);
        const int64_t units = ceil_div(tiles, rows);  // register tiles
        group.folded = whole_runs(arrangement.groups.targets[g], params.dst.fold);
        group.blocks = columns == 0 ? 0 : ceil_div(tiles, block);
        group.parts = 1;
        if (params.threads > 1 && group.blocks > 0 && !params.strips) {
            const Split split =
                cheapest_split(work_of(params, group, std::max<int64_t>(1, block / rows)), params.threads);
            group.blocks = split.blocks;
            group.parts = split.parts;
        } else if (group.blocks > 1 && group.blocks < 8 * params.threads) {
            // Few blocks are rounded up to a multiple of the threads, so that each thread computes equally many.
            group.blocks = std::min(ceil_div(group.blocks, params.threads) * params.threads, units);
        }
        group.first_task = params.tasks;
        params.tasks += group.blocks * group.parts;
        if (group.blocks > 0) params.block = std::max(params.block, ceil_div(units, group.blocks) * rows);
        const int64_t used = used_products(arrangement.layout, arrangement.groups.targets[g]);
        const int64_t pairs = params.src.channels * params.dst.channels * params.channel_groups;
        products +=
            whole(static_cast<double>(tiles) * static_cast<double>(used) * padded(pairs, columns, arrangement.panels));
    }
    params.groups = arrangement.groups.groups.data();
    return products;
}

std::unique_ptr<ScratchKernel> filter_product(const Joined& joined, FilterDirection direction, int bias_dtype,
                                              int threads, const Epilogue& epilogue, const Dot* dot) {
    return std::make_unique<ProductKernel>(joined, direction, bias_dtype, threads, epilogue, dot);
}

std::unique_ptr<Kernel> filter_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, bool dot) {
    return std::make_unique<PackKernel>(problem, direction, weights, threads, dot);
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

bool filter_in_strips(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
                      const FilterTensor& dst) {
    double weights = static_cast<double>(problem.in_channels) * static_cast<double>(problem.out_channels);
    for (int a = 0; a < kFilterAxes; ++a) {
        if (problem.tile[a] > 1) return false;
        weights *= static_cast<double>(problem.kernel[a]);
    }
    if (weights > static_cast<double>(kStripWeights)) return false;
    const Joined joined(problem, src, dst);
    const Arrangement of(joined.problem, direction);
    const Images images(joined.problem, direction, of, joined.src, joined.dst);
    return is_in_strips(images.src, images.dst, problem.batch, of);
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
    return filter_product(Joined(p, sides.src, sides.dst), direction, bias_dtype, threads, epilogue, nullptr);
}

std::unique_ptr<ScratchKernel> make_gradient(const FilterProblem& p, int src_dtype, const Dims& src_strides,
                                             int diff_dst_dtype, const Dims& diff_dst_strides, int weights_dtype,
                                             const Dims& weights_strides, int threads) {
    const FilterSides sides(p, FilterDirection::dgrad, src_dtype, src_strides, diff_dst_dtype, diff_dst_strides);
    return std::make_unique<GradientKernel>(p, sides.src, sides.dst, filter_weights(p, weights_dtype, weights_strides),
                                            threads);
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
