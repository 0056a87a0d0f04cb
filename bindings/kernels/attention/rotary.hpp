// Pairs of elements turned by angles of their place, of which cosines and sines are given.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// f32. Strides of src, cos, sin and dst in this order, in elements: of the axes of `shape`; the elements behind these are
// neighbours, 2 * half in src and dst. The pairs are i and half + i, or, where `interleaved`, 2 i and 2 i + 1. `whole`:
// cos and sin have numbers of their own for the second of a pair, half further.
struct RotaryProblem {
    std::vector<int64_t> shape;
    int64_t half;
    std::vector<std::vector<int64_t>> strides;
    bool interleaved, whole;
};

// src, cos, sin, dst: (a, b) of a pair become a cos - b sin and b cos + a sin
std::shared_ptr<Kernel> make_rotary(const RotaryProblem& problem);

}  // namespace dgo
