// Divisions of integers for vector code, in the namespace of its instruction set.
#pragma once

#include <cstdint>

namespace dgo::DGO_ISA {

#define DGO_INLINE inline __attribute__((always_inline))

DGO_INLINE constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
DGO_INLINE constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// For a that is not negative and b above zero.
DGO_INLINE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
DGO_INLINE constexpr int64_t round_up(int64_t a, int64_t step) { return ceil_div(a, step) * step; }

template <class To, class From>
DGO_INLINE To bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps the size");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

}  // namespace dgo::DGO_ISA
