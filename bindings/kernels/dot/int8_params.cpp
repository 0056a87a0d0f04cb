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

Quotient checked_quotient(const std::string& kernel, const IntegerResult& result) {
    const auto [scale, zero, low, high] = result.value_or(std::tuple(1.0, 0, -128, 255));
    if (low > high) fail(ErrorKind::invalid_argument, kernel + ": the lowest result must be at most the highest");
    if (!(scale > 0) || !std::isfinite(static_cast<float>(scale))) {
        fail(ErrorKind::invalid_argument, kernel + ": the scale of results must be positive and finite");
    }
    return with_rest(quotient_by(static_cast<float>(scale), zero, low, high));
}

Quotient quotient_to(const std::string& kernel, const IntegerResult& result, int dst_dtype) {
    Quotient quotient = checked_quotient(kernel, result);
    const bool signs = number_type(dst_dtype) == ElementType::s8;
    quotient.low = std::max(quotient.low, signs ? -128 : 0);
    quotient.high = std::min(quotient.high, signs ? 127 : 255);
    return quotient;
}

void set_results(const std::string& kernel, const IntegerResult& result, int dst_dtype, int bias_dtype,
                 Int8Params& params) {
    if (bias_dtype != 0 && bias_dtype != kF32) fail(ErrorKind::invalid_argument, kernel + ": bias must be f32");
    params.quotient = quotient_to(kernel, result, dst_dtype);
}

}  // namespace dgo
