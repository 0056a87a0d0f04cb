// Checks types, zero points and scales of 8-bit kernels.
#pragma once

#include <string>

#include "kernels/dot/call.hpp"
#include "kernels/element_type.hpp"

namespace dgo {

// dst = result + (residual - zero) * scale, for a residual of 8 bits. Before, the result becomes an integer of its own
// scale: result / inner_scale + inner_zero, rounded, from inner_low to inner_high. dtype 0: no residual.
struct Residual {
    int dtype = 0;
    double scale = 1;
    int zero = 0;
    double inner_scale = 1;
    int inner_zero = 0, inner_low = 0, inner_high = 0;
};

// dst = result / dst_scale + dst_zero, rounded, from dst_low to dst_high, for a dst of s8 or u8. src_zero is a number of
// src's type. has_scale, has_zero: an operand of one element multiplies all scales, or takes the place of src_zero.
struct IntegerQuantization {
    int src_dtype = 0, src_zero = 0;
    double dst_scale = 1;
    int dst_zero = 0;
    int dst_low = -128, dst_high = 255;
    bool has_points = false;
    bool has_scale = false, has_zero = false;
    Residual residual = {};
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

// Returns a quotient; throws for bounds that exclude each other and an invalid scale of a side, such as "dst".
Quotient checked_quotient(const std::string& kernel, const std::string& side, double scale, int zero, int low,
                          int high);

// Sets scale, zero point and bounds of results; throws for invalid ones, and for a bias that is not f32.
void set_results(const std::string& kernel, const IntegerQuantization& how, int dst_dtype, int bias_dtype,
                 Int8Params& params);

}  // namespace dgo
