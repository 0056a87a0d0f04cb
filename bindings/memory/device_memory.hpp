// A piece of an engine's memory. Code of the host reaches it through copies only.
#pragma once

#include <cstddef>
#include <functional>

#include "library/library.hpp"

namespace dgo {

class Engine;

// The engine must outlive the object. Copies return when the data has moved; what streams still do to the memory is
// for the caller to wait for. Needs no GIL.
class DeviceMemory {
public:
    DeviceMemory() = default;
    // Allocates where the engine's partitions find it: USM of the device for SYCL. Throws when there is no room.
    DeviceMemory(const Engine& engine, std::size_t bytes);
    // Names memory that the engine reaches by its address.
    DeviceMemory(const Engine& engine, std::size_t bytes, void* data);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept;
    DeviceMemory& operator=(DeviceMemory&& other) noexcept;

    char* data() const { return data_; }  // null if there are no bytes
    std::size_t size() const { return size_; }

    // The first bytes, to and from the host.
    void read(void* host, std::size_t bytes) const;
    void write(const void* host, std::size_t bytes) const;
    // Gives all of it to `use` at an address of the host, then takes back what stands there.
    void map(const std::function<void(char*)>& use) const;

private:
    const Api* api_ = nullptr;
    dnnl_memory_t handle_ = nullptr;
    char* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace dgo
