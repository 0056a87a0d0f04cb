// Sums, means, norms, products and extremes over any axes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "common/error.hpp"
#include "kernels/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/window/integers.hpp"
#include "kernels/window/vtable.hpp"

namespace dgo {
namespace {

// A reduction over the axes that are `reduced`; the strides of dst on these are ignored. scales: of integers.
struct ReduceProblem {
    Dims shape;
    std::vector<bool> reduced;
    int src_dtype;
    Dims src_strides;
    int dst_dtype;
    Dims dst_strides;
    Fold fold;
    bool mean, root;
    IntegerScales scales;
};

constexpr const char* kName = "reduce";
constexpr int64_t kStrip = 128;  // channels of a task

using Axis = StridedAxis<std::array<int64_t, 1>>;

// Returns the offsets of `count` elements of these axes, in row-major order.
std::vector<int64_t> offsets_of(const AxesOf<1>& axes, int64_t count) {
    std::vector<int64_t> offsets(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
        int64_t* const at = &offsets[static_cast<size_t>(i)];
        add_offsets(axes, i, at);
    }
    return offsets;
}

struct ReduceKernel : Kernel {
    WindowTypes types;
    Fold fold;
    float divisor;
    bool root;
    Rescale rescale;
    bool along = false;          // the numbers of a sum are neighbours, else sums of neighbours are made at once
    int64_t channels = 1;        // results that are neighbours in the source
    AxesOf<1> outer;  // the axes of the runs of results
    int64_t runs = 1;  // the number of runs
    std::vector<int64_t> rows;  // element offsets of the rows of one result
    Axis taps{1, {0}};  // the numbers of a row
    int64_t strip, strips, parts;
    int64_t results = 1, of_each = 1;
    std::optional<StridedCopy> store;  // copies results to dst; none: they are written there
    ElementType stored;
    bool keeps;  // sums, from which results are made at the end
    ScratchLayout shared, each;
    ScratchArray<float> result_part, sum_part;
    ScratchArray<const char*> row_part;

    explicit ReduceKernel(const ReduceProblem& p)
        : types(kName, p.src_dtype, p.dst_dtype, p.scales, true), fold(p.fold), root(p.root) {
        name = kName;
        arity = 2;
        const size_t rank = p.shape.size();
        if (p.src_strides.size() != rank || p.dst_strides.size() != rank || p.reduced.size() != rank) {
            fail(ErrorKind::invalid_argument, "reduce: a stride on both sides is needed for each axis");
        }
        if (types.whole && fold != Fold::sum && fold != Fold::max) {
            fail(ErrorKind::invalid_argument, "reduce: of integers sum, mean and max are taken");
        }
        for (size_t i = 0; i < rank; ++i) {
            check_number(kName, "shape", p.shape[i], 1, kMostElements);
            check_number(kName, "src_strides", p.src_strides[i], 0, INT64_MAX);
            int64_t& all = p.reduced[i] ? of_each : results;
            all = checked_product(kName, {all, p.shape[i]});
        }
        checked_product(kName, {results, of_each});
        check_extent(kName, "src", p.shape, p.src_strides);
        types.check_terms(kName, of_each);
        divisor = p.mean ? static_cast<float>(of_each) : 1.0f;
        rescale = types.rescale(p.mean ? static_cast<double>(of_each) : 1, fold == Fold::sum ? of_each : 1);
        AxesOf<1> folded;
        std::vector<size_t> kept;
        for (size_t i = 0; i < rank; ++i) {
            if (p.shape[i] == 1) continue;
            if (p.reduced[i]) {
                folded.push_back({p.shape[i], {p.src_strides[i]}});
            } else {
                kept.push_back(i);
            }
        }
        folded = joined(folded);
        taps = take_last(folded, taps);
        along = taps.size > 1 && taps.strides[0] == 1;
        rows = offsets_of(folded, of_each / taps.size);
        // in the order of the source, so that the run of neighbours is the last
        std::stable_sort(kept.begin(), kept.end(),
                         [&](size_t a, size_t b) { return p.src_strides[a] > p.src_strides[b]; });
        AxesOf<1> around;
        Dims sizes, to;
        for (const size_t i : kept) {
            around.push_back({p.shape[i], {p.src_strides[i]}});
            sizes.push_back(p.shape[i]);
            to.push_back(p.dst_strides[i]);
        }
        outer = joined(around);
        if (!along && !outer.empty() && outer.back().strides[0] == 1) {
            channels = outer.back().size;
            outer.pop_back();
        }
        runs = results / channels;
        bool dense = true;
        for (int64_t i = static_cast<int64_t>(sizes.size()) - 1, step = 1; i >= 0; step *= sizes[i--])
            dense = dense && to[i] == step;
        // results of integers have the integers' type also where sums are kept first
        keeps = types.whole && along;
        stored = types.whole || (dense && !along) ? types.to : ElementType::f32;
        if (!dense || stored != types.to) {
            Dims from(sizes.size());
            int64_t step = 1;
            for (size_t i = sizes.size(); i-- > 0; step *= sizes[i]) from[i] = step;
            if (sizes.empty()) sizes = from = to = {1};
            store.emplace(sizes, types.whole ? p.dst_dtype : kF32, from, p.dst_dtype, to);
            result_part = shared.add<float>(results);
        }
        strip = std::min<int64_t>(channels, kStrip);
        strips = ceil_div(channels, strip);
        // few results of many numbers are made of partial sums
        parts = 1;
        const int64_t tasks = runs * strips;
        const int threads = threads_for(kMostElements, bytes());
        if (tasks < threads && taps.size > 2 * threads && rows.size() == 1) {
            parts = threads;
            keeps = true;
        }
        if (keeps) sum_part = shared.add<float>(checked_product(kName, {parts, results}));
        row_part = each.add<const char*>(std::max(static_cast<int64_t>(rows.size()), parts));
    }

    double bytes() const { return static_cast<double>(results) * static_cast<double>(of_each * types.from_item); }

    void run(char* const* operands) const override {
        const int64_t tasks = runs * strips * parts;
        const int threads = threads_for(tasks, bytes());
        const Scratch scratch(shared, each, threads);
        float* const made = store ? result_part.in(scratch.shared()) : nullptr;
        char* const to = store ? reinterpret_cast<char*>(made) : operands[1];
        float* const sums = keeps ? sum_part.in(scratch.shared()) : nullptr;
        if (along && rows.size() == 1 && parts == 1) {
            float* const all = sums ? sums : reinterpret_cast<float*>(to);
            parallel_parts(threads, runs,
                           [&](int64_t begin, int64_t end, int) { fold_rows(operands[0], all, begin, end); });
        } else {
            fold_parts(operands[0], sums ? reinterpret_cast<char*>(sums) : to, threads, scratch);
        }
        if (sums) finish(sums, to);
        if (store) store->run(reinterpret_cast<const char*>(made), operands[1]);
    }

    int64_t stored_item() const { return stored == ElementType::f32 ? int64_t{sizeof(float)} : types.to_item; }

    // Folds the parts into results, or into sums: the sums of part 0, of part 1, ...
    void fold_parts(const char* from, char* to, int threads, const Scratch& scratch) const {
        const int64_t tasks = runs * strips * parts;
        // runs next to each other on the finest axis around are the outputs of one call, unless they are cut
        const Axis inner = outer.empty() ? Axis{1, {0}} : outer.back();
        const bool joined = !along && strips == 1 && parts == 1;
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            const char** const at = row_part.in(scratch.of(rank));
            int64_t count = 1;
            for (int64_t task = begin; task < end; task += count) {
                const int64_t part = task % parts, first = task / parts % strips * strip, index = task / parts / strips;
                FoldRun run = run_of(from + (offset_of(index) + first) * types.from_item, at, part);
                run.channels = std::min(strip, channels - first);
                if (joined) count = std::min(end - task, inner.size - task % inner.size);
                run.outputs = count;
                run.advance = inner.strides[0];
                run.dst_step = channels;
                run.to = keeps ? types.sums() : stored;
                run.dst =
                    to + (part * results + index * channels + first) * (keeps ? int64_t{sizeof(float)} : stored_item());
                if (keeps) {
                    run.divisor = 1.0f;
                    run.root = false;
                }
                run_one(run);
            }
        });
    }

    // Joins the sums of all parts to results.
    void finish(const float* sums, char* to) const {
        const int threads = threads_for(results, static_cast<double>(results * parts) * sizeof(float));
        parallel_parts(threads, results, [&](int64_t begin, int64_t end, int) {
            const char* from = reinterpret_cast<const char*>(sums + begin);
            vector_code().window.fold({joining(fold), types.sums(), stored, end - begin, 1, &from, 1, parts, results, 0,
                                       to + begin * stored_item(), 0, divisor, root, rescale});
        });
    }

    // Folds results [begin, end), run by run of the finest axis around.
    void fold_rows(const char* from, float* to, int64_t begin, int64_t end) const {
        const Axis inner = outer.empty() ? Axis{1, {0}} : outer.back();
        while (begin < end) {
            const int64_t count = std::min(end - begin, inner.size - begin % inner.size);
            vector_code().window.fold_rows({fold, types.from, from + offset_of(begin) * types.from_item, taps.size,
                                            count, inner.strides[0], to + begin, divisor, root});
            begin += count;
        }
    }

    float finished(float value) const {
        const float all = fold == Fold::sum ? value / divisor : value;
        return root ? std::sqrt(all) : all;
    }

    int64_t offset_of(int64_t index) const {
        int64_t offset[] = {0};
        add_offsets(outer, index, offset);
        return offset[0];
    }

    // Folds the rows of one part of the taps.
    FoldRun run_of(const char* from, const char** at, int64_t part) const {
        const int64_t begin = taps.size * part / parts, end = taps.size * (part + 1) / parts;
        for (size_t i = 0; i < rows.size(); ++i) at[i] = from + (rows[i] + begin * taps.strides[0]) * types.from_item;
        FoldRun run{};
        run.fold = fold;
        run.from = types.from;
        run.rows = at;
        run.row_count = static_cast<int64_t>(rows.size());
        run.taps = end - begin;
        run.tap_step = taps.strides[0];
        run.divisor = divisor;
        run.root = root;
        run.rescale = rescale;
        return run;
    }

    void run_one(FoldRun run) const {
        if (!along) return vector_code().window.fold(run);
        // sums are f32, as results of this kind are, or s32
        vector_code().window.fold_row(fold, types.from, run.rows, run.row_count, run.taps, run.dst);
        if (keeps) return;
        auto* const result = reinterpret_cast<float*>(run.dst);
        *result = finished(*result);
    }
};

Fold fold_of(const std::string& name) {
    if (name == "sum" || name == "mean") return Fold::sum;
    if (name == "max") return Fold::max;
    if (name == "min") return Fold::min;
    if (name == "prod") return Fold::product;
    if (name == "l1") return Fold::magnitudes;
    if (name == "l2") return Fold::squares;
    fail(ErrorKind::invalid_argument, "reduce: '" + name + "' is none of sum, mean, max, min, prod, l1 and l2");
}

std::shared_ptr<Kernel> make_reduce(const std::string& kind, const Dims& shape, const std::vector<bool>& reduced,
                                    int src_dtype, const Dims& src_strides, int dst_dtype, const Dims& dst_strides,
                                    const IntegerScales& scales) {
    return std::make_shared<ReduceKernel>(ReduceProblem{shape, reduced, src_dtype, src_strides, dst_dtype, dst_strides,
                                                        fold_of(kind), kind == "mean", kind == "l2", scales});
}

}  // namespace

const Declaration kReduce{
    "reduce(kind, shape, reduced, src_dtype, src_strides, dst_dtype, dst_strides, scales=None)", make_reduce,
    "src (shape), dst (shape)",
    "dst = sum, mean, max, min, prod, l1 (sum of magnitudes) or l2 (root of the sum of squares) of src over the axes "
    "that are `reduced`, none of size 0; the strides of dst on these are ignored. Results are f32 or of src's type. "
    "With scales (scale and zero point of src, of dst) src is of 8-bit integers, dst too or f32: sum, mean and max are "
    "exact, and rounded once, ties to even."};

}  // namespace dgo
