// A loaded library and its log.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "border/instance.hpp"
#include "library/engine.hpp"
#include "library/library.hpp"
#include "library/log_capture.hpp"

namespace py = pybind11;

namespace dgo {

void bind_library(py::module_& m) {
    py::class_<Library, std::shared_ptr<Library>>(
        m, "Library",
        "A libdnnl, opened by path after the libraries in `preload`; stays loaded until the process ends.\n\nRaises "
        "RuntimeUnavailableError when it is missing, older than 3.2 or built without the Graph API.")
        .def(py::init([](const std::string& path, const std::vector<std::string>& preload) {
                 const ReleaseGil release;
                 return std::make_shared<Library>(path, preload);
             }),
             py::arg("path"), py::arg("preload") = std::vector<std::string>{})
        .def_property_readonly("path", on_object(&Library::path))
        .def_property_readonly("version",
                               [](const Library& lib) {
                                   const auto& v = lib.version();
                                   return py::make_tuple(v.major, v.minor, v.patch);
                               })
        .def_property_readonly("hash", on_object(&Library::hash))
        .def_property_readonly(
            "cpu_runtime", [](const Library& lib) { return runtime_name(lib.cpu_runtime()); },
            "none, sequential, omp, tbb, threadpool or sycl.")
        .def_property_readonly(
            "gpu_runtime", [](const Library& lib) { return runtime_name(lib.gpu_runtime()); }, "none, ocl, sycl or ze.")
        .def(
            "functions",
            [](const Library& lib) {
                py::dict out;
                for (const auto& [name, present] : lib.functions()) out[py::str(name)] = present;
                return out;
            },
            "Every C function this extension knows, and whether the library has it.")
        .def(
            "has", [](const Library& lib, const std::string& symbol) { return lib.has(symbol.c_str()); },
            py::arg("symbol"))
        .def(
            "engine_count",
            [](const Library& lib, int kind) {
                const auto native = engine_kind_from(kind);
                const py::object keep = kept(lib);
                const ReleaseGil release;
                return lib.engine_count(native);
            },
            py::arg("kind"))
        .def_property_readonly(
            "verbose", on_object(&Library::verbose),
            "The level set last, 0 to 2; before that the one that ONEDNN_VERBOSE or DNNL_VERBOSE includes.")
        .def("set_verbose", &Library::set_verbose, py::arg("level"))
        .def("effective_cpu_isa", on_object(&Library::effective_cpu_isa), "A dnnl_cpu_isa_t.")
        .def(
            "set_max_cpu_isa",
            [](const Library& lib, int isa) { DGO_CALL(lib.api(), set_max_cpu_isa, dnnl_cpu_isa_t(isa)); },
            py::arg("isa"), "Before the library has looked at the CPU.")
        .def("get_cpu_isa_hints",
             [](const Library& lib) { return int(guarded("dnnl_get_cpu_isa_hints", lib.api().get_cpu_isa_hints)); })
        .def(
            "set_cpu_isa_hints",
            [](const Library& lib, int hints) { DGO_CALL(lib.api(), set_cpu_isa_hints, dnnl_cpu_isa_hints_t(hints)); },
            py::arg("hints"))
        .def("get_default_fpmath_mode",
             [](const Library& lib) { return DGO_READ(dnnl_fpmath_mode_t, lib.api(), get_default_fpmath_mode); })
        .def(
            "set_default_fpmath_mode",
            [](const Library& lib, int mode) {
                DGO_CALL(lib.api(), set_default_fpmath_mode, dnnl_fpmath_mode_t(mode));
            },
            py::arg("mode"))
        .def(
            "set_jit_dump", [](const Library& lib, bool enable) { DGO_CALL(lib.api(), set_jit_dump, int(enable)); },
            py::arg("enable"))
        .def(
            "set_jit_profiling_flags",
            [](const Library& lib, unsigned flags) { DGO_CALL(lib.api(), set_jit_profiling_flags, flags); },
            py::arg("flags"))
        .def(
            "set_jit_profiling_jitdumpdir",
            [](const Library& lib, const std::string& folder) {
                DGO_CALL(lib.api(), set_jit_profiling_jitdumpdir, folder.c_str());
            },
            py::arg("folder"))
        .def("get_compiled_partition_cache_capacity",
             [](const Library& lib) { return DGO_READ(int, lib.api(), graph_get_compiled_partition_cache_capacity); })
        .def(
            "set_compiled_partition_cache_capacity",
            [](const Library& lib, int capacity) {
                DGO_CALL(lib.api(), graph_set_compiled_partition_cache_capacity, capacity);
            },
            py::arg("capacity"))
        .def("get_constant_tensor_cache",
             [](const Library& lib) { return DGO_READ(int, lib.api(), graph_get_constant_tensor_cache) != 0; })
        .def(
            "set_constant_tensor_cache",
            [](const Library& lib, bool flag) { DGO_CALL(lib.api(), graph_set_constant_tensor_cache, int(flag)); },
            py::arg("flag"))
        .def(
            "get_constant_tensor_cache_capacity",
            [](const Library& lib, int kind) {
                const auto native = engine_kind_from(kind);
                DGO_NEED(lib, graph_get_constant_tensor_cache_capacity, "3.4");
                return DGO_READ(std::size_t, lib.api(), graph_get_constant_tensor_cache_capacity, native);
            },
            py::arg("kind"), "Megabytes; oneDNN 3.4 and later.")
        .def(
            "set_constant_tensor_cache_capacity",
            [](const Library& lib, int kind, std::size_t megabytes) {
                const auto native = engine_kind_from(kind);
                DGO_NEED(lib, graph_set_constant_tensor_cache_capacity, "3.4");
                DGO_CALL(lib.api(), graph_set_constant_tensor_cache_capacity, native, megabytes);
            },
            py::arg("kind"), py::arg("megabytes"), "Drops what is cached; oneDNN 3.4 and later.")
        .def(
            "drop_caches",
            [](const Library& lib) {
                const py::object keep = kept(lib);
                const ReleaseGil release;
                lib.drop_caches();
            },
            "Empties its caches of primitives, compiled partitions and constants; their capacities stay.")
        .def(
            "set_dump_mode",
            [](const Library& lib, int mode) {
                DGO_NEED(lib, graph_set_dump_mode, "3.11");
                DGO_CALL(lib.api(), graph_set_dump_mode, mode);
            },
            py::arg("mode"), "A mask of DumpMode; oneDNN 3.11 and later.")
        .def("__repr__", [](const Library& lib) {
            return "Library('" + lib.path() + "', " + lib.version().str() + ", cpu " + runtime_name(lib.cpu_runtime()) +
                   ", gpu " + runtime_name(lib.gpu_runtime()) + ")";
        });
}

void bind_log_capture(py::module_& m) {
    py::class_<LogCapture>(
        m, "LogCapture",
        "Keeps the lines that oneDNN prints through C's stdout, from now until stop(); needs glibc.\n\n`pass_on`: they "
        "are printed as well. Raises UnsupportedError with another C library.")
        .def(py::init<bool>(), py::arg("pass_on") = false)
        .def(
            "stop",
            [](LogCapture& self) {
                self.stop();
                py::list lines;
                for (const auto& [thread, text] : self.lines) {
                    PyObject* const decoded =
                        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
                    if (!decoded) throw py::error_already_set();
                    lines.append(py::make_tuple(thread, py::reinterpret_steal<py::str>(decoded)));
                }
                return lines;
            },
            "The lines, each with the native id of the thread that printed it.");
}

}  // namespace dgo
