#include "kernels/narrow/product.hpp"

#include <omp.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/filtering/arrangement.hpp"
#include "kernels/narrow/isa.hpp"

namespace dgo {

namespace {

constexpr PanelSizes kPanels{kNarrowPanel, 64, kNarrowDepth};
constexpr int64_t kParallelWeights = 1 << 16;
// Rows of a task: as many bytes of their copies as stay near, within these bounds.
constexpr int64_t kLeftBytes = 2048 * 1024, kFewestRows = 128, kMostRows = 256;

void check_direct(const FilterProblem& problem) {
    for (int64_t tile : problem.tile.axis) {
        if (tile != 1)
            fail(ErrorKind::invalid_argument, "narrow product: there is the direct form only; set tile to 1");
    }
}

void check_bf16(const char* name, int dtype) {
    if (dtype == 0 || float_cell(dtype) != Cell::bf16) {
        fail(ErrorKind::invalid_argument, std::string("narrow product: ") + name + " must be bf16");
    }
}

// Segments whose units are filled up are not read as one.
FilterImage apart(FilterImage image) {
    if (image.channels % kNarrowDepth == 0) return image;
    image.fold = 1;
    image.run = image.channels;
    image.runs = image.segments;
    image.gapless = false;
    return image;
}

class NarrowProduct final : public ScratchKernel {
public:
    NarrowProduct(const Joined& joined, FilterDirection direction, int bias_dtype, int threads, const Tail& tail,
                  const NarrowCode& code)
        : code_(code), arrangement_(joined.problem, direction, kPanels),
          tail_(fitted_tail(tail, joined.problem.batch, joined.problem.groups * arrangement_.columns,
                            direction == FilterDirection::forward ? joined.problem.out : joined.problem.in,
                            joined.dst)) {
        name = direction == FilterDirection::forward ? "narrow_forward" : "narrow_backward_data";
        check_direct(joined.problem);
        check_bf16("src", joined.src.dtype);
        params_.has_bias = bias_dtype != 0;
        params_.bias_cell = params_.has_bias ? float_cell(bias_dtype) : Cell::f32;
        arity = (params_.has_bias ? 5 : 4) + tail_.operands();
        const Images images(joined.problem, direction, arrangement_, joined.src, joined.dst);
        params_.src = apart(images.src);
        params_.dst = images.dst;
        params_.batch = joined.problem.batch;
        params_.channel_groups = joined.problem.groups;
        params_.points = params_.outputs = Axes{{1, 1, 1}};
        params_.planes = 1;
        params_.zero = arrangement_.layout.zero.empty() ? nullptr : arrangement_.layout.zero.data();
        params_.packed = arrangement_.groups.packed;
        params_.threads = filter_threads(joined.problem, threads);
        lay_out_tasks();
        params_.scratch_per_thread = code_.products_scratch(params_);
        scratch_bytes = checked_product(name, {params_.scratch_per_thread, params_.threads});
    }

    void run(char* const* operands) const override {
        const char* bias = params_.has_bias ? operands[2] : nullptr;
        char* const* last = operands + arity - 2;
        const TailCall tail = tail_.call(operands + (params_.has_bias ? 3 : 2));
        code_.products(params_, operands[0], operands[1], bias, tail, last[0], last[1]);
    }

private:
    void lay_out_tasks() {
        const int64_t row_bytes = std::max<int64_t>(1, params_.src.segments * params_.src.channels * 2);
        const int64_t rows = std::clamp(kLeftBytes / row_bytes, kFewestRows, kMostRows);
        for (size_t g = 0; g < arrangement_.groups.groups.size(); ++g) {
            TargetGroup& group = arrangement_.groups.groups[g];
            const int64_t tiles = params_.batch * group.tiles[0] * group.tiles[1] * group.tiles[2];
            const int64_t columns = group.target_count * params_.dst.channels;
            const int64_t units = ceil_div(tiles, kNarrowBlockRows);
            group.blocks = columns == 0 ? 0 : ceil_div(units, rows / kNarrowBlockRows);
            // Of few blocks the same number for each thread.
            const bool uneven = group.blocks > 1 && group.blocks < 8 * params_.threads;
            if (uneven) group.blocks = std::min(ceil_div(group.blocks, params_.threads) * params_.threads, units);
            // Few tiles: the columns are shared out, too, and each thread finds the rows for itself.
            const int64_t panels = std::max<int64_t>(1, ceil_div(columns, kNarrowPanel));
            const int64_t blocks = group.blocks * params_.channel_groups;
            const bool many = params_.threads == 1 || blocks == 0 || blocks >= 4 * params_.threads;
            group.parts = many ? 1 : std::clamp<int64_t>(ceil_div(2 * params_.threads, blocks), 1, panels);
            group.folded = whole_runs(arrangement_.groups.targets[g], params_.dst.fold);
            group.first_task = params_.tasks;
            params_.tasks += group.blocks * group.parts;
            if (group.blocks > 0) {
                params_.block = std::max(params_.block, ceil_div(units, group.blocks) * kNarrowBlockRows);
            }
        }
        params_.groups = arrangement_.groups.groups.data();
        params_.group_count = static_cast<int64_t>(arrangement_.groups.groups.size());
    }

    const NarrowCode& code_;
    Arrangement arrangement_;
    FittedTail tail_;
    ProductParams params_{};
};

class NarrowPack final : public Kernel {
public:
    NarrowPack(const FilterProblem& problem, FilterDirection direction, const FilterWeights& weights, int threads,
               const NarrowCode& code)
        : code_(code), arrangement_(problem, direction, kPanels) {
        name = "narrow_pack";
        arity = 2;
        check_direct(problem);
        check_bf16("weights", weights.dtype);
        PackParams& params = params_.weights;
        params = arrangement_.pack_params(problem, direction, weights);
        const bool small = problem.groups * params.packed < kParallelWeights;
        params.threads = small ? 1 : threads > 0 ? threads : omp_get_max_threads();
        if (params.n_stride != 1 && params.k_stride != 1) find_taps();
    }

    void run(char* const* operands) const override { code_.pack(params_, operands[0], operands[1]); }

private:
    void find_taps() {
        const PackParams& params = params_.weights;
        const Axes &kernel = params.kernel, &strides = params.tap_strides;
        for (int64_t i = 0; i < kernel[0]; ++i) {
            for (int64_t j = 0; j < kernel[1]; ++j) {
                for (int64_t k = 0; k < kernel[2]; ++k) {
                    taps_.push_back({i * strides[0] + j * strides[1] + k * strides[2], -1, 0});
                }
            }
        }
        const int64_t segments = arrangement_.layout.segments;
        const int64_t words = ceil_div(params.k, kNarrowDepth) * kNarrowDepth * kNarrowPanel;
        for (const TargetGroup& group : arrangement_.groups.groups) {
            for (int64_t i = 0; i < group.target_count; ++i) {
                for (int64_t s = 0; s < segments; ++s) {
                    const int64_t tap = tap_of(s, group.targets[i]);
                    if (tap < 0) continue;
                    taps_[static_cast<size_t>(tap)].to = group.packed + s * words;
                    taps_[static_cast<size_t>(tap)].column = i * params.n;
                }
            }
        }
        params_.taps = taps_.data();
        params_.tap_count = static_cast<int64_t>(taps_.size());
        params_.run = 1;
        for (int a = kFilterAxes - 1; a >= 0 && (kernel[a] == 1 || strides[a] == params_.run); --a) {
            params_.run *= kernel[a];
        }
    }

    // The number of the tap that a target has of a segment, or -1.
    int64_t tap_of(int64_t segment, int64_t target) const {
        int64_t number = 0, step = 1;
        for (int a = kFilterAxes - 1; a >= 0; --a) {
            const FilterAxis& axis = arrangement_.layout.axes[a];
            const int64_t s = segment % axis.segments(), t = target % axis.targets();
            const int64_t tap = axis.tap[static_cast<size_t>(s * axis.targets() + t)];
            if (tap < 0) return -1;
            number += tap * step;
            step *= params_.weights.kernel[a];
            segment /= axis.segments();
            target /= axis.targets();
        }
        return number;
    }

    const NarrowCode& code_;
    Arrangement arrangement_;
    std::vector<NarrowTap> taps_;
    NarrowPackParams params_{};
};

}  // namespace

int64_t narrow_packed_size(const FilterProblem& problem, FilterDirection direction) {
    return Arrangement(problem, direction, kPanels).packed_size(problem);
}

std::string narrow_packing(const FilterProblem& problem, FilterDirection direction) {
    return Arrangement(problem, direction, kPanels).packing(problem);
}

std::unique_ptr<Kernel> narrow_pack(const FilterProblem& problem, FilterDirection direction,
                                    const FilterWeights& weights, int threads, const std::string& isa) {
    return std::make_unique<NarrowPack>(problem, direction, weights, threads, narrow_code_of(isa));
}

std::unique_ptr<ScratchKernel> narrow_product(const FilterProblem& problem, FilterDirection direction,
                                              const FilterTensor& src, const FilterTensor& dst, int bias_dtype,
                                              int threads, const Tail& tail, const std::string& isa) {
    return std::make_unique<NarrowProduct>(Joined(problem, src, dst), direction, bias_dtype, threads, tail,
                                           narrow_code_of(isa));
}

}  // namespace dgo
