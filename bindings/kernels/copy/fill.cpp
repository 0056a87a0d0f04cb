// Constant and per-channel fills: copies whose source has strides of 0.
#include <cstring>

#include "border/guard.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/factories.hpp"

namespace dgo {
namespace {

struct FillKernel : Kernel {
    StridedCopy copy;
    char value[8] = {};

    FillKernel(const Dims& shape, int dtype, const Dims& strides, double number)
        : copy(shape, dtype, Dims(shape.size(), 0), dtype, strides) {
        arity = 1;
        name = "fill";
        constexpr int kF32 = 3;
        const float single = static_cast<float>(number);
        StridedCopy({}, kF32, {}, dtype, {}).run(reinterpret_cast<const char*>(&single), value);
    }
    void run(char* const* operands) const override { copy.run(value, operands[0]); }
};

struct FillChannelKernel : Kernel {
    StridedCopy copy;

    explicit FillChannelKernel(StridedCopy p) : copy(std::move(p)) {
        arity = 2;
        name = "fill_channel";
    }
    void run(char* const* operands) const override { copy.run(operands[0], operands[1]); }
};

}  // namespace

std::shared_ptr<Kernel> make_fill(const Dims& shape, int dtype, const Dims& strides, double value) {
    return std::make_shared<FillKernel>(shape, dtype, strides, value);
}

std::shared_ptr<Kernel> make_fill_channel(const Dims& shape, int dtype, const Dims& dst_strides, int axis,
                                          int bias_dtype) {
    if (axis < 0 || axis >= static_cast<int>(shape.size())) {
        fail(ErrorKind::invalid_argument, "fill_channel: axis " + std::to_string(axis) + " of a shape with " +
                                              std::to_string(shape.size()) + " axes");
    }
    Dims bias_strides(shape.size(), 0);
    bias_strides[static_cast<size_t>(axis)] = 1;
    return std::make_shared<FillChannelKernel>(StridedCopy(shape, bias_dtype, bias_strides, dtype, dst_strides));
}

}  // namespace dgo
