#include "allocator.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace py = pybind11;

namespace dgo {
namespace {

constexpr std::size_t kAlignment = 64;

// The library asks for 0 bytes too, and takes null as an answer then.
void* host_allocate(std::size_t size, std::size_t alignment) {
    void* out = nullptr;
    if (size == 0 || posix_memalign(&out, std::max(alignment, kAlignment), size) != 0) return nullptr;
    return out;
}
void host_free(void* buffer) { std::free(buffer); }

// A CPU engine has waited for the event by the time it frees.
void* sycl_allocate(std::size_t size, std::size_t alignment, const void*, const void*) {
    return host_allocate(size, alignment);
}
void sycl_free(void* buffer, const void*, const void*, void*) { std::free(buffer); }

}  // namespace

Allocator::Allocator(std::shared_ptr<const Library> lib, Kind kind, void* allocate, void* deallocate)
    : lib(std::move(lib)) {
    if (!allocate != !deallocate)
        fail(ErrorKind::invalid_argument, "Allocator: give both allocate and deallocate, or neither");
    const Api& api = this->lib->api();
    if (kind == Kind::host) {
        DGO_CALL(api, graph_allocator_create, &handle,
            allocate ? reinterpret_cast<dnnl_graph_host_allocate_f>(allocate) : host_allocate,
            deallocate ? reinterpret_cast<dnnl_graph_host_deallocate_f>(deallocate) : host_free);
    } else {
        this->lib->need(api.graph_sycl_interop_allocator_create, "dnnl_graph_sycl_interop_allocator_create",
            "with the SYCL runtime");
        DGO_CALL(api, graph_sycl_interop_allocator_create, &handle,
            allocate ? reinterpret_cast<dnnl_graph_sycl_allocate_f>(allocate) : sycl_allocate,
            deallocate ? reinterpret_cast<dnnl_graph_sycl_deallocate_f>(deallocate) : sycl_free);
    }
}

Allocator::~Allocator() {
    if (handle) lib->api().graph_allocator_destroy(handle);
}

void bind_allocator(py::module_& m) {
    const auto make = [](Allocator::Kind kind) {
        return [kind](std::shared_ptr<Library> lib, std::uintptr_t allocate, std::uintptr_t deallocate) {
            return std::make_shared<Allocator>(std::move(lib), kind, reinterpret_cast<void*>(allocate),
                reinterpret_cast<void*>(deallocate));
        };
    };
    py::class_<Allocator, std::shared_ptr<Allocator>>(m, "Allocator")
        .def_static("host", make(Allocator::Kind::host), py::arg("library"), py::arg("allocate") = 0,
            py::arg("deallocate") = 0)
        .def_static("sycl", make(Allocator::Kind::sycl), py::arg("library"), py::arg("allocate") = 0,
            py::arg("deallocate") = 0);
}

}  // namespace dgo
