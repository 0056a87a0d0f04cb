// Engines, their allocators and streams.
#include <cstdint>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "library/allocator.hpp"
#include "library/engine.hpp"
#include "library/sycl_objects.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

// Address of a SYCL object behind an engine or a stream.
template <typename F, typename H>
std::uintptr_t sycl_address(const Library& lib, F function, const char* name, H handle) {
    lib.need(function, name, "with the SYCL runtime");
    void* out = nullptr;
    guarded(name, [&] { return function(handle, &out); });
    return reinterpret_cast<std::uintptr_t>(out);
}

std::uintptr_t device_of(const Engine& e) {
    return sycl_address(*e.lib, e.api().sycl_interop_engine_get_device, "dnnl_sycl_interop_engine_get_device",
                        e.handle);
}

std::uintptr_t context_of(const Engine& e) {
    return sycl_address(*e.lib, e.api().sycl_interop_engine_get_context, "dnnl_sycl_interop_engine_get_context",
                        e.handle);
}

}  // namespace

void bind_allocator(py::module_& m) {
    const auto make = [](Allocator::Kind kind) {
        return [kind](std::shared_ptr<Library> lib, std::uintptr_t allocate, std::uintptr_t deallocate) {
            return std::make_shared<Allocator>(std::move(lib), kind, reinterpret_cast<void*>(allocate),
                                               reinterpret_cast<void*>(deallocate));
        };
    };
    py::class_<Allocator, std::shared_ptr<Allocator>>(
        m, "Allocator", "Memory functions for an engine, by address of C functions; 0 stands for aligned host memory.")
        .def_static("host", make(Allocator::Kind::host), py::arg("library").none(false), py::arg("allocate") = 0,
                    py::arg("deallocate") = 0)
        .def_static("sycl", make(Allocator::Kind::sycl), py::arg("library").none(false), py::arg("allocate") = 0,
                    py::arg("deallocate") = 0);
}

void bind_engine(py::module_& m) {
    py::class_<Engine, std::shared_ptr<Engine>>(
        m, "Engine", "A device. Partitions run only on the very object they were compiled for.")
        .def(py::init([](std::shared_ptr<Library> lib, int kind, std::size_t index,
                         std::shared_ptr<Allocator> allocator, bool device_memory) {
                 const auto native = engine_kind_from(kind);
                 const ReleaseGil release;
                 return std::make_shared<Engine>(std::move(lib), native, index, std::move(allocator), device_memory);
             }),
             py::arg("library").none(false), py::arg("kind"), py::arg("index") = 0,
             py::arg("allocator") = std::shared_ptr<Allocator>(), py::arg("device_memory") = false,
             "device_memory: a CPU engine is treated like a GPU's, whose partitions never see memory of the host.")
        .def_static(
            "from_sycl",
            [](std::shared_ptr<Library> lib, std::uintptr_t device, std::uintptr_t context, std::size_t index,
               bool device_memory, std::shared_ptr<Allocator> allocator) {
                return engine_from_sycl(std::move(lib), device, context, index, device_memory, std::move(allocator));
            },
            py::arg("library").none(false), py::arg("device"), py::arg("context"), py::arg("index") = 0,
            py::arg("device_memory") = false, py::arg("allocator") = std::shared_ptr<Allocator>())
        .def_static("of_queue", &engine_of_queue, py::arg("library").none(false), py::arg("queue"),
                    py::arg("index") = 0, py::arg("device_memory") = false,
                    "In the context of a sycl::queue, given by its address.")
        .def_property_readonly(
            "sycl_identity",
            [](const Engine& e) {
                // SYCL objects are handles: their first word tells whether two are the same
                const auto implementation = [](std::uintptr_t object) {
                    return *reinterpret_cast<const std::uintptr_t*>(object);
                };
                return std::pair(implementation(device_of(e)), implementation(context_of(e)));
            },
            "The same for engines on one sycl::device in one sycl::context.")
        .def(
            "sycl_context_capsule",
            [](const Engine& e) { return py::capsule(reinterpret_cast<void*>(context_of(e)), "SyclContextRef"); },
            "What dpctl takes for a context.")
        .def(
            "reaches",
            [](const Engine& e, std::uintptr_t address) { return reaches(e, reinterpret_cast<const void*>(address)); },
            py::arg("address"), "Whether this is USM of the engine's SYCL context.")
        .def_property_readonly("library", [](const Engine& e) { return std::const_pointer_cast<Library>(e.lib); })
        .def_property_readonly("kind", [](const Engine& e) { return e.kind; })
        .def_property_readonly("index", [](const Engine& e) { return e.index; })
        .def_property_readonly("on_device", [](const Engine& e) { return e.on_device; })
        .def_property_readonly("sycl_device", &device_of)
        .def_property_readonly("sycl_context", &context_of)
        .def("__repr__", [](const Engine& e) {
            return std::string("Engine(") + engine_kind_name(e.kind) + ":" + std::to_string(e.index) + ", '" +
                   e.lib->path() + "')";
        });

    py::class_<Stream, std::shared_ptr<Stream>>(m, "Stream")
        .def(py::init([](std::shared_ptr<Engine> engine, unsigned flags) {
                 return std::make_shared<Stream>(std::move(engine), flags);
             }),
             py::arg("engine").none(false), py::arg("flags") = unsigned(dnnl_stream_default_flags))
        .def_static("from_sycl", &stream_from_sycl, py::arg("engine").none(false), py::arg("queue"))
        .def_property_readonly("engine", [](const Stream& s) { return std::const_pointer_cast<Engine>(s.engine); })
        .def_property_readonly("sycl_queue",
                               [](const Stream& s) {
                                   return sycl_address(*s.engine->lib, s.engine->api().sycl_interop_stream_get_queue,
                                                       "dnnl_sycl_interop_stream_get_queue", s.handle);
                               })
        .def("wait", [](const Stream& s) {
            const py::object keep = kept(s);
            const ReleaseGil release;
            s.wait();
        });
}

}  // namespace dgo
