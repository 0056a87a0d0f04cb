#include "library/sycl_objects.hpp"

#include <utility>

#include "library/allocator.hpp"
#include "library/status.hpp"

namespace dgo {
namespace {

constexpr const char* kNeeds = "with the SYCL runtime";

// a value of sycl::usm::alloc; get_pointer_type(const void*, context) of libsycl.so.8 and of libsycl.so.9
constexpr int kUnknown = 3;
using PointerType = int (*)(const void*, const void*);
constexpr const char* kOfContext = "_ZN4sycl3_V116get_pointer_typeEPKvRKNS0_7contextE";
constexpr const char* kOfImplementation = "_ZN4sycl3_V16detail16get_pointer_typeEPKvRNS1_12context_implE";

// queue::get_context() and get_device(); results are returned in memory because their classes have destructors.
// These are never run: the context lives on with the engine, which the process keeps.
struct alignas(16) Returned {
    void* words[8] = {};
};
using FromQueue = void* (*)(Returned*, const void*);
constexpr const char* kGetContext = "_ZNK4sycl3_V15queue11get_contextEv";
constexpr const char* kGetDevice = "_ZNK4sycl3_V15queue10get_deviceEv";

void* context_of(const Engine& engine) {
    const Api& api = engine.api();
    if (!api.sycl_interop_engine_get_context) return nullptr;
    void* context = nullptr;
    DGO_CALL(api, sycl_interop_engine_get_context, engine.handle, &context);
    return context;
}

}  // namespace

bool reaches(const Engine& engine, const void* address) {
    const void* const context = address ? context_of(engine) : nullptr;
    if (!context) return false;
    return guarded("sycl::get_pointer_type", [&] {
        if (void* const function = engine.lib->find(kOfContext))
            return reinterpret_cast<PointerType>(function)(address, context) != kUnknown;
        if (void* const function = engine.lib->find(kOfImplementation))
            // a context holds the address of its implementation
            return reinterpret_cast<PointerType>(function)(address, *static_cast<void* const*>(context)) != kUnknown;
        return false;
    });
}

std::shared_ptr<Engine> engine_from_sycl(std::shared_ptr<const Library> lib, std::uintptr_t device,
                                         std::uintptr_t context, std::size_t index, bool device_memory,
                                         std::shared_ptr<const Allocator> allocator) {
    const Api& api = lib->api();
    DGO_NEED(*lib, sycl_interop_engine_create, kNeeds);
    if (allocator) allocator->check_library(*lib);
    if (!device || !context)
        fail(ErrorKind::invalid_argument, "Engine.from_sycl: device and context must be addresses of SYCL objects");
    dnnl_engine_t handle = nullptr;
    const auto* const on = reinterpret_cast<const void*>(device);
    const auto* const in = reinterpret_cast<const void*>(context);
    if (allocator)
        DGO_CALL(api, graph_sycl_interop_make_engine_with_allocator, &handle, on, in, allocator->handle);
    else
        DGO_CALL(api, sycl_interop_engine_create, &handle, on, in);
    const auto kind = DGO_READ(dnnl_engine_kind_t, api, engine_get_kind, handle);
    return std::make_shared<Engine>(std::move(lib), handle, kind, index, std::move(allocator), device_memory);
}

std::shared_ptr<Engine> engine_of_queue(std::shared_ptr<const Library> lib, std::uintptr_t queue, std::size_t index,
                                        bool device_memory) {
    if (!queue) fail(ErrorKind::invalid_argument, "Engine.from_sycl: queue must be the address of a SYCL queue");
    void* const get_context = lib->find(kGetContext);
    void* const get_device = lib->find(kGetDevice);
    if (!get_context || !get_device || !lib->find(kOfImplementation))
        fail(ErrorKind::unsupported,
             "Engine.from_sycl: the SYCL runtime that '" + lib->path() +
                 "' has loaded is not libsycl.so.9, whose queues are known here; give the device and the context");
    Returned context, device;
    const auto* const object = reinterpret_cast<const void*>(queue);
    guarded("sycl::queue::get_context", [&] { return reinterpret_cast<FromQueue>(get_context)(&context, object); });
    guarded("sycl::queue::get_device", [&] { return reinterpret_cast<FromQueue>(get_device)(&device, object); });
    return engine_from_sycl(std::move(lib), reinterpret_cast<std::uintptr_t>(&device),
                            reinterpret_cast<std::uintptr_t>(&context), index, device_memory);
}

std::shared_ptr<Stream> stream_from_sycl(std::shared_ptr<const Engine> engine, std::uintptr_t queue) {
    const Api& api = engine->api();
    DGO_NEED(*engine->lib, sycl_interop_stream_create, kNeeds);
    if (!queue) fail(ErrorKind::invalid_argument, "Stream.from_sycl: queue must be the address of a SYCL queue");
    dnnl_stream_t handle = nullptr;
    DGO_CALL(api, sycl_interop_stream_create, &handle, engine->handle, reinterpret_cast<void*>(queue));
    return std::make_shared<Stream>(std::move(engine), handle);
}

}  // namespace dgo
