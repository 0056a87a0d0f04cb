// Zero points and types of kernels of 8 bits, and the results of their sums.
#pragma once

#include <string>

#include "kernels/dot/call.hpp"
#include "kernels/element_type.hpp"

namespace dgo {

// A tensor of 8 bits that is added to results, of which a number stands for (x - zero) * scale. The results become
// integers from inner_low to inner_high before: rounded quotients by inner_scale, plus inner_zero. dtype 0: none.
struct Residual {
    int dtype = 0;
    double scale = 1;
    int zero = 0;
    double inner_scale = 1;
    int inner_zero = 0, inner_low = 0, inner_high = 0;
};

// src_zero: of src, by its own type. Results of s8 and u8 are rounded quotients by dst_scale, plus dst_zero, from low to
// high. has_scale, has_zero: operands of one element, a factor of all scales and the zero point in place of src_zero.
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
