// Rows of neighbours divided by the roots of their mean squares, and scaled.
#include <algorithm>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "rms_norm";
constexpr int64_t kRows = 16;  // of a task

struct RmsNorm : Kernel {
    ElementType src_type, dst_type;
    int64_t src_item, dst_item, rows, width, src_pitch, dst_pitch;
    float epsilon;
    bool scaled;
    double bytes;

    RmsNorm(int64_t rows, int64_t width, int src_dtype, int64_t src_pitch, int dst_dtype, int64_t dst_pitch,
            double epsilon, bool scaled)
        : src_type(float_type(src_dtype)), dst_type(float_type(dst_dtype)), src_item(item_size(src_dtype)),
          dst_item(item_size(dst_dtype)), rows(rows), width(width), src_pitch(src_pitch), dst_pitch(dst_pitch),
          epsilon(static_cast<float>(epsilon)), scaled(scaled) {
        name = kName;
        arity = scaled ? 3 : 2;
        check_number(kName, "sizes", rows, 0, kMostElements);
        check_number(kName, "sizes", width, 1, kMostSize);
        for (const int64_t pitch : {src_pitch, dst_pitch}) check_number(kName, "pitches", pitch, 0, kMostElements);
        const int64_t all = checked_product(kName, {rows, width});
        check_extent(kName, "src", {rows, width}, {src_pitch, 1});
        check_extent(kName, "dst", {rows, width}, {dst_pitch, 1});
        bytes = static_cast<double>(all) * static_cast<double>(src_item + dst_item);
    }

    void run(char* const* operands) const override {
        const float* const scale = scaled ? reinterpret_cast<const float*>(operands[1]) : nullptr;
        parallel_for(ceil_div(rows, kRows), bytes, [&](int64_t begin, int64_t end) {
            const int64_t first = begin * kRows, count = std::min(end * kRows, rows) - first;
            vector_code().norm.root_mean_square(
                {{src_type, operands[0] + first * src_pitch * src_item, count, width, src_pitch},
                 dst_type,
                 operands[arity - 1] + first * dst_pitch * dst_item,
                 dst_pitch,
                 scale,
                 epsilon});
        });
    }
};

}  // namespace

const Declaration kRmsNorm{
    "rms_norm(rows, width, src_dtype, src_pitch, dst_dtype, dst_pitch, epsilon, scaled=False)",
    kernel_by<RmsNorm, int64_t, int64_t, int, int64_t, int, int64_t, double, bool>,
    "src (rows, width), [scale (width)], dst (rows, width)",
    "rows of neighbours, pitches apart, divided by the roots of their mean squares plus epsilon, and scaled (f32)."};

}  // namespace dgo
