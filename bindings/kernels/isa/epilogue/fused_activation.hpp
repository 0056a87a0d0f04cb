// Post-ops on results that are still in registers, as the interpreter of post-ops has them.
#pragma once

#include "kernels/isa/vector/functions.hpp"
#include "kernels/epilogue/vtable.hpp"

namespace dgo::DGO_ISA {

// Calls each(function) with the function that makes a result of a sum; makes no call where sums are results.
template <int L, class Each>
DGO_INLINE void activate_with(const FusedActivation& activation, Each&& each) {
    using V = Floats<L>;
    const float alpha = activation.alpha, beta = activation.beta;
    const auto clamped = [](V x, float least, float most) __attribute__((always_inline)) {
        if constexpr (L == kLanes) {
            return at_most(at_least(x, least), most);
        } else {
            x = x < least ? V{} + least : x;
            return x > most ? V{} + most : x;
        }
    };
    switch (activation.as) {
        case FusedActivation::As::relu: return each([](V x) { return x <= 0.0f ? V{} : x; });
        case FusedActivation::As::clamp: return each([&](V x) { return clamped(x, alpha, beta); });
        case FusedActivation::As::hardswish:
            return each([&](V x) { return x * clamped(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f); });
        case FusedActivation::As::leaky_relu: return each([&](V x) { return x > 0.0f ? x : alpha * x; });
        case FusedActivation::As::it_is: return;
    }
}

// Activates V vectors.
template <int L, int kCount>
DGO_INLINE void activate_all(const FusedActivation& activation, Floats<L> (&sums)[kCount]) {
    activate_with<L>(activation, [&](auto function) __attribute__((always_inline)) {
#pragma GCC unroll 32
        for (int i = 0; i < kCount; ++i) sums[i] = function(sums[i]);
    });
}

// Activates a register tile.
template <int kVectors, int kRows>
DGO_INLINE void activate_tile(const FusedActivation& activation, Lanes (&sums)[kRows][kVectors]) {
    activate_with<kLanes>(activation, [&](auto function) __attribute__((always_inline)) {
#pragma GCC unroll 32
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
            for (int j = 0; j < kVectors; ++j) sums[i][j] = function(sums[i][j]);
        }
    });
}

}  // namespace dgo::DGO_ISA
