// A product of rows shared between threads: blocks of a's rows times ranges of b's.
#include <algorithm>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/division.hpp"
#include "kernels/factories.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

constexpr int64_t kNarrow = 128;  // columns of a thread that are hard to share out evenly

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
        const int64_t blocks = ceil_div(whole.rows, kRowProductRows);
        const int64_t all = whole.images * whole.depth;
        const double work = static_cast<double>(whole.rows) * static_cast<double>(whole.columns * all) / 4;
        const int64_t threads = threads_for(blocks * whole.columns, work);
        // Every range of columns reads all of a again, every range of the depth has sums of its own: no more of them
        // than keep the threads busy.
        const bool few = blocks < 3 * threads;
        const bool narrow = whole.columns < kNarrow * threads && all >= kRowProductDepth * threads;
        const int64_t ranges = few && !narrow ? std::min(threads, whole.columns) : 1;
        const int64_t depths = few && narrow ? threads : 1;
        const int64_t sums = whole.rows * whole.columns;
        const RowCode& code = vector_code().rows;
        ScratchLayout shared, each;
        const ScratchArray<float> partial_part = shared.add<float>(depths == 1 ? 0 : sums * depths);
        const ScratchArray<float> scratch_part = each.add<float>(code.scratch());
        const int64_t tasks = blocks * ranges * depths;
        const int team = threads_for(tasks, work);
        const Scratch scratch(shared, each, team);
        float* partial = depths == 1 ? nullptr : partial_part.in(scratch.shared());
        parallel_parts(team, tasks, [&](int64_t begin, int64_t end, int rank) {
            float* memory = scratch_part.in(scratch.of(rank));
            for (int64_t task = begin; task < end; ++task) {
                const int64_t row = task / ranges / depths * whole.rows / blocks, range = task / depths % ranges;
                const int64_t column = whole.columns * range / ranges;
                RowProduct part = whole;
                part.rows = (task / ranges / depths + 1) * whole.rows / blocks - row;
                part.columns = whole.columns * (range + 1) / ranges - column;
                float* to = c + row * whole.c_row + column * whole.c_column;
                if (partial != nullptr) {
                    part.c_row = whole.columns;
                    part.c_column = 1;
                    to = partial + task % depths * sums + row * whole.columns;
                }
                const int64_t end = all * (task % depths + 1) / depths;
                for (int64_t at = all * (task % depths) / depths; at < end; at += part.depth, part.add = true) {
                    const int64_t image = at / whole.depth, k = at % whole.depth;
                    part.depth = std::min(whole.depth - k, end - at);
                    code.product(part, a + image * whole.a_image + row * whole.a_row + k,
                                 b + image * whole.b_image + column * whole.b_row + k, to, memory);
                }
            }
        });
        for (int64_t i = 0; partial != nullptr && i < whole.rows; ++i) {
            for (int64_t j = 0; j < whole.columns; ++j) {
                float total = 0;
                for (int64_t d = 0; d < depths; ++d) total += partial[d * sums + i * whole.columns + j];
                c[i * whole.c_row + j * whole.c_column] = total;
            }
        }
    }
};

}  // namespace

std::shared_ptr<Kernel> make_row_product(const RowProduct& product) {
    if (product.rows < 1 || product.columns < 1 || product.depth < 1 || product.images < 1) {
        fail(ErrorKind::invalid_argument, "row_product: a size is below 1");
    }
    const RowProduct& p = product;
    checked_product("row_product", {p.rows, p.images, p.depth});
    checked_product("row_product", {p.columns, p.images, p.depth});
    checked_product("row_product", {p.rows, p.columns});
    check_extent("row_product", "a", {p.images, p.rows, p.depth}, {p.a_image, p.a_row, 1});
    check_extent("row_product", "b", {p.images, p.columns, p.depth}, {p.b_image, p.b_row, 1});
    check_extent("row_product", "c", {p.rows, p.columns}, {p.c_row, p.c_column});
    return std::make_shared<RowProductKernel>(product);
}

}  // namespace dgo
