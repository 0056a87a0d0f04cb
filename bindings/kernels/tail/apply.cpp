// Post-ops as a step of their own.
#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/division.hpp"
#include "kernels/factories.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_taps.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "tail";
constexpr int64_t kRows = 16;

struct TailKernel : Kernel {
    Tail tail;
    Dims positions, strides;
    int64_t channels, pixels, per_row;  // per_row: pixels
    TailParams params;

    TailKernel(const Tail& given, const Dims& sizes, int64_t channels_, const Dims& steps)
        : tail(given), positions(sizes), strides(steps), channels(channels_),
          pixels(checked_product(kName, {product(sizes)})), params(tail.params(channels, positions, strides)) {
        name = kName;
        arity = tail.operands() + 1;
        per_row = strides.back() == channels ? std::max<int64_t>(positions.back(), 1) : 1;
    }

    void run(char* const* operands) const override {
        if (pixels == 0 || channels == 0) return;
        float* const dst = reinterpret_cast<float*>(operands[arity - 1]);
        const int64_t rows = pixels / per_row;
        parallel_for(ceil_div(rows, kRows), static_cast<double>(pixels * channels * 4),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t first = begin * kRows; first < std::min(end * kRows, rows); first += kRows) {
                             float* at[kRows];
                             int64_t offsets[kRows];
                             const int64_t count = std::min(kRows, rows - first);
                             for (int64_t r = 0; r < count; ++r) {
                                 offsets[r] = offset((first + r) * per_row);
                                 at[r] = dst + offsets[r];
                             }
                             vector_code().tail.apply(params, operands, {at, offsets, count, per_row * channels, 0});
                         }
                     });
    }

    int64_t offset(int64_t pixel) const {
        int64_t at = 0;
        for (size_t axis = positions.size(); axis-- > 0; pixel /= positions[axis]) {
            at += pixel % positions[axis] * strides[axis];
        }
        return at;
    }
};

}  // namespace

std::shared_ptr<Kernel> make_tail(const Tail& tail, const Dims& positions, int64_t channels, const Dims& strides) {
    for (const int64_t size : positions) check_number(kName, "positions", size, 0, kMostSize);
    for (const int64_t stride : strides) check_number(kName, "strides", stride, 0, kMostElements);
    return std::make_shared<TailKernel>(tail, positions, channels, strides);
}

}  // namespace dgo
