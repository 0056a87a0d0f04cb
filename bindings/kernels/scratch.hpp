// Buffers that a thread keeps between runs, so that no kernel allocates while it works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dgo {

// What a buffer is for; a thread has one of each.
enum class Room { weights, bias, partial_sums, rows, row_tags, result, pointers, count };

template <class T>
T* scratch(Room room, size_t count) {
    constexpr size_t kLine = 64;
    thread_local std::vector<char> buffers[static_cast<size_t>(Room::count)];
    std::vector<char>& buffer = buffers[static_cast<size_t>(room)];
    const size_t bytes = count * sizeof(T) + kLine;
    if (buffer.size() < bytes) {
        buffer = std::vector<char>();
        buffer.resize(bytes);
    }
    const auto address = reinterpret_cast<uintptr_t>(buffer.data());
    return reinterpret_cast<T*>((address + kLine - 1) / kLine * kLine);
}

}  // namespace dgo
