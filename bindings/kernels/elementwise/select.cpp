// dst = cond ? src_0 : src_1, element by element.
#include "common/error.hpp"
#include "kernels/elementwise/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "select";
constexpr size_t kOperands = 4;
// the strides of one axis
constexpr const char* kNames[kOperands] = {"dst", "cond", "src_0", "src_1"};

// kStretched: the operand is one element.
template <class T, bool kFirstStretched, bool kSecondStretched>
void choose(const uint8_t* cond, const T* first, const T* second, T* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const T a = first[kFirstStretched ? 0 : i], b = second[kSecondStretched ? 0 : i];
        to[i] = cond[i] ? a : b;
    }
}

template <class T>
void choose_row(char* const* operands, const int64_t* offsets, const StridedAxis<Dims>& row) {
    const auto* cond = reinterpret_cast<const uint8_t*>(operands[0]) + offsets[1];
    const auto* first = reinterpret_cast<const T*>(operands[1]) + offsets[2];
    const auto* second = reinterpret_cast<const T*>(operands[2]) + offsets[3];
    auto* to = reinterpret_cast<T*>(operands[3]) + offsets[0];
    const int64_t *steps = row.strides.data(), count = row.size;
    const bool in_a_row = steps[0] == 1 && steps[1] == 1;
    if (in_a_row && steps[2] == 1 && steps[3] == 1) return choose<T, false, false>(cond, first, second, to, count);
    if (in_a_row && steps[2] == 0 && steps[3] == 1) return choose<T, true, false>(cond, first, second, to, count);
    if (in_a_row && steps[2] == 1 && steps[3] == 0) return choose<T, false, true>(cond, first, second, to, count);
    for (int64_t i = 0; i < count; ++i) {
        to[i * steps[0]] = cond[i * steps[1]] ? first[i * steps[2]] : second[i * steps[3]];
    }
}

auto choose_of(int64_t item) {
    switch (item) {
        case 1: return choose_row<uint8_t>;
        case 2: return choose_row<uint16_t>;
        case 4: return choose_row<uint32_t>;
        default: return choose_row<uint64_t>;
    }
}

struct Select : Kernel {
    ElementwiseRows rows;
    decltype(&choose_row<uint8_t>) choose;
    double bytes;

    Select(const ElementwiseRows& rows, int64_t item)
        : rows(rows), choose(choose_of(item)),
          bytes(static_cast<double>(rows.elements) * static_cast<double>(3 * item + 1)) {
        name = kName;
        arity = kOperands;
    }

    void run(char* const* operands) const override {
        parallel_for(rows.tasks(), bytes, [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; ++at) {
                int64_t offsets[kOperands] = {0, 0, 0, 0};
                rows.add_offsets(at, offsets);
                choose(operands, offsets, rows.row);
            }
        });
    }
};

std::shared_ptr<Kernel> make_select(const Dims& shape, const std::vector<Dims>& strides, int64_t item) {
    if (item != 1 && item != 2 && item != 4 && item != 8) {
        fail(ErrorKind::invalid_argument, "select: item must be 1, 2, 4 or 8");
    }
    if (strides.size() != kOperands) fail(ErrorKind::invalid_argument, "select: strides of 4 operands are needed");
    const std::vector<std::vector<int64_t>> dst_first{strides[3], strides[0], strides[1], strides[2]};
    for (size_t i = 0; i < kOperands; ++i) {
        check_tensor(kName, kNames[i], shape, dst_first[i], INT64_MIN);
    }
    if (shape.empty()) fail(ErrorKind::invalid_argument, "select: shape must have an axis");
    return std::make_shared<Select>(ElementwiseRows(kName, shape, dst_first), item);
}

}  // namespace

const Declaration kSelect{"select(shape, strides, item)", make_select,
                          "cond (shape), src_0 (shape), src_1 (shape), dst (shape)",
                          "dst = src_0 where cond, of bytes, is not 0, else src_1. strides of each operand count "
                          "elements of `item` bytes (1, 2, 4 or 8), and are 0 where it is stretched."};

}  // namespace dgo
