// Dgrad as products that overlap: every position of src times all taps, which stay in the
// caches until they are added up, line by line of dst. The design is told in docs/internals/kernels.md.
#include <algorithm>
#include <string>
#include <utility>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/product/axis.hpp"
#include "kernels/product/described.hpp"
#include "kernels/product/tasks.hpp"
#include "kernels/isa.hpp"
#include "kernels/col2im/vtable.hpp"

namespace dgo {

namespace {

constexpr int64_t kColumnBytes = 192 * 1024;  // columns that wait to be added up, in the second cache level
constexpr int64_t kFewestRuns = 24;
constexpr int64_t kShortRun = 64;
constexpr int64_t kRowsTogether = 48;  // rows of src multiplied together, where a line has fewer
constexpr int64_t kLeastRuns = 8;
constexpr double kAddCost = 2;  // multiplications that take as long as adding a value up

Col2imImage image(const FilterTensor& tensor, int64_t channels, const Axes& size) {
    return {float_type(tensor.dtype), item_size(tensor.dtype), channels, tensor.batch_stride, size, tensor.strides};
}

// Returns the layer with its taps side by side instead of overlapping: col2im_product takes its packed weights.
FilterProblem taps_apart(const FilterProblem& problem) {
    FilterProblem p = problem;
    for (int a = 0; a < kFilterAxes; ++a) {
        p.stride[a] = p.kernel[a];
        p.out[a] = p.in[a] * p.kernel[a];
        p.pad[a] = 0;
        p.dilation[a] = p.tile[a] = 1;
    }
    return p;
}

// Returns why col2im_product does not compute the problem; empty if it does.
std::string col2im_refusal(const FilterProblem& p) {
    constexpr int last = kFilterAxes - 1;
    const std::string why = axes_refusal(p);
    if (!why.empty()) return why;
    if (p.groups != 1) return "the layer has more than one group";
    if (p.dilation[last] != 1) return "the last axis is dilated";
    if (p.tile[0] != 1 || p.tile[1] != 1 || p.tile[2] != 1) return "a tile has more than one result";
    // a run is as long as the stride
    if (p.stride[last] > std::max({p.kernel[last], p.out[last], kShortRun})) {
        return "the last axis' stride is longer than it is";
    }
    return axes_refusal(taps_apart(p));
}

class Col2imProduct final : public ScratchKernel {
public:
    Col2imProduct(const FilterProblem& p, const FilterTensor& src, const FilterTensor& dst, int bias_dtype, int threads,
                  const Epilogue& epilogue)
        : epilogue_(fitted_epilogue(epilogue, p.batch, p.out_channels, p.out, dst)) {
        name = "col2im_product";
        by = code_name("gemm_col2im_f32", vector_code().isa, vector_code().filter.rows, code().panel);
        const std::string why = col2im_refusal(p);
        if (!why.empty()) fail(ErrorKind::invalid_argument, "col2im product: " + why);
        params_.has_bias = bias_dtype != 0;
        params_.bias_type = params_.has_bias ? float_type(bias_dtype) : ElementType::f32;
        arity = (params_.has_bias ? 5 : 4) + epilogue_.operands();
        params_.src = image(src, p.in_channels, p.in);
        params_.dst = image(dst, p.out_channels, p.out);
        params_.kernel = p.kernel;
        params_.stride = p.stride;
        params_.pad = p.pad;
        params_.dilation = p.dilation;
        params_.batch = p.batch;
        params_.threads = filter_threads(p, threads);
        params_.vast =
            params_.dst.type == ElementType::f32 && p.batch * dst.batch_stride * params_.dst.item > kVastBytes;
        lay_out_tasks();
        params_.scratch_per_thread = code().scratch(params_);
        scratch_bytes = checked_product(name, {params_.scratch_per_thread, params_.threads});
        const double sources = static_cast<double>(p.batch * p.in[0] * p.in[1] * p.in[2]);
        const double all =
            sources * static_cast<double>(p.kernel[0] * params_.width) * static_cast<double>(p.in_channels);
        products = static_cast<int64_t>(std::min(all, 1e18));
    }

    void run(char* const* operands) const override {
        const char* bias = params_.has_bias ? operands[2] : nullptr;
        char* const* last = operands + arity - 2;
        const EpilogueCall epilogue = epilogue_.call(operands + (params_.has_bias ? 3 : 2));
        code().run(params_, operands[0], reinterpret_cast<const float*>(operands[1]), bias, epilogue, last[0], last[1]);
    }

private:
    static const Col2imCode& code() { return vector_code().col2im; }

    int64_t reach(int axis) const { return params_.dilation[axis] * (params_.kernel[axis] - 1); }

    void lay_out_tasks() {
        constexpr int last = kFilterAxes - 1;
        const int64_t stride = params_.stride[last], columns = params_.columns(), panel = code().panel;
        params_.run = stride * params_.dst.channels;
        params_.shifts = ceil_div(params_.kernel[last], stride);
        params_.planes = std::min({reach(0) / params_.stride[0] + 1, params_.kernel[0], params_.src.size[0]});
        params_.live = std::min(reach(1) / params_.stride[1] + 1, params_.src.size[1]);
        // The columns of a tap of axis 0 begin anywhere in a panel.
        const int64_t first = columns % panel == 0 || params_.kernel[0] == 1 ? 0 : panel - 1;
        params_.width = ceil_div(first + columns, panel) * panel;
        if (params_.width * 4 % 4096 == 0) params_.width += 16;

        params_.first_run = floor_div(params_.pad[last], stride);
        params_.all_runs = ceil_div(params_.pad[last] + params_.dst.size[last], stride) - params_.first_run;
        const int64_t lines = checked_product(name, {params_.planes, params_.live, params_.width, 4});
        const int64_t most = kColumnBytes / lines, least = std::max(kFewestRuns, 4 * params_.shifts);
        share_out(ceil_div(params_.all_runs, std::max(most, least)), 1);
        if (params_.threads > 1 && params_.dst.size[1] > 0 && params_.all_runs > 0) share_out_to_threads();
    }

    void share_out(int64_t sections, int64_t blocks) {
        params_.sections = sections;
        params_.blocks = blocks;
        params_.runs = ceil_div(params_.all_runs, sections);
        params_.together = std::clamp<int64_t>(kRowsTogether / params_.positions(), 1, params_.src.size[1]);
    }

    // Takes the sections and blocks whose last thread ends first: tasks that are neighbours multiply some lines and
    // positions of src twice.
    void share_out_to_threads() {
        const int64_t fewest = params_.sections, most_tasks = kTasksOfThread * params_.threads;
        const int64_t planes = std::max<int64_t>(params_.batch * params_.dst.size[0], 1);
        int64_t best_sections = fewest, best_blocks = 1;
        double best = -1;
        for (int64_t sections = fewest; sections * kLeastRuns <= std::max(params_.all_runs, fewest * kLeastRuns);
             ++sections) {
            for (int64_t blocks = 1; blocks <= params_.dst.size[1]; ++blocks) {
                share_out(sections, blocks);
                const double tasks = static_cast<double>(planes) * static_cast<double>(sections * blocks);
                if (sections * blocks > 1 && tasks > static_cast<double>(most_tasks)) break;
                const double seconds = last_end(tasks, params_.threads, task_cost());
                if (best >= 0 && seconds >= best) continue;
                best = seconds;
                best_sections = sections;
                best_blocks = blocks;
            }
            if (planes * sections > most_tasks) break;
        }
        share_out(best_sections, best_blocks);
    }

    // Returns the cost of a task in multiplications: the columns of lines of src, and what adds them up.
    double task_cost() const {
        const int64_t lines = ceil_div(params_.dst.size[1], params_.blocks), rows = vector_code().filter.rows;
        const int64_t from = std::min(ceil_div(lines, params_.stride[1]) + params_.live - 1, params_.src.size[1]);
        const int64_t positions = std::min(params_.positions(), params_.src.size[2]);
        const int64_t multiplied =
            params_.sections == 1 ? ceil_div(from * positions, rows) * rows : from * (ceil_div(positions, rows) * rows);
        const double products = static_cast<double>(multiplied * params_.planes) *
                                static_cast<double>(params_.width * params_.src.channels);
        const double terms = static_cast<double>(params_.planes * params_.live * params_.shifts);
        return products + kAddCost * terms * static_cast<double>(lines * params_.runs * params_.run);
    }

    FittedEpilogue epilogue_;
    Col2imParams params_{};
};

std::unique_ptr<ScratchKernel> make_product(const FilterProblem& p, int src_dtype, const Dims& src_strides,
                                            int dst_dtype, const Dims& dst_strides, int bias_dtype, int threads,
                                            const Epilogue& epilogue) {
    const FilterSides sides(p, FilterDirection::dgrad, src_dtype, src_strides, dst_dtype, dst_strides);
    return std::make_unique<Col2imProduct>(p, sides.src, sides.dst, bias_dtype, threads, epilogue);
}

}  // namespace

const Declaration kCol2imProduct[] = {
    {"FilterProblem.col2im_refusal(self)", col2im_refusal,
     "Returns why col2im_product does not compute the layer; empty if it does."},
    {"FilterProblem.taps_apart(self)", taps_apart,
     "Returns the layer whose packed weights col2im_product takes for this one."},
    {"col2im_product(problem, src_dtype, src_strides, dst_dtype, dst_strides, bias_dtype=0, threads=0, epilogue=...)",
     make_product,
     "src (batch, in_spatial, in_channels), packed, [bias (out_channels)], epilogue's..., scratch, dst (batch, "
     "out_spatial, out_channels)",
     "dst = bias + the transposed convolution of src, as filter_dgrad computes it, by products whose overlaps are "
     "added up. packed: the weights of problem.taps_apart(). The problem has one group and no dilation on the last "
     "axis."},
};

}  // namespace dgo
