#include "minimal_filter.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "../guard.hpp"
#include "isa.hpp"
#include "minimal_filter_code.hpp"

namespace dgo {

namespace avx2 {
extern const MinimalFilterCode kMinimalFilterCode;
}
namespace avx512 {
extern const MinimalFilterCode kMinimalFilterCode;
}

namespace {

constexpr int64_t kLeftBytes = 768 * 1024;      // transformed windows of a task: they stay in the second cache level
constexpr int64_t kGradientBytes = 1024 * 1024;  // the same for both factors of backward weights
constexpr int64_t kMostTiles = 96;
constexpr int64_t kFewestTiles = 12;

const MinimalFilterCode& code() {
    return std::strcmp(vector_code().isa, "avx512") == 0 ? avx512::kMinimalFilterCode : avx2::kMinimalFilterCode;
}

[[noreturn]] void refuse(const std::string& why) { fail(ErrorKind::invalid_argument, "minimal filter: " + why); }

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// What the phases of every axis have in common, and each phase (r0, r1, r2), the last axis fastest.
struct Phases {
    Axes taps{{1, 1, 1}}, points{{1, 1, 1}};
    ShapeCode filter[kFilterAxes], output[kFilterAxes];
    int planes = 1;
    std::vector<Axes> phase, count, first_out;
};

ShapeCode shape_code(int64_t points, int64_t length) {
    if (points == 1) return 0;
    return points == 3 ? 1 : length == 2 ? 2 : 3;
}

void check_shapes(const ShapeCode* shape) {
    if (shape[0] != 0 && ((shape[1] != 0 && shape[1] != shape[0]) || (shape[2] != 0 && shape[2] != shape[0]))) {
        refuse("in three transformed axes all tiles must be alike; give one size to all of them");
    }
}

Phases phases_of(const FilterProblem& p) {
    Phases f;
    for (int a = 0; a < kFilterAxes; ++a) {
        if (p.stride[a] < 1 || p.kernel[a] < p.stride[a]) {
            refuse("kernel " + std::to_string(p.kernel[a]) + " is smaller than stride " + std::to_string(p.stride[a]) +
                   ": a phase has no tap; use another form");
        }
        const int64_t taps = ceil_div(p.kernel[a], p.stride[a]), tile = p.tile[a];
        const bool known = (taps == 1 && tile == 1) || (taps == 2 && (tile == 2 || tile == 3)) || (taps == 3 && tile == 2);
        if (!known) {
            refuse("no tile of " + std::to_string(tile) + " outputs for " + std::to_string(taps) +
                   " taps per phase; there are 1 for 1, 2 and 3 for 2, and 2 for 3");
        }
        f.taps[a] = taps;
        f.points[a] = taps + tile - 1;
        f.filter[a] = shape_code(f.points[a], taps);
        f.output[a] = shape_code(f.points[a], tile);
        f.planes *= static_cast<int>(f.points[a]);
    }
    check_shapes(f.filter);
    for (int64_t i = 0; i < p.stride[0]; ++i) {
        for (int64_t j = 0; j < p.stride[1]; ++j) {
            for (int64_t k = 0; k < p.stride[2]; ++k) {
                const Axes phase{{i, j, k}};
                Axes count, first;
                for (int a = 0; a < kFilterAxes; ++a) {
                    count[a] = ceil_div(p.kernel[a] - phase[a], p.stride[a]);
                    first[a] = phase[a] - p.pad[a];
                }
                f.phase.push_back(phase);
                f.count.push_back(count);
                f.first_out.push_back(first);
            }
        }
    }
    return f;
}

// Whether a filter of `count` of `taps` taps makes point `i` zero; `flipped` filters keep the last taps.
bool zero_point(int64_t points, int64_t taps, int64_t count, int64_t i, bool flipped) {
    if (count == taps) return false;
    return flipped ? i == 0 : i == points - 1;
}

std::vector<uint8_t> zero_planes(const Phases& f, bool flipped) {
    std::vector<uint8_t> zero;
    for (int64_t i = 0; i < f.points[0]; ++i) {
        for (int64_t j = 0; j < f.points[1]; ++j) {
            for (int64_t k = 0; k < f.points[2]; ++k) {
                for (const Axes& count : f.count) {
                    zero.push_back(zero_point(f.points[0], f.taps[0], count[0], i, flipped) ||
                                   zero_point(f.points[1], f.taps[1], count[1], j, flipped) ||
                                   zero_point(f.points[2], f.taps[2], count[2], k, flipped));
                }
            }
        }
    }
    return zero;
}

FilterImage image(const FilterTensor& tensor, int64_t channels, const Axes& size, const Axes& step,
                  const std::vector<Axes>& first) {
    FilterImage result{};
    result.cell = float_cell(tensor.dtype);
    result.item = item_size(tensor.dtype);
    result.channels = channels;
    result.segments = static_cast<int64_t>(first.size());
    result.batch_stride = tensor.batch_stride;
    result.strides = tensor.strides;
    result.step = step;
    result.size = size;
    result.first = first.data();
    return result;
}

// The phases of one axis whose tiles begin together, and the tiles.
struct AxisGroup {
    std::vector<int64_t> phases;
    int64_t base = 0, tiles = 0;
};

// Phases whose first positions differ share windows only if no tile is wasted by it.
std::vector<AxisGroup> axis_groups(int64_t stride, int64_t pad, int64_t out, int64_t tile) {
    std::vector<AxisGroup> split;
    AxisGroup all;
    int64_t all_end = 0, split_tiles = 0;
    const auto first = [&](int64_t r) { return ceil_div(pad - r, stride); };
    const auto end = [&](int64_t r) { return floor_div(out - 1 + pad - r, stride) + 1; };
    for (int64_t r = 0; r < stride; ++r) {
        if (end(r) <= first(r)) continue;
        if (all.phases.empty()) {
            all.base = first(r);
            all_end = end(r);
        }
        all.base = std::min(all.base, first(r));
        all_end = std::max(all_end, end(r));
        all.phases.push_back(r);
    }
    all.tiles = ceil_div(all_end - all.base, tile);
    for (int64_t r : all.phases) {
        auto group = std::find_if(split.begin(), split.end(), [&](const AxisGroup& g) { return g.base == first(r); });
        if (group == split.end()) group = split.insert(split.end(), AxisGroup{{}, first(r), 0});
        group->phases.push_back(r);
        group->tiles = std::max(group->tiles, ceil_div(end(r) - group->base, tile));
    }
    for (const AxisGroup& g : split) split_tiles += g.tiles * static_cast<int64_t>(g.phases.size());
    // Each further group transforms its windows again: worth it from a twentieth less work on.
    const int64_t shared = all.tiles * static_cast<int64_t>(all.phases.size());
    if (all.phases.empty() || split_tiles * 20 > shared * 19) return {all};
    return split;
}

struct Groups {
    std::vector<std::vector<int32_t>> targets;
    std::vector<TileGroup> groups;
};

Groups forward_groups(const FilterProblem& p) {
    Groups result;
    std::vector<AxisGroup> axes[kFilterAxes];
    for (int a = 0; a < kFilterAxes; ++a) axes[a] = axis_groups(p.stride[a], p.pad[a], p.out[a], p.tile[a]);
    for (const AxisGroup& g0 : axes[0]) {
        for (const AxisGroup& g1 : axes[1]) {
            for (const AxisGroup& g2 : axes[2]) {
                std::vector<int32_t> targets;
                for (int64_t i : g0.phases) {
                    for (int64_t j : g1.phases) {
                        for (int64_t k : g2.phases) {
                            targets.push_back(static_cast<int32_t>((i * p.stride[1] + j) * p.stride[2] + k));
                        }
                    }
                }
                TileGroup group{};
                group.base = {{g0.base, g1.base, g2.base}};
                group.tiles = {{g0.tiles, g1.tiles, g2.tiles}};
                result.targets.push_back(std::move(targets));
                result.groups.push_back(group);
            }
        }
    }
    return result;
}

int threads_or_default(int threads) { return threads > 0 ? threads : omp_get_max_threads(); }

class ProductKernel final : public ScratchKernel {
public:
    ProductKernel(const FilterProblem& problem, FilterDirection direction, const FilterTensor& src,
                  const FilterTensor& dst, int bias_dtype, int threads)
        : phases_(phases_of(problem)) {
        const bool forward = direction == FilterDirection::forward;
        name = forward ? "minimal_filter_forward" : "minimal_filter_backward_data";
        plan_.has_bias = bias_dtype != 0;
        plan_.bias_cell = plan_.has_bias ? float_cell(bias_dtype) : Cell::f32;
        arity = plan_.has_bias ? 5 : 4;
        zero_ = zero_planes(phases_, forward);
        const Axes one{{1, 1, 1}};
        if (forward) {
            Axes back;
            for (int a = 0; a < kFilterAxes; ++a) back[a] = 1 - phases_.taps[a];
            plain_first_ = {back};
            plan_.src = image(src, problem.in_channels, problem.in, one, plain_first_);
            plan_.dst = image(dst, problem.out_channels, problem.out, problem.stride, phases_.first_out);
            groups_ = forward_groups(problem);
        } else {
            plain_first_ = {Axes{{0, 0, 0}}};
            plan_.src = image(src, problem.out_channels, problem.out, problem.stride, phases_.first_out);
            plan_.dst = image(dst, problem.in_channels, problem.in, one, plain_first_);
            TileGroup group{};
            for (int a = 0; a < kFilterAxes; ++a) group.tiles[a] = ceil_div(problem.in[a], problem.tile[a]);
            groups_.targets = {{0}};
            groups_.groups = {group};
        }
        plan_.batch = problem.batch;
        plan_.points = phases_.points;
        plan_.outputs = problem.tile;
        std::copy_n(phases_.filter, kFilterAxes, plan_.filter_shape);
        std::copy_n(phases_.output, kFilterAxes, plan_.output_shape);
        plan_.planes = phases_.planes;
        plan_.zero = zero_.data();
        plan_.zero_by_target = forward;
        plan_.threads = threads_or_default(threads);
        lay_out_tasks();
        plan_.scratch_per_thread = code().products_scratch(plan_);
        scratch_bytes = plan_.scratch_per_thread * plan_.threads;
    }

    void run(char* const* operands) const override {
        const char* bias = plan_.has_bias ? operands[2] : nullptr;
        char* const* last = operands + arity - 2;
        code().products(plan_, operands[0], reinterpret_cast<const float*>(operands[1]), bias, last[0], last[1]);
    }

private:
    void lay_out_tasks() {
        const int64_t row_bytes = plan_.planes * plan_.src.segments * plan_.src.channels * 4;
        const int64_t rows = code().rows;
        int64_t block = std::clamp(kLeftBytes / row_bytes / rows * rows, kFewestTiles, kMostTiles);
        int64_t tasks = 0;
        plan_.block = 0;
        for (size_t g = 0; g < groups_.groups.size(); ++g) {
            TileGroup& group = groups_.groups[g];
            group.targets = groups_.targets[g].data();
            group.target_count = static_cast<int64_t>(groups_.targets[g].size());
            const int64_t tiles = plan_.batch * group.tiles[0] * group.tiles[1] * group.tiles[2];
            group.blocks = ceil_div(tiles, block);
            // Few tiles: whole groups of columns are shared out, and each thread transforms the windows for itself.
            const int64_t chunks = group.target_count * ceil_div(plan_.dst.channels, code().chunk);
            const int64_t wanted = 4 * plan_.threads;
            group.parts = group.blocks == 0 || group.blocks >= wanted
                              ? 1
                              : std::clamp<int64_t>(ceil_div(plan_.threads, group.blocks), 1, std::max<int64_t>(chunks, 1));
            group.first_task = tasks;
            tasks += group.blocks * group.parts;
            if (group.blocks > 0) plan_.block = std::max(plan_.block, ceil_div(tiles, group.blocks));
            products += tiles * macs_per_tile(group);
        }
        plan_.groups = groups_.groups.data();
        plan_.group_count = static_cast<int64_t>(groups_.groups.size());
        plan_.tasks = tasks;
    }

    int64_t macs_per_tile(const TileGroup& group) const {
        int64_t used = 0;
        const int64_t phases = static_cast<int64_t>(phases_.count.size());
        for (int64_t p = 0; p < plan_.planes; ++p) {
            if (plan_.zero_by_target) {
                for (int64_t t = 0; t < group.target_count; ++t) used += zero_[p * phases + group.targets[t]] ? 0 : 1;
            } else {
                for (int64_t s = 0; s < phases; ++s) used += zero_[p * phases + s] ? 0 : 1;
            }
        }
        return used * plan_.src.channels * plan_.dst.channels;
    }

    Phases phases_;
    std::vector<uint8_t> zero_;
    std::vector<Axes> plain_first_;
    Groups groups_;
    ProductPlan plan_{};
};

class PrepareKernel final : public Kernel {
public:
    PrepareKernel(const FilterProblem& problem, FilterDirection direction, const FilterWeights& weights)
        : phases_(phases_of(problem)) {
        const bool forward = direction == FilterDirection::forward;
        const int64_t phases = static_cast<int64_t>(phases_.phase.size());
        name = "minimal_filter_prepare";
        arity = 2;
        plan_.n = forward ? problem.out_channels : problem.in_channels;
        plan_.k = forward ? problem.in_channels : problem.out_channels;
        plan_.n_stride = forward ? weights.out_stride : weights.in_stride;
        plan_.k_stride = forward ? weights.in_stride : weights.out_stride;
        plan_.targets = forward ? phases : 1;
        plan_.segments = forward ? 1 : phases;
        plan_.flip = forward;
        plan_.cell = float_cell(weights.dtype);
        plan_.item = item_size(weights.dtype);
        plan_.tap_strides = weights.tap_strides;
        plan_.taps = phases_.taps;
        plan_.first_tap = phases_.phase.data();
        plan_.tap_count = phases_.count.data();
        plan_.stride = problem.stride;
        std::copy_n(phases_.filter, kFilterAxes, plan_.shape);
        plan_.planes = phases_.planes;
    }

    void run(char* const* operands) const override {
        code().prepare(plan_, operands[0], reinterpret_cast<float*>(operands[1]));
    }

private:
    Phases phases_;
    PreparePlan plan_{};
};

class GradientKernel final : public ScratchKernel {
public:
    GradientKernel(const FilterProblem& problem, const FilterTensor& src, const FilterTensor& diff,
                   const FilterWeights& weights, int threads)
        : phases_(phases_of(problem)) {
        name = "minimal_filter_backward_weights";
        arity = 4;
        zero_ = zero_planes(phases_, false);
        plain_first_ = {Axes{{0, 0, 0}}};
        plan_.src = image(src, problem.in_channels, problem.in, Axes{{1, 1, 1}}, plain_first_);
        plan_.diff = image(diff, problem.out_channels, problem.out, problem.stride, phases_.first_out);
        plan_.batch = problem.batch;
        plan_.points = phases_.points;
        plan_.window = problem.tile;
        plan_.taps = phases_.taps;
        for (int a = 0; a < kFilterAxes; ++a) plan_.tiles[a] = ceil_div(problem.in[a], problem.tile[a]);
        // The roles of taps and outputs are swapped: a window of src is the filter, the taps are the outputs.
        std::copy_n(phases_.output, kFilterAxes, plan_.window_shape);
        std::copy_n(phases_.filter, kFilterAxes, plan_.tap_shape);
        plan_.planes = phases_.planes;
        plan_.zero = zero_.data();
        plan_.weights_cell = float_cell(weights.dtype);
        plan_.weights_item = item_size(weights.dtype);
        plan_.in_stride = weights.in_stride;
        plan_.out_stride = weights.out_stride;
        plan_.tap_strides = weights.tap_strides;
        plan_.stride = problem.stride;
        plan_.first_tap = phases_.phase.data();
        plan_.tap_count = phases_.count.data();
        plan_.threads = threads_or_default(threads);
        lay_out_shares();
        plan_.scratch_per_thread = code().gradient_scratch(plan_);
        plan_.sums = plan_.scratch_per_thread * plan_.threads;
        scratch_bytes = plan_.sums + code().gradient_sums(plan_);
        for (uint8_t zero : zero_) products += zero ? 0 : 1;
        products *= tiles() * problem.in_channels * problem.out_channels;
    }

    void run(char* const* operands) const override {
        code().gradient(plan_, operands[0], operands[1], operands[2], operands[3]);
    }

private:
    int64_t tiles() const { return plan_.batch * plan_.tiles[0] * plan_.tiles[1] * plan_.tiles[2]; }

    // Splitting the tiles costs a second set of sums; splitting the channels transforms the other factor again.
    void lay_out_shares() {
        const int64_t columns = plan_.diff.segments * ceil_div(plan_.diff.channels, code().panel) * code().panel;
        const int64_t set = plan_.planes * plan_.src.channels * columns;
        double best = 0;
        const int64_t threads = plan_.threads;
        for (int64_t by_tile = 1; by_tile <= threads; ++by_tile) {
            for (int64_t by_row = 1; by_row * by_tile <= threads; ++by_row) {
                const int64_t by_column = std::clamp<int64_t>(threads / by_tile / by_row, 1, columns / code().panel);
                if (by_row * code().rows * 4 > plan_.src.channels && by_row > 1) continue;
                if (by_tile > 1 && by_tile * 16 > tiles()) continue;
                const double part = static_cast<double>(tiles()) / static_cast<double>(by_tile);
                const double rows = static_cast<double>(ceil_div(plan_.src.channels, by_row));
                const double wide = static_cast<double>(columns) / static_cast<double>(by_column);
                // In multiply-adds: the products, the transforms (about 16 per value), the sums (about 32 per value).
                const double cost = part * plan_.planes * (rows * wide + 16 * (rows + wide)) +
                                    (by_tile > 1 ? 32.0 * static_cast<double>(set) : 0.0) * static_cast<double>(by_tile) /
                                        static_cast<double>(threads);
                if (best == 0 || cost < best) {
                    best = cost;
                    plan_.tile_parts = by_tile;
                    plan_.row_parts = by_row;
                    plan_.column_parts = by_column;
                }
            }
        }
        const int64_t row_bytes = plan_.planes * 4 * (plan_.src.channels / plan_.row_parts + columns / plan_.column_parts);
        plan_.block = std::clamp<int64_t>(kGradientBytes / row_bytes, 32, 256);
        plan_.block = std::max<int64_t>(1, std::min(plan_.block, ceil_div(tiles(), plan_.tile_parts)));
    }

    Phases phases_;
    std::vector<uint8_t> zero_;
    std::vector<Axes> plain_first_;
    GradientPlan plan_{};
};

}  // namespace

int64_t minimal_filter_packed_size(const FilterProblem& problem, FilterDirection direction) {
    const Phases phases = phases_of(problem);
    const bool forward = direction == FilterDirection::forward;
    const int64_t n = forward ? problem.out_channels : problem.in_channels;
    const int64_t k = forward ? problem.in_channels : problem.out_channels;
    return static_cast<int64_t>(phases.phase.size()) * phases.planes * k * ceil_div(n, code().panel) * code().panel;
}

std::unique_ptr<Kernel> minimal_filter_prepare(const FilterProblem& problem, FilterDirection direction,
                                               const FilterWeights& weights) {
    return std::make_unique<PrepareKernel>(problem, direction, weights);
}

std::unique_ptr<ScratchKernel> minimal_filter_forward(const FilterProblem& problem, const FilterTensor& src,
                                                      const FilterTensor& dst, int bias_dtype, int threads) {
    return std::make_unique<ProductKernel>(problem, FilterDirection::forward, src, dst, bias_dtype, threads);
}

std::unique_ptr<ScratchKernel> minimal_filter_backward_data(const FilterProblem& problem, const FilterTensor& diff_dst,
                                                            const FilterTensor& diff_src, int threads) {
    return std::make_unique<ProductKernel>(problem, FilterDirection::backward_data, diff_dst, diff_src, 0, threads);
}

std::unique_ptr<ScratchKernel> minimal_filter_backward_weights(const FilterProblem& problem, const FilterTensor& src,
                                                               const FilterTensor& diff_dst,
                                                               const FilterWeights& diff_weights, int threads) {
    return std::make_unique<GradientKernel>(problem, src, diff_dst, diff_weights, threads);
}

}  // namespace dgo
