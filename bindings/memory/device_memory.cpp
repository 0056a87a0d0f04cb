#include "memory/device_memory.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "library/engine.hpp"
#include "library/fork_guard.hpp"
#include "library/status.hpp"

namespace dgo {
namespace {

dnnl_memory_t create(const Engine& engine, std::size_t bytes, void* data) {
    const Api& api = engine.api();
    dnnl_memory_desc_t desc = nullptr;
    const dnnl_dims_t dims = {static_cast<dnnl_dim_t>(bytes)};
    DGO_CALL(api, memory_desc_create_with_tag, &desc, 1, dims, dnnl_u8, dnnl_a);
    const auto drop = [&api](dnnl_memory_desc_t d) { api.memory_desc_destroy(d); };
    const std::unique_ptr<std::remove_pointer_t<dnnl_memory_desc_t>, decltype(drop)> owner(desc, drop);
    dnnl_memory_t handle = nullptr;
    // the default could be a SYCL buffer, which has no address
    if (engine.on_device && api.sycl_interop_memory_create)
        DGO_CALL(api, sycl_interop_memory_create, &handle, desc, engine.handle, dnnl_sycl_interop_usm, data);
    else
        DGO_CALL(api, memory_create, &handle, desc, engine.handle, data);
    return handle;
}

[[noreturn]] void no_room(const Engine& engine, std::size_t bytes) {
    throw NativeError(
        ErrorKind::error,
        engine.str() + " has no room for " + std::to_string(bytes) +
            " bytes; drop arrays and nets that are no longer needed, call clear_caches(), or work on smaller batches",
        int(dnnl_out_of_memory));
}

}  // namespace

DeviceMemory::DeviceMemory(const Engine& engine, std::size_t bytes) : api_(&engine.api()), size_(bytes) {
    if (bytes == 0) return;
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) no_room(engine, bytes);
    try {
        handle_ = create(engine, bytes, DNNL_MEMORY_ALLOCATE);
        void* data = nullptr;
        DGO_CALL(*api_, memory_get_data_handle, handle_, &data);
        data_ = static_cast<char*>(data);
    } catch (const NativeError& error) {
        if (error.status == dnnl_out_of_memory) no_room(engine, bytes);
        throw;
    }
}

DeviceMemory::DeviceMemory(const Engine& engine, std::size_t bytes, void* data)
    : api_(&engine.api()), data_(static_cast<char*>(data)), size_(bytes) {
    if (bytes) handle_ = create(engine, bytes, data);
}

DeviceMemory::~DeviceMemory() {
    if (api_) fork_guard::destroy(api_->memory_destroy, handle_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(handle_, other.handle_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

void DeviceMemory::map(const std::function<void(char*)>& use) const {
    if (!handle_) return;
    void* host = nullptr;
    DGO_CALL(*api_, memory_map_data, handle_, &host);
    try {
        use(static_cast<char*>(host));
    } catch (...) {
        api_->memory_unmap_data(handle_, host);
        throw;
    }
    DGO_CALL(*api_, memory_unmap_data, handle_, host);
}

void DeviceMemory::read(void* host, std::size_t bytes) const {
    map([&](char* mapped) { std::memcpy(host, mapped, bytes); });
}

void DeviceMemory::write(const void* host, std::size_t bytes) const {
    map([&](char* mapped) { std::memcpy(mapped, host, bytes); });
}

}  // namespace dgo
