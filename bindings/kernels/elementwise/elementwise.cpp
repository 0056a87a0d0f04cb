// Groups of element-wise ops on strided tensors: a part that fits into the first cache is computed op by op.
#include <algorithm>
#include <mutex>
#include <numeric>

#include "kernels/elementwise/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/kernel.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/epilogue/epilogue.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "elementwise";
constexpr int64_t kBlockElements = 16 * 1024;
constexpr int64_t kThreadElements = 1024;  // elements of a thread, at least
constexpr int64_t kWholeElements = 64;  // whose multiples blocks of many threads have
constexpr int64_t kFewElements = 256;  // elements of the two finest axes: with fewer all rows go together
constexpr int64_t kLookedUp = 2048;  // elements of 8 bits from which a table of all 256 results pays
constexpr int64_t kManyQuotients = 1 << 15;  // elements that are worth the proof of `with_rest`, once a scale
constexpr double kBytesOfStep = 4;  // bytes whose move takes as long as a step on an element

// Makes the axis of most elements the second finest where blocks would be too small.
void widen_blocks(StridedAxes<Dims>& axes) {
    if (axes.size() < 3) return;
    StridedAxis<Dims>& rows = axes[axes.size() - 2];
    if (rows.size * axes.back().size >= kFewElements) return;
    const auto longest =
        std::max_element(axes.begin(), axes.end() - 1,
                         [](const StridedAxis<Dims>& a, const StridedAxis<Dims>& b) { return a.size < b.size; });
    std::swap(rows, *longest);
}

ElementType elementwise_type(int dtype) {
    const ElementType type = number_type(dtype);
    return is_byte(type) ? type : float_type(dtype);
}

struct ElementwiseKernel : Kernel {
    std::vector<EpilogueStep> steps;
    std::vector<ElementwiseSide> sides;  // dst first; without addresses
    std::vector<int64_t> items;    // bytes of an element of each side
    StridedAxes<Dims> outer;
    // A block's rows and columns, and how many blocks there are.
    struct Cut {
        int64_t rows, columns, tasks;
    };

    int64_t elements, rows, columns;
    Cut cut;
    bool joined, vast = false;
    ElementwiseAffine affine;
    size_t looked_up = 0;  // the side that alone decides the result, both of 8 bits; 0: none
    int divisor = -1;  // the operand that is the scale of a Quantize of many elements at the end of the steps; -1: none
    mutable std::mutex mutex;
    mutable Quotient quotient;  // of the scale of the last run
    double bytes = 0;

    ElementwiseKernel(const Dims& shape, const std::vector<EpilogueStepSpec>& specs, const std::vector<int>& dtypes,
                      const std::vector<Dims>& strides)
        : steps(epilogue_steps(specs, dtypes.size() - 1, false)), outer(merged_axes(shape, strides)) {
        name = kName;
        arity = static_cast<int>(dtypes.size());
        const StridedAxis<Dims> one{1, Dims(dtypes.size(), 0)};
        widen_blocks(outer);
        const StridedAxis<Dims> inner = take_last(outer, one), next = take_last(outer, one);
        columns = inner.size;
        rows = next.size;
        for (size_t i = 0; i < dtypes.size(); ++i) {
            sides.push_back({nullptr, elementwise_type(dtypes[i]), next.strides[i], inner.strides[i]});
            items.push_back(item_size(dtypes[i]));
            if (columns == 1) sides[i].column = 1;
            bytes += static_cast<double>(item_size(dtypes[i]));
        }
        const ElementwiseSide& dst = sides[0];
        joined = rows > 1 && columns <= vector_code().chain.most_joined && dst.column == 1 && dst.row == columns;
        elements = checked_product(kName, {columns, rows});
        for (const StridedAxis<Dims>& axis : outer) elements = checked_product(kName, {elements, axis.size});
        cut = cut_into(kBlockElements);
        bytes = static_cast<double>(elements) * (bytes + kBytesOfStep * static_cast<double>(steps.size()));
        looked_up = find_looked_up();
        vast = dst.type == ElementType::f32 && dst.column == 1 && elements * item_size(kF32) > kVastBytes;
        affine = find_affine();
        divisor = find_divisor();
    }

    // Cuts the two finest axes into blocks of so many elements at most, but at least a row's part.
    Cut cut_into(int64_t most) const {
        if (elements == 0) return {1, 1, 0};
        Cut to{0, std::min(columns, most), 0};
        to.rows = std::clamp<int64_t>(most / to.columns, 1, rows);
        to.tasks = elements / (rows * columns) * ceil_div(rows, to.rows) * ceil_div(columns, to.columns);
        return to;
    }

    // Returns the operand of a number if it is f32 whose columns follow each other or are one, else -1.
    int operand_of(int number) const {
        if (number < kEpilogueOperands) return -1;
        const ElementwiseSide& side = sides[static_cast<size_t>(number - kEpilogueOperands) + 1];
        return side.type == ElementType::f32 && (side.column == 0 || side.column == 1) ? number - kEpilogueOperands
                                                                                       : -1;
    }

    // Returns the operand that step i reads beside the result of the step before; -1 if it reads no such two.
    int operand_beside_result(size_t i) const {
        const EpilogueStep& step = steps[i];
        const int result = steps[i - 1].to;
        return step.left == result ? operand_of(step.right) : step.right == result ? operand_of(step.left) : -1;
    }

    // Returns step i as an activation of the result of the step before, if it is one that rounds as steps do.
    FusedActivation activation_of_result(size_t i) const {
        const EpilogueStep& step = steps[i];
        if (step.left != steps[i - 1].to) return {};
        const EpilogueStep alone{step.op, 0, step.right, 0, step.alpha, step.beta};
        const FusedActivation activation = fused_activation_of({&alone, 1, nullptr, 0, 0, 0, false});
        // the interpreter of steps contracts a hard swish
        return activation.as == FusedActivation::As::hardswish ? FusedActivation{} : activation;
    }

    // Returns the steps as one function, activation(x * factor + term), if they are two or three such that rows are not
    // joined; else no operand.
    ElementwiseAffine find_affine() const {
        const ElementwiseSide& dst = sides[0];
        if (joined || vast || dst.type != ElementType::f32 || dst.column != 1 || steps.size() < 2) return {};
        const bool product = steps[0].op == EpilogueOp::multiply;
        if (!product && steps[0].op != EpilogueOp::add) return {};
        ElementwiseAffine to;
        to.x = operand_of(steps[0].left);
        int& second = product ? to.factor : to.term;
        second = operand_of(steps[0].right);
        if (to.x < 0 || second < 0) return {};
        size_t next = 1;
        if (product && steps[1].op == EpilogueOp::add) {
            to.term = operand_beside_result(next++);
            if (to.term < 0) return {};
        }
        if (next < steps.size()) {
            to.activation = activation_of_result(next++);
            if (to.activation.as == FusedActivation::As::it_is || next < steps.size()) return {};
        }
        if (sides[static_cast<size_t>(to.x) + 1].column == 0) std::swap(to.x, second);
        return sides[static_cast<size_t>(to.x) + 1].column == 1 ? to : ElementwiseAffine{};
    }

    bool varies(size_t side) const {
        bool varies = sides[side].row != 0 || sides[side].column != 0;
        for (const StridedAxis<Dims>& axis : outer) varies = varies || axis.strides[side] != 0;
        return varies;
    }

    int find_divisor() const {
        constexpr size_t kStepsOfQuantize = 3;  // divide, round, add the zero point
        if (!is_byte(sides[0].type) || looked_up != 0 || elements < kManyQuotients) return -1;
        for (size_t i = steps.size(), last = i - std::min(i, kStepsOfQuantize); i-- > last;) {
            if (steps[i].op != EpilogueOp::divide) continue;
            const int number = operand_of(steps[i].right);
            return number < 0 || varies(static_cast<size_t>(number) + 1) ? -1 : number;
        }
        return -1;
    }

    Quotient proven_quotient(float scale) const {
        // in a child that was forked meanwhile it may be locked for good
        const std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
        if (!lock) return with_rest(quotient_by(scale, 0));
        if (!(quotient.scale == scale)) quotient = with_rest(quotient_by(scale, 0));
        return quotient;
    }

    // Returns the side that alone decides the result, so that a table holds all results; 0: none.
    size_t find_looked_up() const {
        size_t varying = 0;
        for (size_t i = 1; i < sides.size(); ++i) {
            if (!varies(i)) continue;
            if (varying != 0) return 0;
            varying = i;
        }
        const auto bytes_in_a_row = [&](size_t i) { return items[i] == 1 && sides[i].column == 1; };
        return elements >= kLookedUp && bytes_in_a_row(0) && bytes_in_a_row(varying) ? varying : 0;
    }

    // Computes all 256 results, by the bits of the side that is looked up.
    void tabulate(char* const* operands, float* memory, uint8_t* table) const {
        std::vector<ElementwiseSide> all = sides;
        uint8_t bits[256];
        std::iota(bits, bits + 256, uint8_t{0});
        for (size_t i = 1; i < all.size(); ++i) all[i].at = operands[i - 1];
        all[looked_up].at = reinterpret_cast<char*>(bits);
        all[looked_up].row = 0;
        ElementwiseBlock block = block_of(all, memory);
        block.dst = {reinterpret_cast<char*>(table), sides[0].type, 0, 1};
        block.rows = 1;
        block.columns = 256;
        vector_code().chain.run(block);
    }

    ElementwiseBlock block_of(const std::vector<ElementwiseSide>& all, float* memory) const {
        ElementwiseBlock block{};
        block.steps = steps.data();
        block.count = static_cast<int64_t>(steps.size());
        block.operands = all.data() + 1;
        block.operand_count = arity - 1;
        block.scratch = memory;
        return block;
    }

    void run(char* const* operands) const override {
        Cut of = cut;
        int threads = threads_for(elements / kThreadElements, bytes);
        if (threads > of.tasks) of = cut_into(ceil_div(ceil_div(elements, threads), kWholeElements) * kWholeElements);
        threads = static_cast<int>(std::clamp<int64_t>(of.tasks, 1, threads));
        ScratchLayout each;
        const ScratchArray<float> floats = each.add<float>(vector_code().chain.scratch(arity - 1));
        const Scratch scratch({}, each, threads);
        char* const dst = operands[arity - 1];
        alignas(64) uint8_t table[256];
        if (looked_up != 0) tabulate(operands, floats.in(scratch.of(0)), table);
        const Quotient proven =
            divisor < 0 ? Quotient{} : proven_quotient(*reinterpret_cast<const float*>(operands[divisor]));
        const bool apart = std::find(operands, operands + arity - 1, dst) == operands + arity - 1;
        parallel_parts(threads, of.tasks, [&](int64_t begin, int64_t end, int rank) {
            std::vector<ElementwiseSide> all = sides;
            Dims offsets(all.size());
            ElementwiseBlock block = block_of(all, floats.in(scratch.of(rank)));
            block.joined = joined;
            block.vast = vast && apart;
            block.affine = affine.x >= 0 ? &affine : nullptr;
            block.proven = divisor < 0 ? nullptr : &proven;
            for (int64_t task = begin; task < end; ++task) {
                int64_t rest = task;
                const int64_t column = take_index(rest, ceil_div(columns, of.columns)) * of.columns;
                const int64_t row = take_index(rest, ceil_div(rows, of.rows)) * of.rows;
                block.columns = std::min(of.columns, columns - column);
                block.rows = std::min(of.rows, rows - row);
                for (size_t i = 0; i < all.size(); ++i) offsets[i] = row * all[i].row + column * all[i].column;
                add_offsets(outer, rest, offsets);
                for (size_t i = 0; i < all.size(); ++i) {
                    all[i].at = (i == 0 ? dst : operands[i - 1]) + offsets[i] * items[i];
                }
                block.dst = all[0];
                if (looked_up == 0) {
                    vector_code().chain.run(block);
                    continue;
                }
                const ElementwiseSide& from = all[looked_up];
                vector_code().chain.look_up(table, from.at, from.row, block.rows, block.columns, block.dst.at,
                                            block.dst.row);
            }
        });
    }

    static int64_t take_index(int64_t& number, int64_t size) {
        const int64_t index = number % size;
        number /= size;
        return index;
    }
};

std::shared_ptr<Kernel> make_elementwise(const Dims& shape, const std::vector<EpilogueStepTuple>& given,
                                         const std::vector<std::pair<int, Dims>>& operands, int dst_dtype,
                                         const Dims& dst_strides) {
    const std::vector<EpilogueStepSpec> steps = epilogue_step_specs(given);
    check_number(kName, "the number of axes", static_cast<int64_t>(shape.size()), 0, kMaxAxes);
    check_number(kName, "the number of operands", static_cast<int64_t>(operands.size()), 0, kElementwiseOperands);
    for (const int64_t size : shape) check_number(kName, "shape", size, 0, kMostElements);
    std::vector<int> dtypes = {dst_dtype};
    std::vector<Dims> strides = {dst_strides};
    for (const auto& [dtype, of] : operands) {
        dtypes.push_back(dtype);
        strides.push_back(of);
    }
    for (size_t i = 0; i < strides.size(); ++i) {
        const std::string which = i == 0 ? "dst" : "operand " + std::to_string(i - 1);
        check_tensor(kName, which.c_str(), shape, strides[i]);
    }
    if (steps.empty() || steps.back().to != 0) {
        fail(ErrorKind::invalid_argument, std::string(kName) + ": no step writes register 0 in the end");
    }
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
        if (steps[i].to == 0) {
            fail(ErrorKind::invalid_argument,
                 std::string(kName) + ": step " + std::to_string(i) + " writes register 0, which only the last may");
        }
    }
    return std::make_shared<ElementwiseKernel>(shape, steps, dtypes, strides);
}

}  // namespace

const Declaration kElementwise{
    "elementwise(shape, steps, operands, dst_dtype, dst_strides)", make_elementwise, "operands (shape)..., dst (shape)",
    "dst = the value of the last step. Steps are those of Epilogue, but no register is written at first, and only the "
    "last step writes register 0. Operands are (data type, strides), each f32, bf16 or f16; strides may be 0. dst may "
    "be an operand of the same strides and item size."};

}  // namespace dgo
