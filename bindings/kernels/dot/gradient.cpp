// Wgrad by bf16 products: src and diff_dst in bf16, sums in f32.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/dot/gradient_params.hpp"
#include "kernels/dot/vtable.hpp"
#include "kernels/sets.hpp"
#include "kernels/product/arrangement.hpp"
#include "kernels/product/described.hpp"
#include "kernels/isa.hpp"

namespace dgo {

namespace {

constexpr const char* kName = "bf16_wgrad";
constexpr int64_t kUnit = 32;                     // channels of a block of products
constexpr int64_t kDepth = 512;                   // positions of a step, for which sums are loaded and stored once
constexpr int64_t kLeastDepth = 128;  // positions of a step within one plane, at least
constexpr int64_t kSumBytes = 1024 * 1024;  // bytes of a task's sums, which each step loads again
constexpr int64_t kSingleStepSumBytes = 256 * 1024;  // bytes of a task's sums if all positions are one step
constexpr int64_t kRightBytes = 512 * 1024;  // bytes of the right factor of a step
constexpr int64_t kInUnits = 16, kFewUnits = 2;  // units of a task
constexpr int64_t kTasksPerThread = 4;

int64_t units_of(int64_t channels) { return ceil_div(channels, kUnit); }

// Returns the units of a part if `units` are cut into as few parts of at most `most` units as possible, of about equal
// sizes.
int64_t evened(int64_t units, int64_t most) { return ceil_div(units, ceil_div(units, most)); }

// Returns the positions of src that meet diff_dst by one tap.
GradientRange meeting(const FilterProblem& p, int a, int64_t tap) {
    const int64_t shift = p.dilation[a] * tap - p.pad[a];
    const int64_t first = std::clamp<int64_t>(ceil_div(-shift, p.stride[a]), 0, p.in[a]);
    const int64_t end = std::clamp<int64_t>(floor_div(p.out[a] - 1 - shift, p.stride[a]) + 1, first, p.in[a]);
    return {first, end};
}

std::vector<GradientRange> ranges(const FilterProblem& p, int a) {
    std::vector<GradientRange> all;
    for (int64_t tap = 0; tap < p.kernel[a]; ++tap) all.push_back(meeting(p, a, tap));
    return all;
}

class Bf16WeightsGradient final : public ScratchKernel {
public:
    Bf16WeightsGradient(const FilterProblem& p, const FilterTensor& src, const FilterTensor& diff,
                        const FilterWeights& weights, int threads, const Dot& dot) {
        name = kName;
        by = dot_name(dot);
        arity = 4;
        params_.dot = &dot;
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
        params_.weights_type = float_type(weights.dtype);
        params_.weights_item = item_size(weights.dtype);
        params_.threads = filter_threads(p, threads);
        const int64_t steps = lay_out_steps(p);
        params_.at_once = steps == 1;
        lay_out_tasks(p, steps);
        params_.scratch_per_thread = vector_code().dot.gradient.scratch(params_);
        params_.sums = checked_product(kName, {params_.scratch_per_thread, params_.threads});
        scratch_bytes = params_.sums + checked_product(kName, {vector_code().dot.gradient.sums(params_)});
        checked_product(kName, {scratch_bytes});
    }

    void run(char* const* operands) const override {
        vector_code().dot.gradient.run(params_, operands[0], operands[1], operands[2], operands[3]);
    }

private:
    // Lays out the steps; returns the most steps of a tap of the first axis.
    int64_t lay_out_steps(const FilterProblem& p) {
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
        const int64_t planes = p.batch * p.in[0];
        return params_.across ? ceil_div(planes * height, params_.lines)
                              : planes * params_.line_steps * params_.width_steps;
    }

    // Groups the taps of the middle axis that are summed together: of `classes` classes, whose taps are a stride apart
    // and share lines, and of a class at most `of_class` taps.
    void lay_out_taps(const FilterProblem& p, int64_t classes, int64_t of_class) {
        const int64_t stride = p.stride[1], dilation = p.dilation[1];
        std::vector<std::vector<int64_t>> all;
        std::vector<int64_t> residues;
        for (int64_t tap = 0; tap < p.kernel[1]; ++tap) {
            const int64_t residue = dilation * tap % stride;
            const auto same = std::find(residues.begin(), residues.end(), residue);
            const auto at = static_cast<size_t>(same - residues.begin());
            if (same == residues.end() || static_cast<int64_t>(all[at].size()) == of_class) {
                if (same != residues.end()) *same = -1;
                residues.push_back(residue);
                all.push_back({tap});
            } else {
                all[at].push_back(tap);
            }
        }
        taps_.clear();
        rows_.clear();
        slots_.clear();
        runs_.clear();
        params_.most_rows = params_.slot_count = 0;
        for (size_t first = 0; first < all.size(); first += static_cast<size_t>(classes)) {
            GradientTaps together{{count(rows_), 0}, {count(runs_), 0}};
            std::vector<std::pair<int64_t, int64_t>> found;  // tap, slot
            int64_t used = 0;
            for (size_t i = first; i < std::min(all.size(), first + static_cast<size_t>(classes)); ++i) {
                for (size_t k = 0; k < all[i].size(); ++k) {
                    const int64_t tap = all[i][k];
                    const int64_t more = k == 0 ? 0 : dilation * (tap - all[i][k - 1]) / stride;
                    if (k > 0 && !params_.across && more < params_.lines) {
                        runs_.back().more += more;
                        used += more;
                    } else {
                        runs_.push_back({dilation * tap - p.pad[1], 0, used});
                        used += params_.lines;
                    }
                    found.emplace_back(tap, used - params_.lines);
                }
            }
            std::sort(found.begin(), found.end());
            for (const auto& [tap, slot] : found) {
                rows_.push_back(tap);
                slots_.push_back(slot);
            }
            together.rows.end = count(rows_);
            together.runs.end = count(runs_);
            params_.most_rows = std::max(params_.most_rows, together.rows.count());
            params_.slot_count = std::max(params_.slot_count, used);
            taps_.push_back(together);
        }
        params_.taps = taps_.data();
        params_.tap_parts = count(taps_);
        params_.rows = rows_.data();
        params_.slots = slots_.data();
        params_.runs = runs_.data();
    }

    // Whether the caches hold the sums of a task and the right factor of a step.
    bool fits(int64_t in_units, int64_t out_units) const {
        const auto number = [](int64_t n) { return static_cast<double>(n); };
        const double taps = number(params_.most_rows) * number(params_.row_taps);
        const double sums = 4.0 * kUnit * kUnit * taps * number(params_.at_once ? 1 : in_units) * number(out_units);
        const double pairs = number(params_.slot_count) * number(ceil_div(params_.width, 2));
        const double right = 4.0 * kUnit * pairs * number(params_.row_taps) * number(out_units);
        return sums <= (params_.at_once ? kSingleStepSumBytes : kSumBytes) && right <= kRightBytes;
    }

    void lay_out_tasks(const FilterProblem& p, int64_t steps) {
        const int64_t in = units_of(p.in_channels), out = units_of(p.out_channels);
        int64_t rows = params_.at_once ? in : evened(in, kInUnits), columns = 1;
        int64_t classes = p.stride[1], of_class = p.kernel[1];
        params_.row_taps = p.kernel[2];
        lay_out_taps(p, classes, of_class);
        const auto halve = [](int64_t& number) { number = (number + 1) / 2; };
        for (; classes > 1 && !fits(rows, 1); lay_out_taps(p, classes, of_class)) halve(classes);
        while (!params_.at_once && rows > kFewUnits && !fits(rows, 1)) rows = evened(in, (rows + 1) / 2);
        while (params_.row_taps > 1 && !fits(rows, 1)) halve(params_.row_taps);
        for (; of_class > 1 && !fits(rows, 1); lay_out_taps(p, classes, of_class)) halve(of_class);
        params_.row_parts = ceil_div(p.kernel[2], params_.row_taps);
        while (columns < out && fits(rows, columns + 1)) ++columns;
        columns = evened(out, columns);
        const int64_t outer = p.groups * p.kernel[0] * params_.tap_parts * params_.row_parts;
        const auto tasks = [&] { return outer * ceil_div(in, rows) * ceil_div(out, columns); };
        while (columns > 1 && tasks() < params_.threads) columns = evened(out, (columns + 1) / 2);
        while (rows > kFewUnits && tasks() < params_.threads) rows = evened(in, (rows + 1) / 2);
        params_.in_units = rows;
        params_.out_units = columns;
        params_.in_parts = ceil_div(in, rows);
        params_.out_parts = ceil_div(out, columns);
        // With few tasks their steps are shared out, and the sums of the parts added up.
        const int64_t team = params_.threads;
        params_.step_parts = 1;
        while (params_.step_parts < std::min(steps, team) && tasks() * params_.step_parts % team != 0 &&
               tasks() * params_.step_parts < kTasksPerThread * team) {
            ++params_.step_parts;
        }
    }

    template <class T>
    static int64_t count(const std::vector<T>& list) {
        return static_cast<int64_t>(list.size());
    }

    std::vector<GradientRange> planes_, columns_;
    std::vector<GradientTaps> taps_;
    std::vector<GradientLines> runs_;
    std::vector<int64_t> rows_, slots_;
    Bf16GradientParams params_{};
};

// A last axis of one position would leave half of each pair empty: another axis, or the batch, takes its place.
struct WithWidth {
    FilterProblem problem;
    FilterTensor src, diff;
    FilterWeights weights;

    WithWidth(const FilterProblem& p, const FilterTensor& from, const FilterTensor& to, const FilterWeights& of)
        : problem(p), src(from), diff(to), weights(of) {
        if (p.in[2] > 1) return;
        if (p.kernel[2] == 1 && (p.in[1] > 1 || p.in[0] > 1)) {
            const int other = p.in[1] > 1 ? 1 : 0;
            for (Axes* axes : all()) std::swap((*axes)[other], (*axes)[2]);
        } else if (p.in[1] == 1 && p.in[0] == 1 && p.kernel[0] == 1 && p.pad[0] == 0 && p.batch > 1) {
            for (Axes* axes : all()) *axes = {{(*axes)[1], (*axes)[2], 1}};
            problem.in[2] = problem.out[2] = p.batch;
            problem.pad[2] = 0;
            problem.batch = 1;
            src.strides[2] = src.batch_stride;
            diff.strides[2] = diff.batch_stride;
        }
    }

private:
    std::vector<Axes*> all() {
        FilterProblem& p = problem;
        return {&p.in,       &p.out,  &p.kernel,    &p.stride,     &p.pad,
                &p.dilation, &p.tile, &src.strides, &diff.strides, &weights.tap_strides};
    }
};

std::unique_ptr<ScratchKernel> make_gradient(const FilterProblem& problem, int src_dtype, const Dims& src_strides,
                                             int diff_dst_dtype, const Dims& diff_dst_strides, int weights_dtype,
                                             const Dims& weights_strides, int threads, const std::string& isa) {
    const FilterSides sides(problem, FilterDirection::dgrad, src_dtype, src_strides, diff_dst_dtype, diff_dst_strides);
    const FilterTensor &src = sides.src, &diff_dst = sides.dst;
    const FilterWeights diff_weights = filter_weights(problem, weights_dtype, weights_strides);
    const auto is = [](const FilterTensor& tensor) { return float_type(tensor.dtype) == ElementType::bf16; };
    if (!is(src) || !is(diff_dst) || float_type(diff_weights.dtype) == ElementType::f16) {
        fail(ErrorKind::invalid_argument, std::string(kName) +
                                              ": src and diff_dst must be bf16 and diff_weights bf16 or f32, but their "
                                              "dtypes are " +
                                              std::to_string(src.dtype) + ", " + std::to_string(diff_dst.dtype) +
                                              " and " + std::to_string(diff_weights.dtype) + "; use filter_wgrad");
    }
    check_axes(problem);
    const Joined joined(problem, src, diff_dst);
    const WithWidth turned(joined.problem, joined.src, joined.dst, diff_weights);
    return std::make_unique<Bf16WeightsGradient>(turned.problem, turned.src, turned.diff, turned.weights, threads,
                                                 bf16_sets().of(isa));
}

}  // namespace

const Declaration kBf16WeightsGradient{
    "bf16_wgrad(problem, src_dtype, src_strides, diff_dst_dtype, diff_dst_strides, weights_dtype, "
    "weights_strides, threads=0, isa='')",
    make_gradient,
    "src (batch, in_spatial, in_channels), diff_dst (batch, out_spatial, out_channels), scratch, diff_weights "
    "(in_channels, out_channels / groups, kernel)",
    "diff_weights = the sum over batch and positions of src * diff_dst. src and diff_dst are bf16, sums f32, "
    "diff_weights bf16 or f32. The same number of threads gives the same bits."};

}  // namespace dgo
