#include "kernels/depthwise/problem.hpp"

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"

namespace dgo {
namespace {

// Whether a vector has several groups of a power of two channels.
bool in_powers(int64_t width) {
    return width > 1 && width < vector_code().depthwise.lanes && (width & (width - 1)) == 0;
}

bool gathers_groups(int64_t channels, int64_t width, bool wgrad) {
    const DepthwiseCode& code = vector_code().depthwise;
    const int64_t vector = channels >= code.lanes ? code.lanes : code.min_channels;
    const bool fits = wgrad ? in_powers(width) || width % code.lanes == 0 : width <= vector || width % vector == 0;
    return width > 0 && fits && channels >= vector && channels % width == 0;
}

constexpr int64_t kLineFloats = 16;        // floats of a line of memory
constexpr int64_t kLeastOfClass = 4;       // outputs: fewer fill no tile
// Bytes of sources or weights that are read repeatedly: in the nearest cache, in the second one.
constexpr int64_t kNearBytes = 32 * 1024, kFarBytes = 256 * 1024;
constexpr int64_t kManyRows = 4;  // kernel rows from which sources are kept near
constexpr int64_t kVast = 64;              // readings of a source
constexpr int64_t kWorthAligning = 4;  // vectors from which one more costs little

}  // namespace

bool gradient_of_groups(int64_t channels, int64_t width) { return gathers_groups(channels, width, true); }

double work_of(const DepthwiseProblem& p) {
    const auto images = static_cast<double>(p.n * p.c), sources = static_cast<double>(product(p.src_spatial));
    const double bytes =
        (sources + static_cast<double>(product(p.dst_spatial))) * static_cast<double>(item_size(p.dtype));
    return images * std::max(bytes, sources * static_cast<double>(product(p.kernel)) / 2);
}

void check_depthwise(const std::string& what, const DepthwiseProblem& p) {
    check_layer(what, p);
    check_strides(what, "src_strides", p, p.src_spatial, p.src_strides);
    check_strides(what, "dst_strides", p, p.dst_spatial, p.dst_strides);
    const bool grouped = p.width > 1;
    check_number(what, "width", p.width, 1, std::max<int64_t>(p.c, 1));
    Dims weights = {p.c / p.width};
    if (grouped) {
        weights.insert(weights.end(), {p.width, p.width});
        const bool last = p.src_strides[1] == 1 && p.dst_strides[1] == 1;
        if (!last || !gathers_groups(p.c, p.width, false)) {
            fail(ErrorKind::invalid_argument, what + ": groups of " + std::to_string(p.width) + " of " +
                                                  std::to_string(p.c) +
                                                  " channels have no kernel for this layout; channels last and groups "
                                                  "of at most a vector are needed");
        }
    }
    weights.insert(weights.end(), p.kernel.begin(), p.kernel.end());
    check_tensor(what, "weights_strides", weights, p.weights_strides);
    number_type(p.dtype);
}

namespace {

// Returns how often a source is read on the first `axes` axes.
int64_t readings(const DepthwiseProblem& p, size_t axes) {
    int64_t all = 1;
    for (size_t axis = 0; axis < axes; ++axis) all *= ceil_div(p.kernel[axis], p.strides[axis]);
    return all;
}

}  // namespace

bool reads_where_they_lie(const DepthwiseProblem& p) { return p.width > 1 || readings(p, p.kernel.size()) < kVast; }

Path choose_path(const DepthwiseProblem& p) {
    const int64_t vector = vector_code().depthwise.min_channels;
    const bool last = p.src_strides[1] == 1 && p.dst_strides[1] == 1 && p.c >= vector;
    if (last && (reads_where_they_lie(p) || is_byte(number_type(p.dtype)))) return Path::channels;
    return p.c >= vector || p.src_strides.back() != 1 || p.dst_strides.back() != 1 ? Path::blocks : Path::space;
}

namespace {

// Returns the channels of `rows` rows that the nearest cache holds; the sizes may multiply to more than an integer has.
int64_t near_channels(int64_t rows, int64_t width, int64_t item_size) {
    const double bytes = static_cast<double>(rows) * static_cast<double>(std::max<int64_t>(width, 1) * item_size);
    return static_cast<int64_t>(static_cast<double>(kNearBytes) / bytes);
}

// Returns the channels of a block: short rows are not worth a task for few channels; many rows of many channels do not
// stay near. Blocks are whole vectors.
int64_t block_size(const DepthwiseProblem& p) {
    const int64_t width = std::max(p.src_spatial.back(), p.dst_spatial.back()), rows = readings(p, p.kernel.size() - 1);
    const int64_t size = ChannelBlock::size_for(width);
    if (rows < kManyRows) return size;
    // a task takes as long to find its rows as to multiply a vector: half of them may come from the second cache
    const int64_t near = 2 * near_channels(rows, width, 4), lanes = vector_code().depthwise.lanes;
    return std::min(size, std::max((near + lanes / 2) / lanes, int64_t{1}) * lanes);
}

}  // namespace

std::string depthwise_name(const char* direction, Path path) {
    const char* along = path == Path::channels ? "_channels" : path == Path::blocks ? "_blocks" : "_space";
    return std::string("depthwise_") + direction + "_f32_" + vector_code().isa + along;
}

PackedWeights::PackedWeights(const DepthwiseProblem& p, Path path, bool dgrad)
    // where channels lie one after another, weights lie alike for all sizes
    : block(path == Path::channels ? ChannelBlock::kLeast : block_size(p)),
      vector(p.c >= vector_code().depthwise.lanes ? vector_code().depthwise.lanes : 8),
      channels(ChannelBlock::number(p.c, block) * block),
      // each tile of few results reads all weights of its channels
      turned(in_powers(p.width) && p.width > 2 && product(p.kernel) * p.width * vector * 4 <= kNearBytes), all(p.c),
      source(dgrad ? 1 : 2) {
    const bool grouped = p.width > 1;
    if (grouped || path == Path::blocks) {
        // the last vector of groups may begin at any one; an odd number of lines of memory lies in all sets of a cache
        const int64_t lines = ceil_div(grouped ? p.c + ChannelBlock::kLeast : channels, kLineFloats) | 1;
        channels = checked_product("depthwise weights", {lines, kLineFloats});
    }
    const int64_t position = checked_product("depthwise weights", {channels, p.width});
    floats = checked_product("depthwise weights", {product(p.kernel), position});
    shape = {p.c / p.width};
    strides = {path == Path::space ? product(p.kernel) : p.width};
    if (grouped) {
        shape.insert(shape.end(), {p.width, p.width});
        strides.insert(strides.end(), {dgrad ? channels : 1, dgrad ? 1 : channels});
    }
    int64_t step = path == Path::space ? 1 : position;
    const auto at = static_cast<int64_t>(shape.size());
    for (size_t axis = p.kernel.size(); axis-- > 0;) {
        shape.insert(shape.begin() + at, p.kernel[axis]);
        strides.insert(strides.begin() + at, step);
        step *= p.kernel[axis];
    }
}

std::shared_ptr<Kernel> PackedWeights::packing(int dtype, const Dims& weights_strides) const {
    std::vector<CopyItem> items;
    if (!turned) {
        items.emplace_back(shape, 0, weights_strides, 0, strides);
        return make_copy_list(items, dtype, kF32, 0);
    }
    Dims one = shape;
    one[1] = one[2] = 1;
    for (int64_t r = 0; r < shape[1]; ++r) {
        for (int64_t s = 0; s < shape[1]; ++s) {
            const int64_t from = s * weights_strides[source] + (s ^ r) * weights_strides[3 - source];
            items.emplace_back(one, from, weights_strides, r * channels + s, strides);
        }
    }
    return make_copy_list(items, dtype, kF32, 0);
}

PhaseTaps::PhaseTaps(const TapAxis& axis, int64_t phase, int64_t most_taps)
    : taps(axis.taps[static_cast<size_t>(phase)]), unit(axis.advance) {
    if (taps.size() > 1 && taps.back().base < taps.front().base) std::reverse(taps.begin(), taps.end());
    const auto number = static_cast<int64_t>(taps.size());
    counts[0] = number;
    const int64_t distance = number > 1 ? taps[1].base - taps[0].base : 0;
    if (most_taps == 1 || distance == 0) return;
    const int64_t apart = distance / axis.advance;
    if (distance % axis.advance == 0 && (apart == 1 || axis.count(phase) >= kLeastOfClass * apart)) {
        classes = apart;
    } else if (axis.advance == 2 * distance) {
        advance = 2;
    } else {
        return;
    }
    unit = distance;
    const int64_t segments = ceil_div(number, most_taps), rest = number % segments;
    sizes[0] = ceil_div(number, segments);
    counts[0] = rest > 0 ? rest : segments;
    sizes[1] = number / segments;
    counts[1] = segments - counts[0];
    // few kernels have segments of six taps: halves need no code of their own
    for (int part = 0; part < 2; ++part) {
        if (sizes[part] != 6) continue;
        sizes[part] /= 2;
        counts[part] *= 2;
    }
}

std::vector<PhaseTaps> taps_of_phases(const DepthwiseProblem& p, const TapAxis& axis, Path path,
                                      const PackedWeights& weights) {
    const DepthwiseCode& code = vector_code().depthwise;
    const int64_t most =
        (path == Path::blocks ? weights.vector : p.c) >= code.lanes ? code.most_taps[p.width > 1 ? 1 : 0] : 1;
    std::vector<PhaseTaps> all;
    for (int64_t phase = 0; phase < axis.phases; ++phase) all.emplace_back(axis, phase, most);
    return all;
}

ChannelTasks::ChannelTasks(const DepthwiseProblem& p, Path path, const std::vector<PhaseTaps>& phases, int64_t sources)
    : all(p.c), each(p.c), number(1), vector(vector_code().depthwise.lanes), grouped(p.width > 1) {
    if (p.width < vector) vector = vector / p.width * p.width;
    if (path != Path::channels) return;
    const int64_t taps = product(p.kernel), rows = readings(p, p.kernel.size() - 1);
    int64_t most = all;
    for (const PhaseTaps& plan : phases) {
        if (plan.counts[1] > 0) most = std::min(most, kMostGathered / 2);
    }
    if (rows >= kManyRows) most = std::min(most, near_channels(rows, sources, item_size(p.dtype)));
    if (p.width > 1) {
        // weights of a vector that do not stay in the nearest cache come from the second one, in fewer tasks
        const int64_t bytes = taps * p.width * 4;
        most = std::min(most, (bytes * vector > kNearBytes ? kFarBytes : kNearBytes) / bytes);
    }
    *this = cut(most);
}

ChannelTasks ChannelTasks::cut(int64_t most) const {
    ChannelTasks tasks = *this;
    const int64_t vectors = std::max(most / vector, std::max<int64_t>(ChannelBlock::kLeast / vector, 1));
    tasks.each = std::min(each, vectors * vector);
    tasks.number = std::max<int64_t>(all / std::max<int64_t>(tasks.each, 1), 1);
    return tasks;
}

int64_t ChannelTasks::head(const char* data, const RowLayout& layout, int64_t item_size) const {
    const int64_t lanes = vector_code().depthwise.lanes, vector = lanes * item_size;
    if (grouped || each < kWorthAligning * lanes) return 0;
    for (const int64_t step : {layout.inner, layout.outer[0], layout.outer[1], layout.batch}) {
        if (step % lanes != 0) return 0;
    }
    const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(vector));
    return beyond % item_size == 0 && beyond > 0 ? (vector - beyond) / item_size : 0;
}

ChannelTasks::Part ChannelTasks::at(int64_t index, int64_t head) const {
    const int64_t first = index > 0 ? index * each + head : 0;
    const int64_t end = index + 1 < number ? (index + 1) * each + head : all;
    return {first, end - first, index > 0 ? 0 : head};
}

const Declaration kDepthwise[] = {
    {"DepthwiseProblem(layer, dtype, src_strides, weights_strides, dst_strides, width=1)",
     object_of<DepthwiseProblem, LayerSizes, int, Dims, Dims, Dims, int64_t>,
     "A layer with a kernel for each channel, or groups of `width` channels in and out, and 1 to 3 spatial axes. "
     "Strides count elements: n, c, spatial for src and dst; c, kernel for the weights, or group, in channel, out "
     "channel, kernel. Sums are f32."},
    {"gathers_groups(channels, width, wgrad=False)", gathers_groups,
     "Returns whether this CPU has kernels for groups of `width` of `channels` channels."},
};

}  // namespace dgo
