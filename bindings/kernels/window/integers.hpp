// Windows of 8-bit integers between a Dequantize and a Quantize: scale and zero point of the source, and of the results.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "kernels/element_type.hpp"
#include "kernels/window/vtable.hpp"

namespace dgo {

// src's scale and zero point, then dst's; empty where src holds floats.
using IntegerScales = std::optional<std::tuple<double, int, double, int>>;

// Types and scales of a window's source and results.
struct WindowTypes {
    ElementType from, to;
    int64_t from_item, to_item;  // bytes
    bool whole;  // the source is of integers
    double scale = 1, to_scale = 1;
    int64_t zero = 0, to_zero = 0;

    // Floats keep their type, or become f32 where `widens`; integers become integers, or f32 of the scale 1.
    WindowTypes(const std::string& what, int from_dtype, int to_dtype, const IntegerScales& scales,
                bool widens = false);

    // Refuses sums of more integers than fit into 32 bits.
    void check_terms(const std::string& what, int64_t terms) const;
    // Returns what makes a result of a sum of `taps` integers that is divided by `count`.
    Rescale rescale(double count, int64_t taps) const { return {scale, count * to_scale, zero * taps, to_zero, 0}; }
    // Returns `rescale`, with a factor in f32 if that gives the same results for all possible sums.
    Rescale in_f32(double count, int64_t taps) const;
    // Returns the type in which a window is summed.
    ElementType sums() const { return whole ? ElementType::s32 : ElementType::f32; }
};

}  // namespace dgo
