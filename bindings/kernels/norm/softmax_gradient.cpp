// The gradient of softmax, or of its logarithm, over the middle of three axes.
#include <algorithm>
#include <memory>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "softmax_gradient";
constexpr int64_t kColumns = 64;  // columns of a task

struct SoftmaxGradientProblem {
    int64_t outer, length, inner;
    int dtype;
    bool logarithm;
};

struct SoftmaxGradientKernel : Kernel {
    SoftmaxGradientProblem p;
    ElementType type;
    int64_t item, strips;
    double bytes;

    explicit SoftmaxGradientKernel(const SoftmaxGradientProblem& problem)
        : p(problem), type(float_type(p.dtype)), item(item_size(p.dtype)) {
        name = kName;
        arity = 3;
        for (const int64_t size : {p.outer, p.length, p.inner})
            check_number(kName, "the shape", size, 0, kMostElements);
        bytes = static_cast<double>(checked_product(kName, {p.outer, p.length, p.inner, 3, item}));
        strips = ceil_div(p.inner, kColumns);
    }

    void run(char* const* operands) const override {
        const int64_t tasks = p.length == 0 ? 0 : p.outer * strips;
        const auto block = [&](int64_t at, int64_t columns, int64_t rows) {
            at *= item;
            vector_code().norm.softmax_gradient({type, operands[0] + at, operands[1] + at, operands[2] + at, p.length,
                                                 p.inner, columns, rows, p.logarithm});
        };
        parallel_for(tasks, bytes, [&](int64_t begin, int64_t end) {
            if (p.inner == 1) return block(begin * p.length, 1, end - begin);
            for (int64_t task = begin; task < end; ++task) {
                const int64_t first = task % strips * kColumns;
                block(task / strips * p.length * p.inner + first, std::min(kColumns, p.inner - first), 1);
            }
        });
    }
};

}  // namespace

const Declaration kSoftmaxGradient{
    "softmax_gradient(outer, length, inner, dtype, logarithm=False)",
    kernel_of<SoftmaxGradientKernel, SoftmaxGradientProblem, int64_t, int64_t, int64_t, int, bool>,
    "diff_dst (outer, length, inner), dst (outer, length, inner), diff_src (outer, length, inner)",
    "diff_src = dst * (diff_dst - the sum of diff_dst * dst over the middle axis), or for the logarithm diff_dst - "
    "e^dst * the sum of diff_dst; all dense."};

}  // namespace dgo
