// Softmax and its logarithm over an axis whose elements are neighbours, or across rows of neighbours. The largest value
// is taken away first; sums are f32.
#include <algorithm>

#include "common/error.hpp"
#include "kernels/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "softmax";
constexpr int64_t kColumns = 64;  // columns of a block
constexpr int64_t kVector = 16;  // floats at most
constexpr double kExponential = 16;  // bytes that take as long to move as a power to compute

struct SoftmaxKernel : Kernel {
    ElementType src_type, dst_type;
    int64_t src_item, dst_item, length, src_step, dst_step;
    int64_t columns = 0;  // across which the axis runs; 0: it is one of neighbours itself
    int64_t src_column = 1, dst_column = 1;
    bool log;
    AxesOf<2> outer;
    int64_t parts = 1, tasks;  // parts: blocks of the columns
    double bytes;
    ScratchLayout nothing, each;
    ScratchArray<float> powers;

    SoftmaxKernel(const Dims& shape, size_t axis, int src_dtype, const Dims& src, int dst_dtype, const Dims& dst,
                  bool logarithm)
        : src_type(float_type(src_dtype)), dst_type(float_type(dst_dtype)), src_item(item_size(src_dtype)),
          dst_item(item_size(dst_dtype)), log(logarithm) {
        name = kName;
        arity = 2;
        check(shape, src, dst);
        length = shape[axis];
        src_step = src[axis];
        dst_step = dst[axis];
        size_t inner = axis;
        for (size_t a = 0; a < shape.size() && !(src_step == 1 && dst_step == 1); ++a) {
            if (a != axis && shape[a] > 1 && src[a] == 1 && dst[a] == 1) inner = a;
        }
        for (size_t a = 0; a < shape.size(); ++a) {
            if (a != axis && a != inner && shape[a] != 1) join(outer, {shape[a], {src[a], dst[a]}});
        }
        if (inner != axis) {
            columns = shape[inner];
            parts = ceil_div(columns, kColumns);
        } else if (length > 1 && (src_step != 1 || dst_step != 1)) {
            fail(ErrorKind::invalid_argument,
                 std::string(kName) + ": no axis has neighbours in both src and dst; copy one of them");
        } else if (length < kVector && !outer.empty()) {
            // rows shorter than a vector: many rows at once
            columns = outer.back().size;
            src_column = outer.back().strides[0];
            dst_column = outer.back().strides[1];
            parts = ceil_div(columns, kColumns);
            outer.pop_back();
        }
        tasks = length == 0 ? 0 : parts;
        for (const auto& one : outer) tasks *= one.size;
        bytes = static_cast<double>(tasks / std::max<int64_t>(parts, 1)) *
                static_cast<double>(length * std::max<int64_t>(columns, 1)) *
                (static_cast<double>(src_item + dst_item) + kExponential);
        // the last vector along neighbours is stored whole
        powers = each.add<float>(columns == 0 ? length + kVector : checked_product(kName, {2, length, kColumns}));
    }

    static void check(const Dims& shape, const Dims& src, const Dims& dst) {
        int64_t all = 1;
        for (const int64_t size : shape) {
            check_number(kName, "shape", size, 0, kMostSize);
            all = checked_product(kName, {all, size});
        }
        check_tensor(kName, "src", shape, src);
        check_tensor(kName, "dst", shape, dst);
    }

    void run(char* const* operands) const override {
        const int threads = threads_for(tasks, bytes);
        const Scratch scratch(nothing, each, threads);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            SoftmaxBlock block{src_type, dst_type, nullptr,    nullptr,    length, src_step,
                               dst_step, columns,  src_column, dst_column, log,    powers.in(scratch.of(rank))};
            for (int64_t task = begin; task < end; ++task) {
                const int64_t place = parts == 1 ? task : task / parts, first = (task - place * parts) * kColumns;
                int64_t at[2] = {first * src_column, first * dst_column};
                add_offsets(outer, place, at);
                block.src = operands[0] + at[0] * src_item;
                block.dst = operands[1] + at[1] * dst_item;
                if (columns > 0) block.columns = std::min(kColumns, columns - first);
                vector_code().norm.softmax(block);
            }
        });
    }
};

std::shared_ptr<Kernel> make_softmax(const Dims& shape, int64_t axis, int src_dtype, const Dims& src_strides,
                                     int dst_dtype, const Dims& dst_strides, bool logarithm) {
    check_number(kName, "axis", axis, 0, static_cast<int64_t>(shape.size()) - 1);
    return std::make_shared<SoftmaxKernel>(shape, static_cast<size_t>(axis), src_dtype, src_strides, dst_dtype,
                                           dst_strides, logarithm);
}

}  // namespace

const Declaration kSoftmax{"softmax(shape, axis, src_dtype, src_strides, dst_dtype, dst_strides, logarithm=False)",
                           make_softmax, "src (shape), dst (shape)",
                           "dst = softmax of src over an axis, or its logarithm. In both src and dst the elements of "
                           "the axis are neighbours, or those of another axis."};

}  // namespace dgo
