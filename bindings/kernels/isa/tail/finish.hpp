// Post-ops on results that are still in registers, as the interpreter of post-ops has them.
#pragma once

#include "kernels/isa/tail/functions.hpp"
#include "kernels/tail/vtable.hpp"

namespace dgo::DGO_ISA {

template <int L>
using Floats = typename Vec<L>::f32;

// Calls each(function) with what makes a result of a sum; not at all where sums are results.
template <int L, class Each>
DGO_INLINE void finish_with(const Finish& finish, Each&& each) {
    using V = Floats<L>;
    const float alpha = finish.alpha, beta = finish.beta;
    const auto clamped = [](V x, float least, float most) __attribute__((always_inline)) {
        if constexpr (L == kLanes) {
            return at_most(at_least(x, least), most);
        } else {
            x = x < least ? V{} + least : x;
            return x > most ? V{} + most : x;
        }
    };
    switch (finish.as) {
        case Finish::As::relu: return each([](V x) { return x <= 0.0f ? V{} : x; });
        case Finish::As::clamp: return each([&](V x) { return clamped(x, alpha, beta); });
        case Finish::As::hardswish: return each([&](V x) { return x * clamped(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f); });
        case Finish::As::leaky_relu: return each([&](V x) { return x > 0.0f ? x : alpha * x; });
        case Finish::As::it_is: return;
    }
}

// All of some vectors.
template <int L, int kCount>
DGO_INLINE void finish_all(const Finish& finish, Floats<L> (&sums)[kCount]) {
    finish_with<L>(finish, [&](auto function) __attribute__((always_inline)) {
#pragma GCC unroll 32
        for (int i = 0; i < kCount; ++i) sums[i] = function(sums[i]);
    });
}

// All of a register tile.
template <int kVectors, int kRows>
DGO_INLINE void finish_tile(const Finish& finish, Lanes (&sums)[kRows][kVectors]) {
    finish_with<kLanes>(finish, [&](auto function) __attribute__((always_inline)) {
#pragma GCC unroll 32
        for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kVectors; ++j) sums[i][j] = function(sums[i][j]);
        }
    });
}

}  // namespace dgo::DGO_ISA
