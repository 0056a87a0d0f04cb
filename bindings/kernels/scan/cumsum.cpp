// Sums of all elements up to each one.
#include <algorithm>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "cumsum";
constexpr int64_t kColumns = 256;  // columns that are summed side by side

struct CumSum : Kernel {
    int64_t length, inner, blocks, tasks;
    bool exclusive, reverse;
    double bytes;

    CumSum(int64_t outer, int64_t length, int64_t inner, bool exclusive, bool reverse)
        : length(length), inner(inner), exclusive(exclusive), reverse(reverse) {
        name = kName;
        arity = 2;
        for (const int64_t number : {outer, length, inner}) check_number(kName, "sizes", number, 0, kMostElements);
        const int64_t elements = checked_product(kName, {outer, length, inner});
        blocks = ceil_div(inner, kColumns);
        tasks = elements == 0 ? 0 : outer * blocks;
        bytes = 8.0 * static_cast<double>(elements);
    }

    void run(char* const* operands) const override {
        const float* const src = reinterpret_cast<const float*>(operands[0]);
        float* const dst = reinterpret_cast<float*>(operands[1]);
        parallel_for(tasks, bytes, [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t first = task % blocks * kColumns;
                const int64_t offset = task / blocks * length * inner + first;
                add_up(src + offset, dst + offset, std::min(kColumns, inner - first));
            }
        });
    }

    void add_up(const float* from, float* to, int64_t count) const {
        double sums[kColumns] = {};
        for (int64_t i = 0; i < length; ++i) {
            const int64_t at = (reverse ? length - 1 - i : i) * inner;
            if (exclusive) {
                for (int64_t j = 0; j < count; ++j) {
                    const float x = from[at + j];
                    to[at + j] = static_cast<float>(sums[j]);
                    sums[j] += static_cast<double>(x);
                }
            } else {
                for (int64_t j = 0; j < count; ++j) {
                    sums[j] += static_cast<double>(from[at + j]);
                    to[at + j] = static_cast<float>(sums[j]);
                }
            }
        }
    }
};

}  // namespace

const Declaration kCumSum{"cumsum(outer, length, inner, exclusive=False, reverse=False)",
                          kernel_by<CumSum, int64_t, int64_t, int64_t, bool, bool>,
                          "src (outer, length, inner), dst (outer, length, inner)",
                          "dst[o, i, j] = the sum of src[o, 0 .. i, j], f32, all dense, summed in f64 and rounded "
                          "once. exclusive: without element i; reverse: from the end."};

}  // namespace dgo
