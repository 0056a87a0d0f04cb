// A block of an engine's memory, which host code accesses through copies only.
#pragma once

#include <cstddef>
#include <functional>

#include "library/library.hpp"

namespace dgo {

class Engine;

// The engine must outlive the object. Copies are synchronous, but the caller must wait for streams that still use the
// memory. Needs no GIL.
class DeviceMemory {
public:
    DeviceMemory() = default;
    // Allocates memory for the engine's partitions: USM of the device for SYCL. Throws if the device is out of memory.
    DeviceMemory(const Engine& engine, std::size_t bytes);
    // Refers to memory that the engine can access by its address.
    DeviceMemory(const Engine& engine, std::size_t bytes, void* data);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept;
    DeviceMemory& operator=(DeviceMemory&& other) noexcept;

    char* data() const { return data_; }  // null if there are no bytes
    std::size_t size() const { return size_; }

    // The first bytes, to and from the host.
    void read(void* host, std::size_t bytes) const;
    void write(const void* host, std::size_t bytes) const;
    // Calls `use` with a host copy of all bytes, then copies the bytes back.
    void map(const std::function<void(char*)>& use) const;

private:
    const Api* api_ = nullptr;
    dnnl_memory_t handle_ = nullptr;
    char* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace dgo
