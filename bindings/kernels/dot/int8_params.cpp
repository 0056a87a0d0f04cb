#include "kernels/dot/int8.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/checked.hpp"

namespace dgo {

namespace {

// How quotients by the scale are found: as products by its inverse, but where the two may be rounded to different numbers.
// Within 512, beyond which every result is the largest or the smallest, they differ by less than 2e-4.
void find_inverse(Int8Params& params) {
    constexpr float kDoubtful = 0.5f - 2e-4f;
    int exponent;
    const float inverse = 1 / params.scale;
    const bool normal = std::isnormal(inverse), exact = std::frexp(params.scale, &exponent) == 0.5f;
    params.inverse = normal ? inverse : 0;
    params.doubtful = !normal ? -1 : exact ? 2 : kDoubtful;
}

}  // namespace

ElementType integer_type(const std::string& kernel, const char* name, int dtype) {
    const ElementType type = number_type(dtype);
    if (type != ElementType::s8 && type != ElementType::u8) {
        fail(ErrorKind::invalid_argument, kernel + ": " + name + " must be s8 or u8");
    }
    return type;
}

int unsigned_zero(const std::string& kernel, int dtype, int zero) {
    const int least = integer_type(kernel, "src", dtype) == ElementType::s8 ? -128 : 0;
    check_number(kernel, "src_zero", zero, least, least + 255);
    return zero - least;
}

void set_results(const std::string& kernel, const IntegerQuantization& how, int dst_dtype, int bias_dtype,
                 Int8Params& params) {
    if (bias_dtype != 0 && bias_dtype != kF32) fail(ErrorKind::invalid_argument, kernel + ": bias must be f32");
    if (how.dst_low > how.dst_high) {
        fail(ErrorKind::invalid_argument, kernel + ": dst_low must be at most dst_high");
    }
    if (!(how.dst_scale > 0) || !std::isfinite(static_cast<float>(how.dst_scale))) {
        fail(ErrorKind::invalid_argument, kernel + ": dst_scale must be positive and finite");
    }
    params.scale = static_cast<float>(how.dst_scale);
    find_inverse(params);
    params.zero = static_cast<float>(how.dst_zero);
    const bool signs = number_type(dst_dtype) == ElementType::s8;
    params.low = std::max(how.dst_low, signs ? -128 : 0);
    params.high = std::min(how.dst_high, signs ? 127 : 255);
}

}  // namespace dgo
