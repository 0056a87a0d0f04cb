// Layer norm and RMS norm of rows of neighbours.
#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

struct RowNormKernel : Kernel {
    ElementType src_type, dst_type;
    int64_t src_item, dst_item, rows, width, src_pitch, dst_pitch;
    float epsilon;
    bool centered, scaled;
    double bytes;

    RowNormKernel(const char* what, bool centered, int64_t rows, int64_t width, int src_dtype, int64_t src_pitch,
                  int dst_dtype, int64_t dst_pitch, double epsilon, bool scaled)
        : src_type(float_type(src_dtype)), dst_type(float_type(dst_dtype)), src_item(item_size(src_dtype)),
          dst_item(item_size(dst_dtype)), rows(rows), width(width), src_pitch(src_pitch), dst_pitch(dst_pitch),
          epsilon(static_cast<float>(epsilon)), centered(centered), scaled(scaled) {
        name = what;
        arity = 2 + (scaled ? 1 : 0) + (scaled && centered ? 1 : 0);
        check_number(what, "sizes", rows, 0, kMostElements);
        check_number(what, "sizes", width, 1, kMostSize);
        for (const int64_t pitch : {src_pitch, dst_pitch}) check_number(what, "pitches", pitch, 0, kMostElements);
        const int64_t all = checked_product(what, {rows, width});
        check_extent(what, "src", {rows, width}, {src_pitch, 1});
        check_extent(what, "dst", {rows, width}, {dst_pitch, 1});
        bytes = static_cast<double>(all) * static_cast<double>(src_item + dst_item);
    }

    void run(char* const* operands) const override {
        const auto* const scale = scaled ? reinterpret_cast<const float*>(operands[1]) : nullptr;
        const auto* const shift = scaled && centered ? reinterpret_cast<const float*>(operands[2]) : nullptr;
        parallel_for(rows, bytes, [&](int64_t begin, int64_t end) {
            vector_code().norm.row_norm(
                {{src_type, operands[0] + begin * src_pitch * src_item, end - begin, width, src_pitch},
                 dst_type,
                 operands[arity - 1] + begin * dst_pitch * dst_item,
                 dst_pitch,
                 scale,
                 shift,
                 epsilon,
                 centered});
        });
    }
};

struct LayerNorm : RowNormKernel {
    LayerNorm(int64_t rows, int64_t width, int src_dtype, int64_t src_pitch, int dst_dtype, int64_t dst_pitch,
              double epsilon, bool affine)
        : RowNormKernel("layer_norm", true, rows, width, src_dtype, src_pitch, dst_dtype, dst_pitch, epsilon, affine) {}
};

struct RmsNorm : RowNormKernel {
    RmsNorm(int64_t rows, int64_t width, int src_dtype, int64_t src_pitch, int dst_dtype, int64_t dst_pitch,
            double epsilon, bool scaled)
        : RowNormKernel("rms_norm", false, rows, width, src_dtype, src_pitch, dst_dtype, dst_pitch, epsilon, scaled) {}
};

}  // namespace

const Declaration kLayerNorm{
    "layer_norm(rows, width, src_dtype, src_pitch, dst_dtype, dst_pitch, epsilon, affine=False)",
    kernel_by<LayerNorm, int64_t, int64_t, int, int64_t, int, int64_t, double, bool>,
    "src (rows, width), [scale (width), shift (width)], dst (rows, width)",
    "dst = (src - mean) / sqrt(variance + epsilon) * scale + shift, with the mean and variance of each row of "
    "neighbours; rows lie pitches apart, scale and shift are f32."};

const Declaration kRmsNorm{"rms_norm(rows, width, src_dtype, src_pitch, dst_dtype, dst_pitch, epsilon, scaled=False)",
                           kernel_by<RmsNorm, int64_t, int64_t, int, int64_t, int, int64_t, double, bool>,
                           "src (rows, width), [scale (width)], dst (rows, width)",
                           "dst = src / sqrt(mean of src^2 + epsilon) * scale for each row of neighbours; rows lie "
                           "pitches apart, scale is f32."};

}  // namespace dgo
