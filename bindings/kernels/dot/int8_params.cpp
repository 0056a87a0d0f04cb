#include "kernels/dot/int8.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/checked.hpp"

namespace dgo {

ElementType integer_type(const std::string& kernel, const char* name, int dtype) {
    const ElementType type = number_type(dtype);
    if (!is_byte(type)) {
        fail(ErrorKind::invalid_argument, kernel + ": " + name + " must be s8 or u8");
    }
    return type;
}

int unsigned_zero(const std::string& kernel, int dtype, int zero) {
    const int shift = sign_shift(integer_type(kernel, "src", dtype));
    check_number(kernel, "src_zero", zero, -shift, 255 - shift);
    return zero + shift;
}

Quotient checked_quotient(const std::string& kernel, const std::string& side, double scale, int zero, int low,
                          int high) {
    if (low > high) fail(ErrorKind::invalid_argument, kernel + ": " + side + "_low must be at most " + side + "_high");
    if (!(scale > 0) || !std::isfinite(static_cast<float>(scale))) {
        fail(ErrorKind::invalid_argument, kernel + ": " + side + "_scale must be positive and finite");
    }
    return with_rest(quotient_by(static_cast<float>(scale), zero, low, high));
}

void set_results(const std::string& kernel, const IntegerQuantization& how, int dst_dtype, int bias_dtype,
                 Int8Params& params) {
    if (bias_dtype != 0 && bias_dtype != kF32) fail(ErrorKind::invalid_argument, kernel + ": bias must be f32");
    params.quotient = checked_quotient(kernel, "dst", how.dst_scale, how.dst_zero, how.dst_low, how.dst_high);
    const bool signs = number_type(dst_dtype) == ElementType::s8;
    params.quotient.low = std::max(how.dst_low, signs ? -128 : 0);
    params.quotient.high = std::min(how.dst_high, signs ? 127 : 255);
}

}  // namespace dgo
