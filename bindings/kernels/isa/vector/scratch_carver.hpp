// Scratch memory divided into arrays, each of which starts at a multiple of 64 bytes.
#pragma once

#include "kernels/isa/vector/integer.hpp"
#include "memory/poison.hpp"

namespace dgo::DGO_ISA {

struct ScratchCarver {
    static constexpr int64_t kMost = INT64_MAX / 4;
    char* memory;  // null: only `bytes` is computed
    int64_t bytes = 0;

    explicit ScratchCarver(char* scratch) : memory(scratch) {}

    template <class T = float>
    T* take(int64_t count) {
        // a number, as nothing may be added to a null pointer
        const uintptr_t array = reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(bytes);
        // beyond any memory it stays there: who asked for the size refuses it
        int64_t size;
        if (__builtin_mul_overflow(count, static_cast<int64_t>(sizeof(T)), &size) || size > kMost - bytes) {
            bytes = kMost;
        } else {
            const auto gap = static_cast<int64_t>(gap_after(static_cast<size_t>(size)));
            const int64_t whole = round_up(size + gap, 64);
            bytes += whole;
            if (memory != nullptr) {
                unpoison(reinterpret_cast<void*>(array), static_cast<size_t>(size));
                poison(reinterpret_cast<char*>(array) + size, static_cast<size_t>(whole - size));
            }
        }
        return reinterpret_cast<T*>(array);
    }
};

}  // namespace dgo::DGO_ISA
