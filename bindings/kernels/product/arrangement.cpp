#include "kernels/product/arrangement.hpp"

#include <omp.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/product/tasks.hpp"

namespace dgo {

namespace {

// Multiplications that are worth waking a thread: one of few, and one of many, which are told by fewer than they are.
constexpr double kThreadWork = 1 << 18, kThreadWorkOfMany = 1 << 17;
constexpr double kRunCost = 400;  // multiplications that take as long as one run of results
constexpr int64_t kLarge[kFilterAxes] = {1024, 128, 32};  // positions of an axis, by how many there are

int64_t round_up(int64_t count, int64_t step) { return ceil_div(count, step) * step; }

// Whether positions of the last axis follow each other without a gap.
bool strides_follow(const FilterTensor& tensor, int64_t channels) {
    return tensor.strides[kFilterAxes - 1] == channels;
}

// Returns the number of segments of the last axis, which runs fastest, if each begins one position after the one
// before; else 1.
int64_t last_axis_run(const std::vector<Axes>& first) {
    constexpr int last = kFilterAxes - 1;
    const auto follows = [&](size_t i) { return first[i][last] == first[i - 1][last] + 1; };
    size_t count = 1;
    while (count < first.size() && follows(count)) ++count;
    for (size_t i = 0; i < first.size(); ++i) {
        if (i % count != 0 && !follows(i)) return 1;
    }
    return first.size() % count == 0 ? static_cast<int64_t>(count) : 1;
}

TargetGroups groups_of(const FilterLayout& layout, unsigned apart) {
    TargetGroups result;
    std::vector<AxisGroup> axes[kFilterAxes];
    for (int a = 0; a < kFilterAxes; ++a) axes[a] = axis_groups(layout.axes[a], (apart >> a & 1) != 0);
    for (const AxisGroup& g0 : axes[0]) {
        for (const AxisGroup& g1 : axes[1]) {
            for (const AxisGroup& g2 : axes[2]) {
                std::vector<int32_t> targets;
                for (int64_t i : g0.targets) {
                    for (int64_t j : g1.targets) {
                        for (int64_t k : g2.targets) targets.push_back(static_cast<int32_t>(layout.target(i, j, k)));
                    }
                }
                TargetGroup group{};
                group.base = {{g0.base, g1.base, g2.base}};
                group.tiles = {{g0.tiles, g1.tiles, g2.tiles}};
                result.targets.push_back(std::move(targets));
                result.groups.push_back(group);
            }
        }
    }
    return result;
}

// Returns the axes, a bit for each, that have several groups if these are apart.
unsigned divisible_axes(const FilterLayout& layout) {
    unsigned axes = 0;
    for (int a = 0; a < kFilterAxes; ++a) axes |= axis_groups(layout.axes[a], true).size() > 1 ? 1u << a : 0;
    return axes;
}

// Returns the axes, a bit for each, on which groups are apart. A window is transformed once per group: groups apart
// must save more products than their transforms cost.
unsigned cheapest_groups(const FilterLayout& layout, int64_t rows, int64_t columns, const PanelSizes& of) {
    const unsigned divisible = divisible_axes(layout);
    unsigned best = 0;
    double best_cost = -1;
    for (unsigned apart = 0; divisible != 0 && apart < 1u << kFilterAxes; ++apart) {
        if ((apart & ~divisible) != 0) continue;
        TargetGroups groups = groups_of(layout, apart);
        double cost = 0;
        for (size_t g = 0; g < groups.groups.size(); ++g) {
            const int64_t all = static_cast<int64_t>(groups.targets[g].size()) * columns;
            const double products = padded(used_products(layout, groups.targets[g]) * columns, all, of);
            const Axes& tiles = groups.groups[g].tiles;
            const double transform = kTransformCost * static_cast<double>(layout.planes * layout.segments);
            const int64_t fold = last_axis_run(layout.dst_first);
            const bool folded = whole_runs(groups.targets[g], fold);
            const int64_t runs =
                std::max(static_cast<int64_t>(groups.targets[g].size()) / (folded ? fold : 1), ceil_div(all, of.chunk));
            const int64_t results = layout.tile[0] * layout.tile[1] * layout.tile[2];
            const double writing = kRunCost * static_cast<double>(runs * results) / static_cast<double>(rows);
            cost += static_cast<double>(tiles[0] * tiles[1] * tiles[2]) * (products + transform + writing);
        }
        if (best_cost >= 0 && cost >= best_cost) continue;
        best_cost = cost;
        best = apart;
    }
    return best;
}

TargetGroups packed_groups(const FilterLayout& layout, int64_t rows, int64_t columns, unsigned apart,
                           const PanelSizes& of) {
    TargetGroups best = groups_of(layout, apart);
    for (size_t g = 0; g < best.groups.size(); ++g) {
        TargetGroup& group = best.groups[g];
        group.targets = best.targets[g].data();
        group.target_count = static_cast<int64_t>(best.targets[g].size());
        group.packed = best.packed;
        best.packed += checked_product("filter product", {layout.planes, layout.segments, round_up(rows, of.depth),
                                                          round_up(group.target_count * columns, of.unit)});
        checked_product("filter product", {best.packed});
    }
    return best;
}

FilterLayout layout_of(const FilterProblem& problem, FilterDirection direction) {
    return direction == FilterDirection::dgrad ? dgrad_layout(problem) : fprop_layout(problem);
}

// Returns the layout at large sizes; the layout of the given sizes where their strides leave no room for larger ones.
FilterLayout large(const FilterProblem& problem, FilterDirection direction) {
    FilterProblem larger = problem;
    for (int a = kFilterAxes - problem.spatial_rank; a < kFilterAxes; ++a) {
        const int64_t more = kLarge[problem.spatial_rank - 1];
        larger.in[a] += more;
        larger.out[a] += more * problem.stride[a];
    }
    return layout_of(axes_refusal(larger).empty() ? larger : problem, direction);
}

// Returns the axes, a bit for each, on which groups are apart; fprop has one target, which is one group.
unsigned axes_apart(const FilterProblem& problem, FilterDirection direction, const FilterLayout& layout, int64_t rows,
                    int64_t columns, const PanelSizes& of) {
    if (direction == FilterDirection::fprop) return 0;
    return cheapest_groups(problem.any_size ? large(problem, direction) : layout, rows, columns, of);
}

}  // namespace

PanelSizes filter_panels() {
    const FilterCode& code = vector_code().filter;
    return {code.panel, code.chunk, 1, code.panel / 2};
}

PanelSizes panels(const Dot* dot) {
    return dot == nullptr ? filter_panels() : PanelSizes{kDotColumns, kBf16Panels.chunk, dot->unit, kDotColumns};
}

double padded(int64_t products, int64_t columns, const PanelSizes& of) {
    const auto panels = static_cast<double>(round_up(columns, of.columns));
    return static_cast<double>(products) * panels / static_cast<double>(std::max<int64_t>(1, columns));
}

// Whether the targets contain whole runs of dst only.
bool whole_runs(const std::vector<int32_t>& targets, int64_t fold) {
    for (size_t i = 0; i < targets.size(); ++i) {
        if (targets[i] % fold != static_cast<int64_t>(i) % fold) return false;
        if (targets[i] / fold != targets[i - i % static_cast<size_t>(fold)] / fold) return false;
    }
    return static_cast<int64_t>(targets.size()) % fold == 0;
}

FilterImage image(const FilterTensor& tensor, int64_t channels, const Axes& size, const Axes& step,
                  const std::vector<Axes>& first) {
    FilterImage result{};
    result.type = float_type(tensor.dtype);
    result.item = item_size(tensor.dtype);
    result.channels = channels;
    result.segments = static_cast<int64_t>(first.size());
    result.batch_stride = tensor.batch_stride;
    result.strides = tensor.strides;
    result.step = step;
    result.size = size;
    result.first = first.data();
    result.fold = strides_follow(tensor, channels) ? last_axis_run(first) : 1;
    result.run = result.fold * channels;
    result.runs = result.segments / result.fold;
    result.gapless = strides_follow(tensor, channels) && step[kFilterAxes - 1] == result.fold;
    return result;
}

FilterImage apart(FilterImage image, int64_t depth) {
    if (image.channels % depth == 0) return image;
    image.fold = 1;
    image.run = image.channels;
    image.runs = image.segments;
    image.gapless = false;
    return image;
}

// Returns the products of one tile for each pair of channels.
int64_t used_products(const FilterLayout& layout, const std::vector<int32_t>& targets) {
    const int64_t pairs = layout.planes * layout.segments;
    if (layout.zero.empty()) return pairs * static_cast<int64_t>(targets.size());
    int64_t used = 0;
    for (int64_t i = 0; i < pairs; ++i) {
        for (int32_t target : targets) used += layout.zero[i * layout.targets + target] ? 0 : 1;
    }
    return used;
}

double multiplied(const FilterLayout& layout, const std::vector<int32_t>& targets, int64_t columns,
                  const PanelSizes& of) {
    const int64_t pairs = layout.planes * layout.segments, all = static_cast<int64_t>(targets.size()) * columns;
    const auto width = [&](int64_t column) { return std::min(round_up(all - column, of.unit), of.columns); };
    if (layout.zero.empty()) return static_cast<double>(pairs * round_up(all, of.unit));
    int64_t products = 0;
    for (int64_t i = 0; i < pairs; ++i) {
        for (int64_t column = 0; column < all; column += of.columns) {
            const auto* first = targets.data() + column / columns;
            const auto* last = targets.data() + ceil_div(std::min(column + of.columns, all), columns);
            const auto has_weights = [&](int32_t target) { return !layout.zero[i * layout.targets + target]; };
            products += std::any_of(first, last, has_weights) ? width(column) : 0;
        }
    }
    return static_cast<double>(products);
}

Arrangement::Arrangement(const FilterProblem& problem, FilterDirection direction, const PanelSizes& of)
    : layout(layout_of(problem, direction)),
      rows(direction == FilterDirection::dgrad ? problem.in_channels : problem.out_channels),
      columns(direction == FilterDirection::dgrad ? problem.out_channels : problem.in_channels), panels(of),
      groups(packed_groups(layout, rows, columns, axes_apart(problem, direction, layout, rows, columns, of), of)) {}

int64_t Arrangement::packed_size(const FilterProblem& problem) const {
    return checked_product("filter product", {problem.groups, groups.packed});
}

std::string Arrangement::packing(const FilterProblem& problem) const {
    std::string bytes;
    const auto add = [&](const auto* values, size_t count) {
        bytes.append(reinterpret_cast<const char*>(values), count * sizeof *values);
    };
    const auto add_list = [&](const auto& values) {
        const size_t size = values.size();
        add(&size, 1);
        add(values.data(), size);
    };
    const int64_t numbers[] = {panels.columns, panels.unit, rows, columns, problem.groups};
    add(numbers, std::size(numbers));
    add(problem.kernel.axis, kFilterAxes);
    add(layout.filter_shape, kFilterAxes);
    for (const FilterAxis& axis : layout.axes) {
        const int64_t sizes[] = {axis.segments(), axis.targets(), axis.length, axis.tile};
        add(sizes, std::size(sizes));
        add_list(axis.tap);
    }
    for (const std::vector<int32_t>& targets : groups.targets) add_list(targets);
    return bytes;
}

PackParams Arrangement::pack_params(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights) const {
    const bool dgrad = direction == FilterDirection::dgrad;
    PackParams params{};
    params.n = columns;
    params.k = rows;
    params.channel_groups = problem.groups;
    params.taps = layout.taps();
    params.groups = groups.groups.data();
    params.group_count = static_cast<int64_t>(groups.groups.size());
    params.packed = groups.packed;
    params.type = float_type(weights.dtype);
    params.item = item_size(weights.dtype);
    params.group_stride = weights.group_stride;
    params.n_stride = dgrad ? weights.out_stride : weights.in_stride;
    params.k_stride = dgrad ? weights.in_stride : weights.out_stride;
    params.tap_strides = weights.tap_strides;
    std::copy_n(layout.filter_shape, kFilterAxes, params.shape);
    params.planes = static_cast<int>(layout.planes);
    params.kernel = problem.kernel;
    return params;
}

int filter_threads(const FilterProblem& p, int threads) {
    // few channels take as long as a vector of them
    const int64_t least = std::min<int64_t>(vector_code().lanes, std::max(p.in_channels, p.out_channels));
    const int64_t pairs = std::max(p.in_channels, least) * std::max(p.out_channels, least);
    double weights = static_cast<double>(p.groups) * static_cast<double>(pairs);
    double positions = static_cast<double>(p.batch);
    for (int a = 0; a < kFilterAxes; ++a) {
        weights *= static_cast<double>(p.kernel[a]);
        positions *= static_cast<double>(p.in[a]);
    }
    // few positions leave the time to the weights
    const int most = threads > 0 ? threads : omp_get_max_threads();
    const double work = weights * (positions + kWeightCost);
    double useful = work / kThreadWork;
    if (useful >= kManyThreads - 1) useful = work / kThreadWorkOfMany;
    // the weights of few positions are memory like other memory
    if (most >= kManyThreads) useful = std::max(useful, weights * sizeof(float) / kBytesPerThread);
    return static_cast<int>(std::clamp<double>(useful, 1, most));
}

}  // namespace dgo
