#include "kernels/window/integers.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/checked.hpp"

namespace dgo {
namespace {

void check_scale(const std::string& what, double scale, int64_t zero) {
    if (!(scale > 0) || !std::isfinite(scale)) {
        fail(ErrorKind::invalid_argument, what + ": a scale is not a finite number above 0");
    }
    check_number(what, "zero points", zero, -128, 255);
}

}  // namespace

WindowTypes::WindowTypes(const std::string& what, int from_dtype, int to_dtype, const IntegerScales& scales,
                         bool widens)
    : from(scales ? number_type(from_dtype) : float_type(from_dtype)),
      to(scales ? number_type(to_dtype) : float_type(to_dtype)), from_item(item_size(from_dtype)),
      to_item(item_size(to_dtype)), whole(scales.has_value()) {
    if (!whole) {
        if (to == from || (widens && to == ElementType::f32)) return;
        fail(ErrorKind::invalid_argument,
             what + ": the results are " + (widens ? "f32, or " : "") + "of the type of src");
    }
    if (!is_byte(from) || (!is_byte(to) && to != ElementType::f32)) {
        fail(ErrorKind::invalid_argument, what + ": with scales src is of 8-bit integers, and so is dst, or f32");
    }
    std::tie(scale, zero, to_scale, to_zero) = *scales;
    check_scale(what, scale, zero);
    check_scale(what, to_scale, to_zero);
    if (to == ElementType::f32 && (to_scale != 1 || to_zero != 0)) {
        fail(ErrorKind::invalid_argument, what + ": results in f32 have the scale 1 and the zero point 0");
    }
}

Rescale WindowTypes::in_f32(double count, int64_t taps) const {
    Rescale by = rescale(count, taps);
    const auto factor = static_cast<float>(by.scale / by.divisor);
    const double least = to == ElementType::s8 ? -128 : 0, low = least - static_cast<double>(to_zero);
    const int64_t first = from == ElementType::s8 ? -128 : 0;
    for (int64_t sum = first * taps; sum <= (first + 255) * taps; ++sum) {
        const int64_t number = sum - by.zero;
        double wide = static_cast<double>(number) * by.scale / by.divisor;
        float narrow = static_cast<float>(number) * factor;
        if (to == ElementType::f32) {
            if (static_cast<float>(wide) != narrow) return by;
        } else {
            wide = std::clamp(wide, low, low + 255);
            narrow = std::clamp(narrow, static_cast<float>(low), static_cast<float>(low + 255));
            if (std::nearbyint(wide) != std::nearbyint(static_cast<double>(narrow))) return by;
        }
    }
    by.factor = factor;
    return by;
}

void WindowTypes::check_terms(const std::string& what, int64_t terms) const {
    if (whole && terms > INT32_MAX / 255) {
        fail(ErrorKind::shape, what + ": sums of " + std::to_string(terms) + " integers do not fit into 32 bits");
    }
}

}  // namespace dgo
