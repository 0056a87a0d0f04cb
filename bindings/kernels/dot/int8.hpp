// Checks types, zero points and scales of 8-bit kernels.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "kernels/dot/call.hpp"
#include "kernels/element_type.hpp"

namespace dgo {

// (scale, zero, low, high): integers are result / scale + zero, rounded, from low to high; nothing: those of scale 1.
using IntegerResult = std::optional<std::tuple<double, int, int, int>>;
// (dtype, scale, zero, inner): (residual - zero) * scale is added to the result after this became integers by `inner`.
using IntegerResidual = std::optional<std::tuple<int, double, int, IntegerResult>>;

// `result`: of a dst of s8 or u8. src_zero is a number of src's type. has_scale, has_zero: an operand of one element
// multiplies all scales, or takes the place of src_zero.
struct IntegerQuantization {
    int src_dtype = 0, src_zero = 0;
    IntegerResult result = {};
    bool has_points = false;
    bool has_scale = false, has_zero = false;
    IntegerResidual residual = {};
};

// Returns the element type of s8 or u8; throws for others.
ElementType integer_type(const std::string& kernel, const char* name, int dtype);

// Returns how much larger a byte is than the number it stands for: kernels read s8 as u8, 128 more.
inline int32_t sign_shift(ElementType type) { return type == ElementType::s8 ? 128 : 0; }

// Returns the zero point of src that is an operand of src's type.
inline int32_t zero_at(const char* operand, ElementType type) {
    return type == ElementType::s8 ? static_cast<int8_t>(*operand) : static_cast<uint8_t>(*operand);
}

// Returns the zero point of src as an unsigned byte.
int unsigned_zero(const std::string& kernel, int dtype, int zero);

// Returns a quotient; throws for bounds that exclude each other and an invalid scale.
Quotient checked_quotient(const std::string& kernel, const IntegerResult& result);

// Returns a quotient whose results are of a dst of s8 or u8; throws as `checked_quotient` does.
Quotient quotient_to(const std::string& kernel, const IntegerResult& result, int dst_dtype);

// Sets scale, zero point and bounds of results; throws for invalid ones, and for a bias that is not f32.
void set_results(const std::string& kernel, const IntegerResult& result, int dst_dtype, int bias_dtype,
                 Int8Params& params);

}  // namespace dgo
