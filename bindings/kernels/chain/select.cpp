#include "kernels/chain/select.hpp"

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "select";
constexpr const char* kOperands[] = {"cond", "src_0", "src_1", "dst"};

// kStretched: the operand is one element.
template <class T, bool kFirstStretched, bool kSecondStretched>
void choose(const uint8_t* cond, const T* first, const T* second, T* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const T a = first[kFirstStretched ? 0 : i], b = second[kSecondStretched ? 0 : i];
        to[i] = cond[i] ? a : b;
    }
}

struct Select : Kernel {
    std::vector<int64_t> shape, strides[4];
    int64_t item, rows = 1, columns = 1, steps[4] = {0, 0, 0, 0};

    Select(const std::vector<int64_t>& sizes, const std::vector<std::vector<int64_t>>& all, int64_t item)
        : shape(sizes), item(item) {
        name = kName;
        arity = 4;
        if (item != 2 && item != 4) fail(ErrorKind::invalid_argument, "select: item must be 2 or 4");
        if (all.size() != 4) fail(ErrorKind::invalid_argument, "select: strides of 4 operands are needed");
        for (size_t i = 0; i < 4; ++i) {
            if (all[i].size() != shape.size()) {
                fail(ErrorKind::invalid_argument, std::string("select: strides of ") + kOperands[i] + " need " +
                                                      std::to_string(shape.size()) + " entries");
            }
            check_extent(kName, kOperands[i], shape, all[i]);
            strides[i] = all[i];
        }
        if (shape.empty()) fail(ErrorKind::invalid_argument, "select: shape must have an axis");
        columns = shape.back();
        for (size_t i = 0; i < 4; ++i) steps[i] = strides[i].back();
        for (size_t axis = 0; axis + 1 < shape.size(); ++axis) rows = checked_product(kName, {rows, shape[axis]});
        checked_product(kName, {rows, columns});
    }

    void run(char* const* operands) const override {
        const double bytes =
            static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(3 * item + 1);
        parallel_for(columns == 0 ? 0 : rows, bytes, [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
                int64_t offsets[4] = {0, 0, 0, 0};
                int64_t rest = row;
                for (size_t axis = shape.size() - 1; axis-- > 0; rest /= shape[axis]) {
                    for (size_t i = 0; i < 4; ++i) offsets[i] += rest % shape[axis] * strides[i][axis];
                }
                (item == 4 ? &Select::row<uint32_t> : &Select::row<uint16_t>)(*this, operands, offsets);
            }
        });
    }

    template <class T>
    static void row(const Select& of, char* const* operands, const int64_t* offsets) {
        const auto* cond = reinterpret_cast<const uint8_t*>(operands[0]) + offsets[0];
        const auto* first = reinterpret_cast<const T*>(operands[1]) + offsets[1];
        const auto* second = reinterpret_cast<const T*>(operands[2]) + offsets[2];
        auto* to = reinterpret_cast<T*>(operands[3]) + offsets[3];
        const int64_t *steps = of.steps, count = of.columns;
        const bool in_a_row = steps[0] == 1 && steps[3] == 1;
        if (in_a_row && steps[1] == 1 && steps[2] == 1) return choose<T, false, false>(cond, first, second, to, count);
        if (in_a_row && steps[1] == 0 && steps[2] == 1) return choose<T, true, false>(cond, first, second, to, count);
        if (in_a_row && steps[1] == 1 && steps[2] == 0) return choose<T, false, true>(cond, first, second, to, count);
        for (int64_t i = 0; i < count; ++i) {
            to[i * steps[3]] = cond[i * steps[0]] ? first[i * steps[1]] : second[i * steps[2]];
        }
    }
};

}  // namespace

std::shared_ptr<Kernel> make_select(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides,
                                    int64_t item) {
    return std::make_shared<Select>(shape, strides, item);
}

}  // namespace dgo
