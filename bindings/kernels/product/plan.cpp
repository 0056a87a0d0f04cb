#include "kernels/product/plan.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/product/tasks.hpp"
#include "kernels/sets.hpp"

namespace dgo {

namespace {

// Transformed windows of a task: as much as the weights that they meet, within these bounds. Few weights leave the
// second cache level to them; many come from beyond it for each task, and larger tasks are fewer.
constexpr int64_t kLeastLeftBytes = 256 * 1024;
constexpr int64_t kMostLeftBytes = 2048 * 1024;
constexpr int64_t kMostTiles = 96;
constexpr int64_t kFewestTiles = 24;
constexpr int64_t kTileBytes = 64;  // of a row of a tile
constexpr int64_t kFewestTileRows = 6;
// Rows of a whole tile that take as long as a tile's weights and one of its rows; a tile of 16 rows takes 16.
constexpr double kTileWeights = 6.4, kTileRow = 0.6;
constexpr double kCopiedTile = 750;  // rows by columns whose products take as long as copying the rows of a tile
constexpr double kTilesGain = 0.96;  // tiles of fewer rows take less than so much of the time
// Rows that are read where they lie, of one task if they are all: weights from beyond the second cache level are read
// once, and the rows stay there beside them.
constexpr int64_t kMostRowBytes = 512 * 1024, kMostRows = 256;
constexpr int64_t kFewestUnitRows = 128, kMostUnitRows = 256;  // rows of a task whose rows are read in units
constexpr int64_t kShortestStrip = 24, kStripTiles = 1024;               // results of a line, tiles of a task
constexpr int64_t kStripBytes = 9 * 1024 * 1024;  // bytes of src and dst together
constexpr int64_t kStripColumns = 512, kStripWeights = 64 * 1024;  // columns of a position; its weights
constexpr int64_t kLineTiles = 20, kLineBytes = 16 * 1024;  // of lines that strips copy at once: register tiles, bytes
constexpr int64_t kCutShare = 32;  // lines of f32 are copied if one of so many tiles reads absent positions
constexpr double kRagged = 0.15;  // register tiles of the time that rows which fill none add
constexpr int64_t kStagedDepth = 2048;  // one pass over the depth
constexpr double kDotRate = 8;  // how many times as fast products of bf16 are as those of f32
constexpr int64_t kStageBytes = 1024 * 1024;  // shared tiles for each thread, in the second cache levels of all
constexpr double kBarrier = 1e5, kBarrierOfThread = 3e3;  // multiplications that threads waiting for each other cost
constexpr int64_t kStageTasks = 2;  // of a thread, before and after products
// Stages take less than so much of the seconds of whole tasks, which many threads share less evenly than estimated.
constexpr double kStagesGain = 0.7, kStagesGainOfMany = 0.85;
constexpr int64_t kFewTasks = 4;  // of a thread
constexpr int64_t kFewUnits = 3;  // register tiles of a thread

const FilterCode& code() { return vector_code().filter; }

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

// Whether the runs of tiles along a line overlap in memory, or lie no farther apart than they are long, so that they can
// be copied as one row.
bool is_one_row(const FilterImage& src) {
    constexpr int last = kFilterAxes - 1;
    return src.strides[last] == src.channels && src.step[last] <= 2 * src.fold;
}

// Returns the rows of strips whose runs are copied at once: of one run as many as stay near, of several runs those of a
// line, as further lines of results read them again. Returns 0 if runs are read in src: f32, where few tiles of a line
// read absent positions, or lines are too long to be copied once.
int64_t copied_rows(const FilterImage& src, const std::vector<TargetGroup>& groups) {
    constexpr int last = kFilterAxes - 1;
    if (!is_one_row(src)) return 0;
    const bool widened = src.type != ElementType::f32;
    const int64_t most = kLineTiles * code().rows, pair = 2 * code().rows;
    int64_t longest = 1, tiles = 0, cut = 0;
    for (const TargetGroup& group : groups) {
        int64_t begin = 0, end = group.tiles[last];
        keep_whole(src, group.base[last], begin, end);
        longest = std::max(longest, group.tiles[last]);
        tiles += group.tiles[last];
        cut += group.tiles[last] - (end - begin);
    }
    if (!widened && (src.runs == 1 || src.runs > kKeptRuns || cut * kCutShare < tiles || longest > most)) return 0;
    if (src.runs > 1) return std::min(longest, most);
    const int64_t row_bytes = src.step[last] * src.channels * static_cast<int64_t>(sizeof(float));
    return std::clamp(kLineBytes / row_bytes / pair * pair, pair, most);
}

// Whether sums are computed in strips: the direct form, few weights, long lines, and results of one run.
bool is_in_strips(const FilterImage& src, const FilterImage& dst, int64_t batch, const Arrangement& of) {
    constexpr int last = kFilterAxes - 1;
    if (of.layout.planes != 1 || (src.type != ElementType::f32 && !is_one_row(src))) return false;
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

int64_t tiles_of(const ProductParams& params, const TargetGroup& group) {
    return params.batch * group.tiles[0] * group.tiles[1] * group.tiles[2];
}

// Whether results of runs of so many elements need no transform and are written by panels, see direct() and is_staged().
bool is_by_panels(const ProductParams& params, int64_t run) {
    return params.planes == 1 && params.dot == nullptr && run % (code().panel / 2) == 0 &&
           ((params.dst.type == ElementType::f32 && run % code().panel == 0) ||
            params.src.segments * params.src.channels <= kStagedDepth);
}

// Whether many threads share register tiles and columns of few results more evenly than lines; sums by panels begin with
// the bias as well.
bool is_short(const ProductParams& params, const Arrangement& of) {
    int64_t units = 0, columns = 0;
    for (size_t g = 0; g < of.groups.groups.size(); ++g) {
        const TargetGroup& group = of.groups.groups[g];
        const int64_t fold = whole_runs(of.groups.targets[g], params.dst.fold) ? params.dst.fold : 1;
        if (!is_by_panels(params, fold * params.dst.channels)) return false;
        units = std::max(units, ceil_div(tiles_of(params, group), code().rows));
        columns = std::max(columns, group.target_count * params.dst.channels);
    }
    const bool one_panel = columns <= code().panel;
    return params.threads >= kManyThreads && units < (one_panel ? 1 : kFewUnits) * params.threads;
}

// Returns the rows of which blocks consist: threads share thirds of register tiles more evenly than whole ones.
int64_t unit_rows(const ProductParams& params) {
    if (params.dot != nullptr) return 2 * params.tile_rows;
    return params.threads == 1 || params.strips ? code().rows : code().rows / 3;
}

// Returns the rows that whole register tiles would have in the time which a block loses by its last one.
double ragged(const ProductParams& params) {
    return params.dot == nullptr ? kRagged * static_cast<double>(code().rows) : 0;
}

int64_t whole_rows(const ProductParams& params) { return params.dot == nullptr ? code().rows : unit_rows(params); }

// Returns how many multiplications of the product take as long as one in f32.
double unit_rate(const ProductParams& params) { return params.dot == nullptr ? 1 : kDotRate; }

// Returns the cost of a transformed value, in multiplications of the product.
double transform_cost(const ProductParams& params) { return kTransformCost * unit_rate(params); }

// Returns the work on a group's tiles: of tasks that transform windows, multiply and transform back, or in place.
SplitWork work_of(const ProductParams& params, const TargetGroup& group, int64_t most_units) {
    const int64_t columns = group.target_count * params.dst.channels;
    const int64_t channels = params.src.segments * params.src.channels;
    const int64_t run = group.folded ? params.dst.run : params.dst.channels;
    const int64_t share = is_by_panels(params, run) ? code().panel : code().chunk;
    const double wide = static_cast<double>(share), planes = params.planes, depth = static_cast<double>(channels);
    const bool direct = params.planes == 1;
    const double value = direct ? kReadCost * unit_rate(params) : transform_cost(params);
    SplitWork work{
        tiles_of(params, group), unit_rows(params), most_units, ceil_div(columns, share), ragged(params), 0, 0, 0};
    work.prepare = planes * depth * value;
    work.product = planes * wide * (depth + value);
    work.weights = planes * depth * wide * kWeightCost * unit_rate(params);
    work.times = params.group_count * params.channel_groups;
    return work;
}

// Returns the work on the products of a group's planes, whose tiles threads share.
SplitWork plane_work(const ProductParams& params, const TargetGroup& group) {
    const int64_t columns = group.target_count * params.dst.channels, tiles = tiles_of(params, group);
    const int64_t panel = panels(params.dot).columns;
    const auto wide = static_cast<double>(panel);
    const auto depth = static_cast<double>(params.src.segments * params.src.channels);
    SplitWork work{
        tiles, unit_rows(params), ceil_div(tiles, unit_rows(params)), ceil_div(columns, panel), ragged(params), 0, 0,
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
    if (params.dot != nullptr && (params.dot->windows == nullptr || params.src.channels % params.dot->step != 0))
        return;
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
        shared = std::max(shared, ceil_div(tiles, whole_rows(params)) * whole_rows(params));
        block = std::max(block, ceil_div(tiles, group.result_blocks));
    }
    const double gain = params.threads < kManyThreads ? kStagesGain : kStagesGainOfMany;
    if (stages > gain * tasks || bytes > static_cast<double>(kStageBytes * params.threads)) return;
    arrangement.groups.groups = std::move(groups);
    params.groups = arrangement.groups.groups.data();
    params.shared = shared;
    params.block = block;
    params.tasks = 0;
}

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

// Whether the left factor is multiplied where it lies, in units of a set.
bool by_units(const ProductParams& params) { return params.dot != nullptr && params.planes == 1; }

// Returns the tiles of a task.
int64_t block_of(const ProductParams& params, int64_t tiles, int64_t columns) {
    const int64_t item = params.dot == nullptr ? 4 : params.dot->item, rows = unit_rows(params);
    const int64_t row_bytes = std::max<int64_t>(1, params.planes * params.src.segments * params.src.channels * item);
    if (by_units(params)) {
        return std::clamp(kMostLeftBytes / row_bytes, kFewestUnitRows, kMostUnitRows) / rows * rows;
    }
    if (!params.strips) {
        const int64_t left = std::clamp(row_bytes * columns, kLeastLeftBytes, kMostLeftBytes);
        const bool once = params.planes == 1 && row_bytes * columns > kLeastLeftBytes &&
                          tiles <= std::min(kMostRowBytes / row_bytes, kMostRows);
        return std::clamp(left / row_bytes / rows * rows, kFewestTiles, once ? kMostRows : kMostTiles);
    }
    // A strip looks up next to nothing; threads share the lines.
    const int64_t share = std::max(kStripTiles / 8, tiles / (4 * params.threads));
    return params.threads == 1 ? kStripTiles : std::min(kStripTiles, share);
}

// Returns the parts of the columns of few blocks in units: each thread looks up the rows for itself.
int64_t unit_parts(const ProductParams& params, int64_t blocks, int64_t columns) {
    blocks *= params.channel_groups;
    if (params.threads == 1 || blocks == 0 || blocks >= 4 * params.threads) return 1;
    return std::clamp<int64_t>(ceil_div(2 * params.threads, blocks), 1,
                               std::max<int64_t>(1, ceil_div(columns, kDotColumns)));
}

// Returns the time that tiles of `rows` rows take, in rows of a whole tile: of whole lines, or tiles that cross lines.
double tiled_rows(const ProductParams& params, const std::vector<TargetGroup>& groups, int64_t rows, bool whole_lines) {
    constexpr int last = kFilterAxes - 1;
    double all = 0;
    for (const TargetGroup& group : groups) {
        const int64_t length = group.tiles[last], positions = tiles_of(params, group);
        if (positions == 0) continue;
        const double lines = static_cast<double>(positions / length);
        if (whole_lines) {
            all += lines * static_cast<double>(ceil_div(length, rows)) *
                   (kTileWeights + kTileRow * static_cast<double>(rows));
            continue;
        }
        // a line ends within a tile, or at its end
        const double crossing =
            (lines - 1) * (1 - static_cast<double>(std::gcd(length, rows)) / static_cast<double>(rows));
        all += static_cast<double>(ceil_div(positions, rows) * rows);
        all += std::min(crossing, static_cast<double>(ceil_div(positions, rows))) * kCopiedTile /
               static_cast<double>(group.target_count * params.dst.channels);
    }
    return all;
}

// Chooses the rows of a tile: kDotRows, or fewer that divide lines more evenly, as rows of several lines are copied one
// by one. Returns whether lines of bf16 are filled up to whole tiles; those of integers must consist of whole tiles, whose
// results are rounded at once.
bool fit_tiles(ProductParams& params, const std::vector<TargetGroup>& groups) {
    params.tile_rows = kDotRows;
    if (!by_units(params) || params.dot->step * params.dot->item != kTileBytes) return false;
    const bool fills = params.dot->item == 2;
    bool whole_lines = false;
    double least = kTilesGain * tiled_rows(params, groups, kDotRows, false);
    for (int64_t rows = kDotRows; rows >= kFewestTileRows; --rows) {
        const double all = tiled_rows(params, groups, rows, true);
        const auto divides = [&](const TargetGroup& group) { return group.tiles[kFilterAxes - 1] % rows == 0; };
        if (all >= least || !(fills || std::all_of(groups.begin(), groups.end(), divides))) continue;
        least = all;
        params.tile_rows = rows;
        whole_lines = true;
    }
    return whole_lines;
}

// Shares tiles out into tasks; returns the number of multiplications.
int64_t lay_out_tiles(ProductParams& params, Arrangement& arrangement) {
    constexpr int last = kFilterAxes - 1;
    double products = 0;
    const bool whole_lines = fit_tiles(params, arrangement.groups.groups);
    const int64_t rows = params.unit = unit_rows(params);
    params.group_count = static_cast<int64_t>(arrangement.groups.groups.size());
    for (size_t g = 0; g < arrangement.groups.groups.size(); ++g) {
        TargetGroup& group = arrangement.groups.groups[g];
        const int64_t positions = tiles_of(params, group);
        if (whole_lines) group.tiles[last] = ceil_div(group.tiles[last], params.tile_rows) * params.tile_rows;
        const int64_t tiles = tiles_of(params, group);
        const int64_t columns = group.target_count * params.dst.channels;
        const int64_t block = block_of(params, tiles, columns), units = ceil_div(tiles, rows);  // register tiles
        group.folded = whole_runs(arrangement.groups.targets[g], params.dst.fold);
        group.blocks = columns == 0 ? 0 : ceil_div(tiles, block);
        group.parts = 1;
        if (params.threads > 1 && group.blocks > 0 && !params.strips && !by_units(params)) {
            const Split split =
                cheapest_split(work_of(params, group, std::max<int64_t>(1, block / rows)), params.threads);
            group.blocks = split.blocks;
            group.parts = split.parts;
        } else if (group.blocks > 1 && group.blocks < 8 * params.threads) {
            // Few blocks are rounded up to a multiple of the threads, so that each thread computes equally many.
            group.blocks = std::min(ceil_div(group.blocks, params.threads) * params.threads, units);
        }
        if (by_units(params)) group.parts = unit_parts(params, group.blocks, columns);
        group.first_task = params.tasks;
        params.tasks += group.blocks * group.parts;
        const int64_t most = group.blocks == 0 ? 0 : ceil_div(units, group.blocks) * rows;
        params.block = std::max(params.block, ceil_div(most, whole_rows(params)) * whole_rows(params));
        const int64_t used = used_products(arrangement.layout, arrangement.groups.targets[g]);
        const int64_t pairs = params.src.channels * params.dst.channels * params.channel_groups;
        products +=
            static_cast<double>(positions) * static_cast<double>(used) * padded(pairs, columns, arrangement.panels);
    }
    params.groups = arrangement.groups.groups.data();
    return bounded(products);
}

class FloatProduct final : public ProductKernel {
public:
    FloatProduct(const Joined& joined, FilterDirection direction, const Dot* dot, int bias_dtype, int threads,
                 const Epilogue& epilogue)
        : ProductKernel(joined, direction, dot, bias_dtype, threads, epilogue) {
        const std::string to = direction == FilterDirection::dgrad ? "dgrad" : "fprop";
        name = (by_units(params_) ? "bf16_" : "filter_") + to;
        if (dot == nullptr) by = convolution_name(to);
        arity = (params_.has_bias ? 5 : 4) + epilogue_.operands();
        runs(by_units(params_) ? vector_code().dot.bf16 : code().products);
    }

    void run(char* const* operands) const override {
        const char* bias = params_.has_bias ? operands[2] : nullptr;
        call({operands[0], operands[1], bias, epilogue_.call(operands + (params_.has_bias ? 3 : 2))}, operands);
    }
};

}  // namespace

ProductKernel::ProductKernel(const Joined& joined, FilterDirection direction, const Dot* dot, int bias_dtype,
                             int threads, const Epilogue& epilogue)
    : arrangement_(joined.problem, direction, panels(dot)),
      epilogue_(fitted_epilogue(epilogue, joined.problem.batch, joined.problem.groups * arrangement_.columns,
                                direction == FilterDirection::dgrad ? joined.problem.out : joined.problem.in,
                                joined.dst)) {
    const Images images(joined.problem, direction, arrangement_, joined.src, joined.dst);
    params_ = product_params(joined.problem, arrangement_, images, bias_dtype, threads);
    params_.dot = dot;
    if (dot != nullptr) {
        by = dot_name(*dot);
        params_.src = apart(images.src, params_.planes > 1 ? kBf16Unit : dot->unit);
    } else {
        params_.strips =
            !is_short(params_, arrangement_) && is_in_strips(params_.src, params_.dst, params_.batch, arrangement_);
        params_.line_rows = params_.strips ? copied_rows(params_.src, arrangement_.groups.groups) : 0;
        over_operands = params_.strips && params_.dst.type == ElementType::f32;
    }
    products = lay_out_tiles(params_, arrangement_);
    lay_out_stages(params_, arrangement_);
    if (params_.shared == 0) {
        const int64_t tasks = std::max<int64_t>(params_.tasks * params_.channel_groups, 1);
        params_.fetches_parts = params_.threads >= kManyThreads && tasks <= kFewTasks * params_.threads;
        params_.threads = static_cast<int>(std::min<int64_t>(params_.threads, tasks));
    }
    params_.activation = epilogue_.activation();
}

void ProductKernel::runs(const ProductCode& code) {
    code_ = &code;
    params_.scratch_per_thread = code.scratch(params_);
    const int64_t shared = code.shared == nullptr ? 0 : code.shared(params_);
    scratch_bytes = shared + checked_product(name, {params_.scratch_per_thread, params_.threads});
    checked_product(name, {scratch_bytes});
}

std::string convolution_name(const std::string& direction) {
    return code_name("conv_" + direction + "_f32", vector_code().isa, code().rows, code().panel);
}

std::unique_ptr<ScratchKernel> float_product(const Joined& joined, FilterDirection direction, const Dot* dot,
                                             int bias_dtype, int threads, const Epilogue& epilogue) {
    return std::make_unique<FloatProduct>(joined, direction, dot, bias_dtype, threads, epilogue);
}

bool is_in_strips(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
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

}  // namespace dgo
