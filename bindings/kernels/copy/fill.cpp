// Constant and per-channel fills: copies whose source has strides of 0.
#include <cstring>

#include "common/error.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/declaration.hpp"

namespace dgo {
namespace {

struct FillKernel : Kernel {
    StridedCopy copy;
    char value[8] = {};

    FillKernel(const Dims& shape, int dtype, const Dims& strides, double number)
        : copy(shape, dtype, Dims(shape.size(), 0), dtype, strides) {
        arity = 1;
        name = "fill";
        const float single = static_cast<float>(number);
        StridedCopy({}, kF32, {}, dtype, {}).run(reinterpret_cast<const char*>(&single), value);
    }
    void run(char* const* operands) const override { copy.run(value, operands[0]); }
};

std::shared_ptr<Kernel> make_fill_channel(const Dims& shape, int dtype, const Dims& dst_strides, int axis,
                                          int bias_dtype) {
    if (axis < 0 || axis >= static_cast<int>(shape.size())) {
        fail(ErrorKind::invalid_argument, "fill_channel: axis " + std::to_string(axis) + " of a shape with " +
                                              std::to_string(shape.size()) + " axes");
    }
    Dims bias_strides(shape.size(), 0);
    bias_strides[static_cast<size_t>(axis)] = 1;
    std::shared_ptr<Kernel> kernel = make_copy(shape, bias_dtype, bias_strides, dtype, dst_strides);
    kernel->name = "fill_channel";
    return kernel;
}

}  // namespace

const Declaration kFills[] = {
    {"fill(shape, dtype, strides, value)", kernel_by<FillKernel, Dims, int, Dims, double>, "dst (shape)",
     "dst = value."},
    {"fill_channel(shape, dtype, dst_strides, axis, bias_dtype)", make_fill_channel, "bias (shape[axis]), dst (shape)",
     "dst[..., i, ...] = bias[i], where i is the index on `axis`."},
};

}  // namespace dgo
