// Native errors become Python exceptions.
#include <cstring>
#include <exception>

#include <pybind11/pybind11.h>

#include "common/error.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

const char* class_name(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid_argument: return "InvalidArgumentError";
        case ErrorKind::shape: return "ShapeError";
        case ErrorKind::unsupported: return "UnsupportedError";
        case ErrorKind::runtime_unavailable: return "RuntimeUnavailableError";
        case ErrorKind::timeout: return "Timeout";
        case ErrorKind::error: break;
    }
    return "Error";
}

}  // namespace

void bind_guard(py::module_&) {
    py::register_exception_translator([](std::exception_ptr p) {
        try {
            if (p) std::rethrow_exception(p);
        } catch (const NativeError& e) {
            // A message may quote the caller's text, which may not be UTF-8.
            PyObject* text = PyUnicode_DecodeUTF8(e.what(), Py_ssize_t(std::strlen(e.what())), "backslashreplace");
            if (!text) return;
            auto message = py::reinterpret_steal<py::object>(text);
            const auto type = py::module_::import("dnnl_graph_ops.errors").attr(class_name(e.kind));
            PyErr_SetObject(type.ptr(), message.ptr());
        }
    });
}

}  // namespace dgo
