#include <omp.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/dot/pack.hpp"
#include "kernels/isa.hpp"

namespace dgo {
namespace {

constexpr int64_t kParallelBytes = 1 << 17;

class DotPack final : public Kernel {
public:
    DotPack(const char* of, const Dot& dot, const FilterProblem& problem, FilterDirection direction,
            const FilterWeights& weights, ElementType type, int threads, int64_t channels, bool has_points)
        : dot_(dot), arrangement_(problem, direction, panels(&dot)), has_points_(has_points) {
        name = of;
        arity = has_points ? 3 : 2;
        check_tiles(problem, dot);
        PackParams& params = params_.weights;
        params = arrangement_.pack_params(problem, direction, as_floats(weights));
        params.type = type;
        params.item = item_size(weights.dtype);
        params.as = PackedAs::words;
        params.unit = dot.unit;
        // each axis of four points has a coefficient of 1/2
        params.scale = 1;
        for (const FilterAxis& axis : arrangement_.layout.axes) params.scale *= axis.points == 4 ? 2 : 1;
        if (channels > 0) {
            check_number(name, "channels", channels, (params.k - 1) / dot.unit * dot.unit + 1, params.k);
            params.k = channels;
        }
        const int64_t bytes = packed_bytes(name, arrangement_, problem, dot);
        if (type != ElementType::bf16) totals_ = bytes;
        params.threads = bytes < kParallelBytes ? 1 : threads > 0 ? threads : omp_get_max_threads();
        if (params.n_stride != 1 && params.k_stride != 1 && !is_tiled(problem)) find_taps();
    }

    void run(char* const* operands) const override {
        const auto* points = has_points_ ? reinterpret_cast<const int32_t*>(operands[1]) : nullptr;
        char* packed = operands[arity - 1];
        if (params_.weights.planes > 1) {
            PackParams params = params_.weights;
            params.points = points;
            return vector_code().filter.pack(params, operands[0], nullptr, packed);
        }
        vector_code().dot.pack(dot_, params_, operands[0], points, packed,
                               totals_ == 0 ? nullptr : reinterpret_cast<int32_t*>(packed + totals_));
    }

private:
    void find_taps() {
        const PackParams& params = params_.weights;
        const Axes &kernel = params.kernel, &strides = params.tap_strides;
        const Axes numbers{{kernel[1] * kernel[2], kernel[2], 1}};  // strides of the taps' numbers, in order
        for (int64_t i = 0; i < kernel[0] * numbers[0]; ++i) {
            const int64_t lines = i / kernel[2];
            taps_.push_back(
                {lines / kernel[1] * strides[0] + lines % kernel[1] * strides[1] + i % kernel[2] * strides[2], -1, 0});
        }
        const int64_t depth = ceil_div(params.k, dot_.unit) * dot_.unit * kDotColumns;
        for (const TargetGroup& group : arrangement_.groups.groups) {
            for (int64_t i = 0; i < group.target_count * arrangement_.layout.segments; ++i) {
                const int64_t target = i / arrangement_.layout.segments, segment = i % arrangement_.layout.segments;
                int64_t number;
                tap_offsets(params.taps, numbers, segment, group.targets[target], &number);
                if (number < 0) continue;
                DotTap& tap = taps_[static_cast<size_t>(number)];
                tap.to = (group.packed + segment * depth) * dot_.item;
                tap.column = target * params.n;
            }
        }
        params_.taps = taps_.data();
        params_.tap_count = static_cast<int64_t>(taps_.size());
        params_.run = 1;
        for (int a = kFilterAxes - 1; a >= 0 && (kernel[a] == 1 || strides[a] == params_.run); --a) {
            params_.run *= kernel[a];
        }
    }

    const Dot& dot_;
    Arrangement arrangement_;
    std::vector<DotTap> taps_;
    DotPackParams params_{};
    const bool has_points_;
    int64_t totals_ = 0;
};

}  // namespace

int64_t packed_bytes(const std::string& name, const Arrangement& of, const FilterProblem& problem, const Dot& dot) {
    return ceil_div(checked_product(name, {of.packed_size(problem), dot.item}), 64) * 64;
}

std::unique_ptr<Kernel> dot_pack(const char* name, const Dot& dot, const FilterProblem& problem,
                                 FilterDirection direction, const FilterWeights& weights, ElementType type, int threads,
                                 int64_t channels, bool has_points) {
    return std::make_unique<DotPack>(name, dot, problem, direction, weights, type, threads, channels, has_points);
}

bool is_tiled(const FilterProblem& problem) {
    return std::any_of(problem.tile.axis, problem.tile.axis + kFilterAxes, [](int64_t tile) { return tile > 1; });
}

void check_tiles(const FilterProblem& problem, const Dot& dot) {
    for (int64_t tile : problem.tile.axis) {
        if (tile > kLargeTile) {
            fail(ErrorKind::invalid_argument, "narrow product: tiles have up to 3 results; set tile to 3 or less");
        }
    }
    if (is_tiled(problem) && dot.item != 2) {
        fail(ErrorKind::invalid_argument,
             std::string("integer product: ") + dot.isa + " has the direct form only; set tile to 1");
    }
}

}  // namespace dgo
