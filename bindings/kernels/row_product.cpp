// A product of rows shared between threads: blocks of a's rows times ranges of b's.
#include <algorithm>

#include "../guard.hpp"
#include "factories.hpp"
#include "isa.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace dgo {
namespace {

struct RowProductKernel : Kernel {
    RowProduct whole;

    explicit RowProductKernel(const RowProduct& product) : whole(product) {
        arity = 3;
        name = "row_product";
    }

    void run(char* const* operands) const override {
        const auto* a = reinterpret_cast<const float*>(operands[0]);
        const auto* b = reinterpret_cast<const float*>(operands[1]);
        auto* c = reinterpret_cast<float*>(operands[2]);
        const int64_t blocks = (whole.rows + kRowProductRows - 1) / kRowProductRows;
        const int64_t work = whole.rows * whole.columns * whole.depth / 4;
        // Every range reads all of a again: no more of them than keep the threads busy.
        const int64_t threads = threads_for(blocks * whole.columns, work);
        const int64_t ranges = blocks < 3 * threads ? std::min(threads, whole.columns) : 1;
        parallel_for(blocks * ranges, work, [&](int64_t begin, int64_t end) {
            float* room = scratch<float>(Room::rows, kRowProductRows * kRowProductRoom);
            for (int64_t task = begin; task < end; ++task) {
                const int64_t row = task / ranges * kRowProductRows, range = task % ranges;
                const int64_t column = whole.columns * range / ranges;
                RowProduct part = whole;
                part.rows = std::min(kRowProductRows, whole.rows - row);
                part.columns = whole.columns * (range + 1) / ranges - column;
                vector_code().row_product(part, a + row * whole.a_row, b + column * whole.b_row,
                                          c + row * whole.c_row + column * whole.c_column, room);
            }
        });
    }
};

}  // namespace

std::shared_ptr<Kernel> make_row_product(const RowProduct& product) {
    if (product.rows < 1 || product.columns < 1 || product.depth < 1) {
        fail(ErrorKind::invalid_argument, "row_product: a size is below 1");
    }
    return std::make_shared<RowProductKernel>(product);
}

}  // namespace dgo
