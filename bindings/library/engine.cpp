#include "library/engine.hpp"

#include <cstdint>

#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "library/allocator.hpp"
#include "library/fork_guard.hpp"
#include "library/sycl_objects.hpp"

namespace py = pybind11;

namespace dgo {

const char* engine_kind_name(dnnl_engine_kind_t kind) {
    switch (kind) {
        case dnnl_cpu: return "cpu";
        case dnnl_gpu: return "gpu";
        default: return "any";
    }
}

dnnl_engine_kind_t engine_kind_from(int kind) {
    if (kind != dnnl_cpu && kind != dnnl_gpu)
        fail(ErrorKind::invalid_argument,
            "engine kind " + std::to_string(kind) + " is unknown: use EngineKind.cpu (1) or EngineKind.gpu (2)");
    return dnnl_engine_kind_t(kind);
}

Engine::Engine(std::shared_ptr<const Library> lib, dnnl_engine_kind_t kind, std::size_t index,
    std::shared_ptr<const Allocator> allocator, bool device_memory)
    : lib(std::move(lib)), kind(kind), index(index), on_device(device_memory || kind == dnnl_gpu),
      allocator_(std::move(allocator)) {
    const fork_guard::Busy busy;
    if (allocator_ && allocator_->lib != this->lib)
        fail(ErrorKind::invalid_argument,
            "Engine: the allocator belongs to '" + allocator_->lib->path() + "', the engine to '" + this->lib->path()
                + "'; make the allocator with the engine's library");
    const std::size_t count = this->lib->engine_count(kind);
    if (index >= count) {
        const bool gpu = kind == dnnl_gpu;
        const unsigned runtime = gpu ? this->lib->gpu_runtime() : this->lib->cpu_runtime();
        fail(ErrorKind::runtime_unavailable,
            std::string("engine ") + engine_kind_name(kind) + ":" + std::to_string(index) + " does not exist: '"
                + this->lib->path() + "' (" + engine_kind_name(kind) + " runtime " + runtime_name(runtime)
                + ") sees " + std::to_string(count) + " of this kind"
                + (gpu ? "; install the extra 'sycl' and the GPU's driver"
                       : "; a SYCL build needs an OpenCL CPU runtime (OCL_ICD_FILENAMES)"));
    }
    const bool host = kind == dnnl_cpu && !on_device && this->lib->cpu_runtime() != kRuntimeSycl;
    if (!allocator_ && host) allocator_ = default_allocator(this->lib);
    if (allocator_)
        DGO_CALL(api(), graph_make_engine_with_allocator, &handle, kind, index, allocator_->handle);
    else
        DGO_CALL(api(), engine_create, &handle, kind, index);
    if (on_device) blocks_ = std::make_unique<BlockPool>(this);
}

Engine::Engine(std::shared_ptr<const Library> lib, dnnl_engine_t handle, dnnl_engine_kind_t kind, std::size_t index,
    bool device_memory)
    : lib(std::move(lib)), kind(kind), index(index), on_device(device_memory || kind == dnnl_gpu), handle(handle) {
    if (on_device) blocks_ = std::make_unique<BlockPool>(this);
}

Engine::~Engine() {
    const ReleaseGilIfHeld release;
    blocks_.reset();
    fork_guard::destroy(lib->api().engine_destroy, handle);
}

std::string Engine::str() const {
    return std::string("engine ") + engine_kind_name(kind) + ":" + std::to_string(index) + " of '" + lib->path() + "'";
}

Stream::Stream(std::shared_ptr<const Engine> engine, unsigned flags) : engine(std::move(engine)) {
    DGO_CALL(this->engine->api(), stream_create, &handle, this->engine->handle, flags);
}

Stream::Stream(std::shared_ptr<const Engine> engine, dnnl_stream_t handle)
    : engine(std::move(engine)), handle(handle) {}

Stream::~Stream() {
    const ReleaseGilIfHeld release;
    fork_guard::destroy(engine->api().stream_destroy, handle);
}

void Stream::wait() const { DGO_CALL(engine->api(), stream_wait, handle); }

namespace {

std::shared_ptr<Stream> stream_from_sycl(std::shared_ptr<Engine> engine, std::uintptr_t queue) {
    const Api& api = engine->api();
    engine->lib->need(api.sycl_interop_stream_create, "dnnl_sycl_interop_stream_create", "with the SYCL runtime");
    if (!queue) fail(ErrorKind::invalid_argument, "Stream.from_sycl: queue must be the address of a SYCL queue");
    dnnl_stream_t handle = nullptr;
    DGO_CALL(api, sycl_interop_stream_create, &handle, engine->handle, reinterpret_cast<void*>(queue));
    return std::make_shared<Stream>(std::move(engine), handle);
}

// Address of a SYCL object behind an engine or a stream.
template <typename F, typename H>
std::uintptr_t sycl_address(const Library& lib, F function, const char* name, H handle) {
    lib.need(function, name, "with the SYCL runtime");
    void* out = nullptr;
    guarded(name, [&] { return function(handle, &out); });
    return reinterpret_cast<std::uintptr_t>(out);
}

}  // namespace

void bind_engine(py::module_& m) {
    py::class_<Engine, std::shared_ptr<Engine>>(m, "Engine")
        .def(py::init([](std::shared_ptr<Library> lib, int kind, std::size_t index,
                          std::shared_ptr<Allocator> allocator, bool device_memory) {
            const auto native = engine_kind_from(kind);
            const ReleaseGil release;
            return std::make_shared<Engine>(std::move(lib), native, index, std::move(allocator), device_memory);
        }),
            py::arg("library").none(false), py::arg("kind"), py::arg("index") = 0,
            py::arg("allocator") = std::shared_ptr<Allocator>(), py::arg("device_memory") = false)
        .def_static("from_sycl", &engine_from_sycl, py::arg("library").none(false), py::arg("device"),
            py::arg("context"), py::arg("index") = 0, py::arg("device_memory") = false)
        .def_static("of_queue", &engine_of_queue, py::arg("library").none(false), py::arg("queue"),
            py::arg("index") = 0, py::arg("device_memory") = false)
        .def_property_readonly("sycl_identity",
            [](const Engine& e) {
                // SYCL objects are handles: their first word tells whether two are the same
                const auto implementation = [&](auto function, const char* name) {
                    return *reinterpret_cast<const std::uintptr_t*>(sycl_address(*e.lib, function, name, e.handle));
                };
                return std::pair(
                    implementation(e.api().sycl_interop_engine_get_device, "dnnl_sycl_interop_engine_get_device"),
                    implementation(e.api().sycl_interop_engine_get_context, "dnnl_sycl_interop_engine_get_context"));
            })
        .def("sycl_context_capsule",
            [](const Engine& e) {
                return py::capsule(reinterpret_cast<void*>(sycl_address(*e.lib, e.api().sycl_interop_engine_get_context,
                                       "dnnl_sycl_interop_engine_get_context", e.handle)),
                    "SyclContextRef");
            })
        .def("reaches",
            [](const Engine& e, std::uintptr_t address) { return reaches(e, reinterpret_cast<const void*>(address)); },
            py::arg("address"))
        .def_property_readonly(
            "library", [](const Engine& e) { return std::const_pointer_cast<Library>(e.lib); })
        .def_property_readonly("kind", [](const Engine& e) { return e.kind; })
        .def_property_readonly("index", [](const Engine& e) { return e.index; })
        .def_property_readonly("on_device", [](const Engine& e) { return e.on_device; })
        .def_property_readonly("sycl_device",
            [](const Engine& e) {
                return sycl_address(*e.lib, e.api().sycl_interop_engine_get_device,
                    "dnnl_sycl_interop_engine_get_device", e.handle);
            })
        .def_property_readonly("sycl_context",
            [](const Engine& e) {
                return sycl_address(*e.lib, e.api().sycl_interop_engine_get_context,
                    "dnnl_sycl_interop_engine_get_context", e.handle);
            })
        .def("__repr__", [](const Engine& e) {
            return std::string("Engine(") + engine_kind_name(e.kind) + ":" + std::to_string(e.index) + ", '"
                + e.lib->path() + "')";
        });

    py::class_<Stream, std::shared_ptr<Stream>>(m, "Stream")
        .def(py::init([](std::shared_ptr<Engine> engine, unsigned flags) {
            return std::make_shared<Stream>(std::move(engine), flags);
        }),
            py::arg("engine").none(false), py::arg("flags") = unsigned(dnnl_stream_default_flags))
        .def_static("from_sycl", &stream_from_sycl, py::arg("engine").none(false), py::arg("queue"))
        .def_property_readonly(
            "engine", [](const Stream& s) { return std::const_pointer_cast<Engine>(s.engine); })
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
