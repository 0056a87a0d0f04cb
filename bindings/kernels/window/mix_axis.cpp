// Weighted sums along one axis: resampling, averages of windows, and their gradients, one axis after the other.
#include <memory>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/window/vtable.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "mix_axis";

// Result r of an axis is the sum of weights[i] times the element sources[i] for i from starts[r] up to starts[r + 1].
struct MixAxisProblem {
    int64_t outer, size, inner;
    int dtype;
    Dims starts, sources;
    std::vector<double> weights;
};

struct MixAxisKernel : Kernel {
    int64_t outer, size, inner, item, results, most = 0;
    ElementType type;
    Dims starts, sources;
    std::vector<float> weights;
    double work;
    ScratchLayout shared, each;
    ScratchArray<const char*> row_part;

    explicit MixAxisKernel(const MixAxisProblem& p)
        : outer(p.outer), size(p.size), inner(p.inner), item(item_size(p.dtype)),
          results(static_cast<int64_t>(p.starts.size()) - 1), type(float_type(p.dtype)), starts(p.starts),
          sources(p.sources), weights(p.weights.begin(), p.weights.end()) {
        name = kName;
        arity = 2;
        const auto count = static_cast<int64_t>(sources.size());
        for (const int64_t number : {outer, size, inner}) check_number(kName, "the shape", number, 0, kMostElements);
        if (starts.empty() || starts.front() != 0 || starts.back() != count || weights.size() != sources.size()) {
            fail(ErrorKind::invalid_argument,
                 "mix_axis: starts from 0 to the number of sources, and a weight for each "
                 "source, are needed");
        }
        for (const int64_t source : sources) check_number(kName, "sources", source, 0, size - 1);
        for (int64_t r = 0; r < results; ++r) {
            check_number(kName, "starts", starts[r + 1], starts[r], count);
            most = std::max(most, starts[r + 1] - starts[r]);
        }
        checked_product(kName, {outer, size, inner, item});
        work = static_cast<double>(checked_product(kName, {outer, results, inner})) * 4 +
               static_cast<double>(checked_product(kName, {outer, count, inner, item}));
        row_part = each.add<const char*>(std::max<int64_t>(most, 1));
    }

    void run(char* const* operands) const override {
        const int64_t tasks = outer * results;
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            const char** const rows = row_part.in(scratch.of(rank));
            for (int64_t task = begin; task < end; ++task) {
                const int64_t r = task % results, first = starts[r], count = starts[r + 1] - first;
                const char* const from = operands[0] + task / results * size * inner * item;
                for (int64_t i = 0; i < count; ++i) rows[i] = from + sources[first + i] * inner * item;
                float* const to = reinterpret_cast<float*>(operands[1]) + task * inner;
                vector_code().window.mix({type, inner, 1, rows, weights.data() + first, count, 0, to, 0});
            }
        });
    }
};

}  // namespace

const Declaration kMixAxis{
    "mix_axis(outer, size, inner, dtype, starts, sources, weights)",
    kernel_of<MixAxisKernel, MixAxisProblem, int64_t, int64_t, int64_t, int, Dims, Dims, std::vector<double>>,
    "src (outer, size, inner), dst f32 (outer, results, inner)",
    "dst[o, r, j] = the sum of weights[i] * src[o, sources[i], j] for i from starts[r] up to starts[r + 1]; there is "
    "one result fewer than starts."};

}  // namespace dgo
