// Memory that a kernel works in during one run: laid out when the kernel is made, borrowed from the pool of all plans
// before any thread starts, and given back when the run ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "memory/arena.hpp"
#include "memory/poison.hpp"

namespace dgo {

// `count` elements of T, `offset` bytes into the scratch of a run or of a thread.
template <class T>
struct ScratchArray {
    size_t offset = 0, bytes = 0;

    T* in(char* scratch) const {
        unpoison(scratch + offset, bytes);
        return reinterpret_cast<T*>(scratch + offset);
    }
};

// Parts one after the other, each at a multiple of 64 bytes. Sizes beyond what memory can hold throw bad_alloc.
class ScratchLayout {
public:
    template <class T>
    ScratchArray<T> add(int64_t count) {
        size_t size;
        if (count < 0 || __builtin_mul_overflow(static_cast<size_t>(count), sizeof(T), &size) || size > kMost ||
            bytes_ + size > kMost) {
            throw std::bad_alloc();
        }
        const ScratchArray<T> array{bytes_, size};
        bytes_ += (size + gap_after(size) + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
        return array;
    }
    size_t bytes() const { return bytes_; }

private:
    static constexpr size_t kMost = PTRDIFF_MAX / 2;
    size_t bytes_ = 0;
};

// Scratch memory: a part that all threads share, and a part for each thread.
class Scratch {
public:
    Scratch(const ScratchLayout& shared, const ScratchLayout& each, int threads)
        : shared_(shared.bytes()), each_(each.bytes()) {
        size_t bytes;
        if (__builtin_mul_overflow(each_, static_cast<size_t>(threads), &bytes) ||
            __builtin_add_overflow(bytes, shared_, &bytes)) {
            throw std::bad_alloc();
        }
        if (bytes > sizeof(near_)) block_ = host_blocks().borrow(bytes);
        memory_ = block_.size() ? block_.data() : near_;
        fill_with_nan(memory_, bytes_there());
        poison(memory_, bytes_there());  // arrays are unpoisoned one by one
    }
    ~Scratch() {
        unpoison(memory_, bytes_there());
        if (block_.size()) host_blocks().give_back(std::move(block_));
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    char* shared() const { return memory_; }
    char* of(int rank) const { return memory_ + shared_ + each_ * static_cast<size_t>(rank); }

private:
    size_t bytes_there() const { return block_.size() ? block_.size() : sizeof(near_); }

    const size_t shared_, each_;
    Block block_;
    char* memory_;
    alignas(kScratchAlignment) char near_[4096];  // saves small kernels the pool's lock
};

}  // namespace dgo
