#include "kernels/narrow/gradient.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/checked.hpp"
#include "kernels/filtering/axis.hpp"
#include "kernels/narrow/gradient_params.hpp"
#include "kernels/narrow/isa.hpp"

namespace dgo {

namespace {

constexpr const char* kName = "narrow_backward_weights";
constexpr int64_t kUnit = 32;                     // channels of a block of products
constexpr int64_t kDepth = 512;                   // positions of a step, for which sums are loaded and stored once
constexpr int64_t kLeastDepth = 128;              // of steps that keep to a plane
constexpr int64_t kSumBytes = 1024 * 1024;        // of a task: they come back for every step
constexpr int64_t kRightBytes = 512 * 1024;       // of a step
constexpr int64_t kInUnits = 16, kFewUnits = 2;   // of a task
constexpr int64_t kTasksPerThread = 4;

int64_t units_of(int64_t channels) { return ceil_div(channels, kUnit); }

// As many parts as blocks of at most so many units take, all of about one size.
int64_t evened(int64_t units, int64_t most) { return ceil_div(units, ceil_div(units, most)); }

// Positions of src that meet diff_dst by one tap.
NarrowRange meeting(const FilterProblem& p, int a, int64_t tap) {
    const int64_t shift = p.dilation[a] * tap - p.pad[a];
    const int64_t first = std::clamp<int64_t>(ceil_div(-shift, p.stride[a]), 0, p.in[a]);
    const int64_t end = std::clamp<int64_t>(floor_div(p.out[a] - 1 - shift, p.stride[a]) + 1, first, p.in[a]);
    return {first, end};
}

std::vector<NarrowRange> ranges(const FilterProblem& p, int a) {
    std::vector<NarrowRange> all;
    for (int64_t tap = 0; tap < p.kernel[a]; ++tap) all.push_back(meeting(p, a, tap));
    return all;
}

class NarrowGradient final : public ScratchKernel {
public:
    NarrowGradient(const FilterProblem& p, const FilterTensor& src, const FilterTensor& diff,
                   const FilterWeights& weights, int threads, const NarrowCode& code)
        : code_(code) {
        name = kName;
        arity = 4;
        check_axes(p);
        planes_ = ranges(p, 0);
        columns_ = ranges(p, 2);
        params_.batch = p.batch;
        params_.groups = p.groups;
        params_.in_channels = p.in_channels;
        params_.out_channels = p.out_channels;
        params_.in = p.in;
        params_.out = p.out;
        params_.kernel = p.kernel;
        params_.stride = p.stride;
        params_.pad = p.pad;
        params_.dilation = p.dilation;
        params_.src = src;
        params_.diff = diff;
        params_.planes = planes_.data();
        params_.columns = columns_.data();
        params_.weights = weights;
        params_.weights_cell = float_cell(weights.dtype);
        params_.weights_item = item_size(weights.dtype);
        params_.threads = filter_threads(p, threads);
        lay_out_steps(p);
        lay_out_runs(p);
        lay_out_tasks(p);
        params_.scratch_per_thread = code.gradient_scratch(params_);
        params_.sums = checked_product(kName, {params_.scratch_per_thread, params_.threads});
        scratch_bytes = params_.sums + checked_product(kName, {code.gradient_sums(params_)});
        checked_product(kName, {scratch_bytes});
    }

    void run(char* const* operands) const override {
        code_.gradient(params_, operands[0], operands[1], operands[2], operands[3]);
    }

private:
    void lay_out_steps(const FilterProblem& p) {
        const int64_t padded = ceil_div(p.in[2], 2) * 2, height = p.in[1];
        params_.width = p.in[2];
        params_.width_steps = 1;
        if (padded > kDepth) {
            params_.width = ceil_div(ceil_div(padded, ceil_div(padded, kDepth)), kUnit) * kUnit;
            params_.width_steps = ceil_div(p.in[2], params_.width);
        }
        const int64_t most = std::max<int64_t>(1, kDepth / padded);
        params_.across = height * padded < kLeastDepth && p.batch * p.in[0] > 1;
        params_.lines = params_.across ? std::min(most, p.batch * p.in[0] * height) : evened(height, most);
        params_.line_steps = ceil_div(height, params_.lines);
    }

    // Taps whose lines are a stride apart share them as far as they overlap.
    void lay_out_runs(const FilterProblem& p) {
        const int64_t stride = p.stride[1], kernel = p.kernel[1];
        slots_.assign(static_cast<size_t>(kernel), -1);
        int64_t used = 0;
        for (int64_t tap = 0; tap < kernel; ++tap) {
            if (slots_[static_cast<size_t>(tap)] >= 0) continue;
            NarrowLines run{p.dilation[1] * tap - p.pad[1], 0, used};
            slots_[static_cast<size_t>(tap)] = used;
            for (int64_t other = tap + 1; other < kernel && !params_.across; ++other) {
                const int64_t shift = p.dilation[1] * (other - tap);
                if (shift % stride != 0) continue;
                if (shift / stride - run.more >= params_.lines) break;
                run.more = shift / stride;
                slots_[static_cast<size_t>(other)] = used + run.more;
            }
            used += params_.lines + run.more;
            runs_.push_back(run);
        }
        params_.runs = runs_.data();
        params_.run_count = static_cast<int64_t>(runs_.size());
        params_.slots = slots_.data();
        params_.slot_count = used;
    }

    void lay_out_tasks(const FilterProblem& p) {
        const int64_t in = units_of(p.in_channels), out = units_of(p.out_channels), taps = p.kernel[1] * p.kernel[2];
        const int64_t pairs = params_.slot_count * ceil_div(params_.width, 2);
        const auto fits = [&](int64_t in_units, int64_t out_units) {
            const double sums = 4.0 * kUnit * kUnit * static_cast<double>(taps) * static_cast<double>(in_units);
            const double right = 4.0 * kUnit * static_cast<double>(pairs) * static_cast<double>(p.kernel[2]);
            return static_cast<double>(out_units) * sums <= kSumBytes &&
                   static_cast<double>(out_units) * right <= kRightBytes;
        };
        int64_t rows = evened(in, kInUnits), columns = 1;
        while (rows > kFewUnits && !fits(rows, 1)) rows = evened(in, (rows + 1) / 2);
        while (columns < out && fits(rows, columns + 1)) ++columns;
        columns = evened(out, columns);
        const int64_t outer = p.groups * p.kernel[0];
        const auto tasks = [&] { return outer * ceil_div(in, rows) * ceil_div(out, columns); };
        while (columns > 1 && tasks() < params_.threads) columns = evened(out, (columns + 1) / 2);
        while (rows > kFewUnits && tasks() < params_.threads) rows = evened(in, (rows + 1) / 2);
        params_.in_units = rows;
        params_.out_units = columns;
        params_.in_parts = ceil_div(in, rows);
        params_.out_parts = ceil_div(out, columns);
        // Few tasks: their steps are shared out, and the sums of the parts added up.
        const int64_t planes = p.batch * p.in[0];
        const int64_t steps = params_.across ? ceil_div(planes * p.in[1], params_.lines)
                                             : planes * params_.line_steps * params_.width_steps;
        const int64_t team = params_.threads;
        params_.step_parts = 1;
        while (params_.step_parts < std::min(steps, team) && tasks() * params_.step_parts % team != 0 &&
               tasks() * params_.step_parts < kTasksPerThread * team) {
            ++params_.step_parts;
        }
    }

    const NarrowCode& code_;
    std::vector<NarrowRange> planes_, columns_;
    std::vector<NarrowLines> runs_;
    std::vector<int64_t> slots_;
    NarrowGradientParams params_{};
};

}  // namespace

std::unique_ptr<ScratchKernel> narrow_backward_weights(const FilterProblem& problem, const FilterTensor& src,
                                                       const FilterTensor& diff_dst, const FilterWeights& diff_weights,
                                                       int threads, const std::string& isa) {
    const auto is = [](const FilterTensor& tensor) { return float_cell(tensor.dtype) == Cell::bf16; };
    if (!is(src) || !is(diff_dst) || float_cell(diff_weights.dtype) == Cell::f16) {
        fail(ErrorKind::invalid_argument, std::string(kName) +
                                              ": src and diff_dst must be bf16 and diff_weights bf16 or f32, but their "
                                              "dtypes are " +
                                              std::to_string(src.dtype) + ", " + std::to_string(diff_dst.dtype) +
                                              " and " + std::to_string(diff_weights.dtype) +
                                              "; use filter_backward_weights");
    }
    return std::make_unique<NarrowGradient>(problem, src, diff_dst, diff_weights, threads, narrow_code_of(isa));
}

}  // namespace dgo
