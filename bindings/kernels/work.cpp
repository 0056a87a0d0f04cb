// The work of a kernel's run, from which its time is estimated.
#include <algorithm>
#include <numeric>
#include <utility>

#include "common/error.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/product/plan.hpp"
#include "kernels/filtering/gradient_params.hpp"
#include "kernels/isa.hpp"

namespace dgo {

namespace {

struct Work {
    static constexpr const char* kClass = "Work";
    double products = 0;  // multiplications, with those that only fill up vectors and register tiles
    double values = 0;    // elements that pass through a transform or a gather
    double runs = 0;      // rows of channels that are fetched or written one by one
    double weights = 0;   // packed weights that are read, or sums of a gradient that are written
};

enum class WorkOf { dgrad, fprop, wgrad };

// Beginning and storing a register tile takes as long as so many products for each of its results.
constexpr double kTilePrice = 8;
// In strips, which sum up all taps: the same for a tile; factors of products and of values, relative to other tiles; values
// for each element that is widened or rounded.
constexpr double kStripPrice = 3, kInStrips = 0.88, kStripValues = 0.7, kConverted = 0.3;
// Results that do not fill whole panels go through the scratch.
constexpr double kThroughScratch = 2.5;
// Absent taps of Winograd break the long sums of fprop into short ones.
constexpr double kBrokenSums = 1.1;
// In wgrad, runs that take as long as copying a position of so few channels that they fill no register tile.
constexpr double kFewRows = 5;
// The factor of transforms of tiles of more than 3 results, which take more additions for a value.
constexpr double kLargeTransform = 2.0;
// The cost of lines multiplied in place, relative to packed ones.
constexpr double kInLines = 1.1;
// Multiplications that take as long as adding a lane of a sum of few rows to the others.
constexpr double kSummedLane = 10;

double padded(double count, int64_t multiple) {
    const auto units = static_cast<int64_t>(count + static_cast<double>(multiple) - 1) / multiple;
    return static_cast<double>(units * multiple);
}

double number(int64_t count) { return static_cast<double>(count); }

// Counts the tiles of an axis, into which the results of each phase of the stride are cut.
struct AxisWork {
    double tiles, phases, points, fetched, written;  // points: products of a tile in all phases
    bool uneven;                                      // phases have unlike numbers of taps

    AxisWork(const FilterProblem& p, int a) {
        const int64_t kernel = p.kernel[a], tile = p.tile[a];
        // One position meets every tap once: it runs as kernel == stride.
        const int64_t stride = p.in[a] == 1 ? std::max(p.stride[a], kernel) : p.stride[a];
        const int64_t length = filter_length(p, a), several = filters(p, a);
        const auto products = [&](int64_t taps) {
            if (several > 1 && tile > 1) return several * (tile + length - 1);
            return taps > 1 && tile > 1 ? tile + taps - 1 : taps * tile;
        };
        const int64_t fewest = kernel / stride, longer = kernel % stride;
        tiles = number(ceil_div(ceil_div(p.out[a], stride), tile));
        phases = number(stride);
        points = number(longer * products(fewest + 1) + (stride - longer) * products(fewest));
        fetched = number(tile + ceil_div(kernel, stride) - 1);
        written = number(tile * stride);
        uneven = tile > 1 && kernel % p.stride[a] != 0;
    }
};

double volume(const Axes& sizes) { return number(sizes[0]) * number(sizes[1]) * number(sizes[2]); }

FilterTensor dense(const Axes& size, int64_t channels, int dtype) {
    FilterTensor tensor;
    tensor.dtype = dtype;
    int64_t step = channels;
    for (int a = kFilterAxes - 1; a >= 0; --a) {
        tensor.strides[a] = step;
        step *= size[a];
    }
    tensor.batch_stride = step;
    return tensor;
}

bool is_in_strips(const FilterProblem& p, WorkOf direction, int src_dtype, int dst_dtype) {
    const FilterTensor in = dense(p.in, p.groups * p.in_channels, src_dtype);
    const FilterTensor out = dense(p.out, p.groups * p.out_channels, dst_dtype);
    return direction == WorkOf::dgrad ? is_in_strips(p, FilterDirection::dgrad, in, out)
                                      : is_in_strips(p, FilterDirection::fprop, out, in);
}

Work filter_work(const FilterProblem& p, WorkOf direction, int src_dtype, int dst_dtype, int threads,
                 const VectorCode& of) {
    if (direction == WorkOf::wgrad && exchanges(p, of.filter)) {
        return filter_work(exchanged(p), direction, dst_dtype, src_dtype, threads, of);
    }
    constexpr int last = kFilterAxes - 1;
    const AxisWork axes[] = {{p, 0}, {p, 1}, {p, 2}};
    double tiles = number(p.batch * p.groups), phases = 1, points = 1, fetched = 1, written = 1;
    bool uneven = false, tiled = false, large = false;
    for (int a = 0; a < kFilterAxes; ++a) {
        tiles *= axes[a].tiles;
        phases *= axes[a].phases;
        points *= axes[a].points;
        fetched *= axes[a].fetched;
        written *= axes[a].written;
        uneven = uneven || axes[a].uneven;
        tiled = tiled || p.tile[a] > 1;
        large = large || p.tile[a] > kLargeTile;
    }
    const double in = number(p.in_channels), out = number(p.out_channels);
    Work work;
    work.weights = number(p.groups) * points * in * out;
    if (direction == WorkOf::wgrad && !tiled) {
        const FilterLayout layout = fprop_layout(p);
        const GradientParams params =
            gradient_params(p, dense(p.in, p.groups * p.in_channels, src_dtype),
                            dense(p.out, p.groups * p.out_channels, dst_dtype), layout, threads, of);
        if (params.in_lines) {
            const double all = number(p.batch * p.groups) * volume(p.in) * volume(p.kernel);
            const double run = number(params.diff.run);
            work.products = all * padded(in, of.filter.rows) * out * padded(run, of.lanes) / run * kInLines;
            return work;
        }
    }
    const bool strips = direction != WorkOf::wgrad && is_in_strips(p, direction, src_dtype, dst_dtype);
    // Phases of the last axis share a vector.
    const double together = axes[last].phases;
    double pairs =
        direction == WorkOf::fprop ? padded(in, of.lanes) * out : in * padded(out * together, of.lanes) / together;
    const double width = direction == WorkOf::dgrad   ? out * number(p.stride[last])
                         : direction == WorkOf::fprop ? in
                                                      : out * number(p.kernel[last]);
    const double depth = direction == WorkOf::dgrad ? in : direction == WorkOf::fprop ? out * volume(p.stride) : tiles;
    const double taps = points / phases;
    pairs *= strips ? kInStrips * (1 + kStripPrice / (depth * taps)) : (depth + kTilePrice) / depth;
    const bool broken = uneven && direction == WorkOf::fprop;
    const bool whole = tiled || padded(width, of.filter.panel) == width;
    work.products = tiles * points * pairs * (broken ? kBrokenSums : 1.0);
    if (direction == WorkOf::dgrad && !tiled && points < phases) {
        // phases without a tap are multiplied by zeros where they share a panel with others
        const FilterLayout layout = dgrad_layout(p);
        std::vector<int32_t> targets(static_cast<size_t>(layout.targets));
        std::iota(targets.begin(), targets.end(), 0);
        const PanelSizes panels{of.filter.panel, of.filter.chunk, 1, of.filter.panel / 2};
        const double each = multiplied(layout, targets, p.out_channels, panels);
        work.products = std::max(work.products, tiles * (in + kTilePrice) * each);
    }
    work.values = (large ? kLargeTransform : 1.0) * tiles * points * (in / phases + out);
    if (strips) {
        const double images = number(p.batch * p.groups), src = volume(p.in) * in, dst = volume(p.out) * out;
        work.values = kStripValues * images * (src + dst);
        // Lines of bf16 or f16 are widened once; results are rounded.
        if (float_type(src_dtype) != ElementType::f32) work.values += kConverted * images * src;
        if (float_type(dst_dtype) != ElementType::f32) work.values += kConverted * images * dst;
        return work;
    }
    const bool few = direction == WorkOf::wgrad && !tiled && in < number(of.filter.rows);
    work.runs = (whole ? 1.0 : kThroughScratch) * tiles * (fetched + written) * (few ? kFewRows : 1.0);
    return work;
}

Work col2im_work(const FilterProblem& p, const VectorCode& of) {
    constexpr int last = kFilterAxes - 1;
    const double in = number(p.in_channels), out = number(p.out_channels);
    const double places = number(p.batch) * volume(p.in), src = places * in,
                 dst = number(p.batch) * volume(p.out) * out;
    double lanes = 0;
    for (int64_t tap = 0; tap < p.kernel[last]; tap += p.stride[last]) {
        lanes += padded(number(std::min(p.stride[last], p.kernel[last] - tap)) * out, of.lanes);
    }
    Work work;
    work.products = places * padded(volume(p.kernel) * out, of.lanes) * (in + kTilePrice);
    work.values = places * number(p.kernel[0] * p.kernel[1]) * lanes + src + dst;
    work.runs = dst / (number(p.stride[last]) * out);
    work.weights = volume(p.kernel) * in * out;
    return work;
}

Work row_product_work(int64_t rows, int64_t columns, int64_t depth, const VectorCode& of) {
    const RowTiles& few = of.rows.tiles;
    if (columns < rows && (rows < few.few || few.dots(columns, depth, of.lanes))) std::swap(rows, columns);
    const bool across = rows >= few.few;
    // a last row alone has a tile of its own
    const int64_t tile = across ? of.filter.rows : rows % few.rows == 1 ? 1 : few.rows;
    Work work;
    // a sum of few rows is the sum of a vector's lanes
    const double deep = number(depth) + (across ? 0 : kSummedLane * number(of.depthwise.lanes));
    work.products = deep * padded(number(rows), tile) * padded(number(columns), across ? of.filter.panel : few.columns);
    work.weights = across ? number(columns) * number(depth) * number(ceil_div(rows, kRowProductRows)) : 0.0;
    return work;
}

WorkOf work_of(const std::string& name) {
    if (name == "dgrad") return WorkOf::dgrad;
    if (name == "fprop") return WorkOf::fprop;
    if (name == "wgrad") return WorkOf::wgrad;
    fail(ErrorKind::invalid_argument, "filter_work: there is no direction '" + name + "'");
}

template <double Work::* field>
double part(const Work& work) {
    return work.*field;
}

}  // namespace

const Declaration kWorks[] = {
    {"Work", "The work of a run of a kernel, from which its time is estimated."},
    {"Work.products", part<&Work::products>,
     "Multiplications, with those that only fill up vectors and register tiles."},
    {"Work.values", part<&Work::values>, "Elements that pass through a transform or a gather."},
    {"Work.runs", part<&Work::runs>, "Rows of channels that are fetched or written one by one."},
    {"Work.weights", part<&Work::weights>, "Packed weights that are read, or sums of a gradient that are written."},
    {"filter_work(problem, direction, src_dtype, dst_dtype, threads=0, isa='')",
     +[](const FilterProblem& p, const std::string& direction, int src_dtype, int dst_dtype, int threads,
         const std::string& isa) {
         return filter_work(p, work_of(direction), src_dtype, dst_dtype, threads, vector_code_of(isa));
     },
     "Returns the work of filter_* between dense activations, channels last. isa: the set of another CPU."},
    {"col2im_work(problem, isa='')",
     +[](const FilterProblem& p, const std::string& isa) { return col2im_work(p, vector_code_of(isa)); },
     "Returns the work of col2im_product."},
    {"row_product_work(rows, columns, depth, isa='')",
     +[](int64_t rows, int64_t columns, int64_t depth, const std::string& isa) {
         return row_product_work(rows, columns, depth, vector_code_of(isa));
     },
     "Returns the work of row_product. depth: of all images together. Its weights are elements of the right factor "
     "that are transposed."},
};

}  // namespace dgo
