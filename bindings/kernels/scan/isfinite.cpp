// Looks for Inf and NaN in arrays, for steps that depend on whether there are any.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "common/error.hpp"
#include "kernels/element_type.hpp"
#include "kernels/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

// Elements that are looked at before the answer of others is asked for.
constexpr int64_t kPiece = 8192;

// Whether the exponent of any of n numbers has all its bits.
template <class Bits>
bool any_non_finite(const char* data, int64_t n, int64_t stride, Bits exponent) {
    const Bits* const bits = reinterpret_cast<const Bits*>(data);
    Bits found = 0;
    if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
    } else {
        for (int64_t i = 0; i < n; ++i) found |= static_cast<Bits>((bits[i * stride] & exponent) == exponent);
    }
    return found != 0;
}

// One array, its axes from the slowest to the fastest, joined where they are one.
class Scanned {
public:
    Scanned(const Dims& shape, int dtype, const Dims& strides) : cell_(float_type(dtype)), size_(item_size(dtype)) {
        check_tensor("isfinite", "an operand", shape, strides, INT64_MIN);
        AxesOf<1> axes;
        for (size_t a = 0; a < shape.size(); ++a) {
            if (shape[a] < 1) return;  // nothing to look at
            if (shape[a] > 1 && strides[a] != 0) axes.push_back({shape[a], {strides[a]}});
        }
        outer_ = joined(std::move(axes));
        inner_ = take_last(outer_, inner_);
        pieces_ = (inner_.size + kPiece - 1) / kPiece;
        tasks_ = pieces_;
        for (const auto& axis : outer_) tasks_ = checked_product("isfinite", {tasks_, axis.size});
    }

    int64_t tasks() const { return tasks_; }
    double bytes() const { return static_cast<double>(tasks_) * static_cast<double>(inner_.size * size_) / pieces_; }

    bool look(const char* data, int64_t task) const {
        const int64_t first = task % pieces_ * kPiece;
        int64_t offset[] = {first * inner_.strides[0]};
        add_offsets(outer_, task / pieces_, offset);
        const char* const start = data + offset[0] * size_;
        const int64_t n = std::min(kPiece, inner_.size - first);
        if (cell_ == ElementType::f32) return any_non_finite<uint32_t>(start, n, inner_.strides[0], 0x7f800000);
        return any_non_finite<uint16_t>(start, n, inner_.strides[0], cell_ == ElementType::bf16 ? 0x7f80 : 0x7c00);
    }

private:
    ElementType cell_;
    int64_t size_;
    AxesOf<1> outer_;
    StridedAxis<std::array<int64_t, 1>> inner_{1, {1}};
    int64_t pieces_ = 1, tasks_ = 0;
};

struct IsFiniteKernel : Kernel {
    std::vector<Scanned> scanned;

    explicit IsFiniteKernel(std::vector<Scanned> arrays) : scanned(std::move(arrays)) {
        arity = static_cast<int>(scanned.size()) + 1;
        name = "isfinite";
    }
    void run(char* const* operands) const override {
        std::atomic<bool> found{false};
        for (size_t i = 0; i < scanned.size(); ++i) {
            const Scanned& array = scanned[i];
            parallel_for(array.tasks(), array.bytes(), [&, data = operands[i]](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end && !found.load(std::memory_order_relaxed); ++task)
                    if (array.look(data, task)) found.store(true, std::memory_order_relaxed);
            });
        }
        *reinterpret_cast<int32_t*>(operands[scanned.size()]) = found.load();
    }
};

// shape, data type (f32, bf16 or f16), strides
using ScanItem = std::tuple<Dims, int, Dims>;

std::shared_ptr<Kernel> make_isfinite(const std::vector<ScanItem>& items) {
    std::vector<Scanned> arrays;
    for (const auto& [shape, dtype, strides] : items) arrays.emplace_back(shape, dtype, strides);
    return std::make_shared<IsFiniteKernel>(std::move(arrays));
}

}  // namespace

const Declaration kIsFinite{"isfinite(items)", make_isfinite, "src..., flag",
                            "flag = whether any element of the sources is Inf or NaN, as one s32. Each item is a "
                            "shape, a data type (f32, bf16 or f16) and strides."};

}  // namespace dgo
