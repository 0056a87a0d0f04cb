// Scratch memory in builds with the address sanitizer: a gap after each array is poisoned, so that a read or a write there
// is reported, and arrays are filled with NaN before they are written. Other builds have no gaps, and do nothing.
#pragma once

#include <cstddef>
#include <cstring>

extern "C" {
void __asan_poison_memory_region(const volatile void* at, std::size_t bytes);
void __asan_unpoison_memory_region(const volatile void* at, std::size_t bytes);
}

namespace dgo {

#ifdef DGO_POISONS_SCRATCH
inline constexpr bool kPoisons = true;
#else
inline constexpr bool kPoisons = false;
#endif

// Returns the bytes of the gap after an array of `bytes` bytes; empty arrays have none.
__attribute__((always_inline)) constexpr std::size_t gap_after(std::size_t bytes) {
    return kPoisons && bytes > 0 ? 64 : 0;
}

__attribute__((always_inline)) inline void poison([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
    if constexpr (kPoisons) __asan_poison_memory_region(at, bytes);
}

__attribute__((always_inline)) inline void unpoison([[maybe_unused]] const void* at,
                                                    [[maybe_unused]] std::size_t bytes) {
    if constexpr (kPoisons) __asan_unpoison_memory_region(at, bytes);
}

// Fills unpoisoned memory with bits that are a NaN of each type of floats.
__attribute__((always_inline)) inline void fill_with_nan([[maybe_unused]] void* at,
                                                         [[maybe_unused]] std::size_t bytes) {
    if constexpr (kPoisons) std::memset(at, 0xff, bytes);
}

}  // namespace dgo
