#include "border/guard.hpp"

#include <cstring>
#include <new>

#include <oneapi/dnnl/dnnl_common.hpp>

namespace py = pybind11;

namespace dgo {
namespace {

struct StatusRow {
    dnnl_status_t status;
    const char* name;
    ErrorKind kind;
};

constexpr StatusRow kStatuses[] = {
    {dnnl_success, "success", ErrorKind::error},
    {dnnl_out_of_memory, "out_of_memory", ErrorKind::error},
    {dnnl_invalid_arguments, "invalid_arguments", ErrorKind::invalid_argument},
    {dnnl_unimplemented, "unimplemented", ErrorKind::unsupported},
    {dnnl_last_impl_reached, "last_impl_reached", ErrorKind::error},
    {dnnl_runtime_error, "runtime_error", ErrorKind::error},
    {dnnl_not_required, "not_required", ErrorKind::error},
    {dnnl_invalid_graph, "invalid_graph", ErrorKind::invalid_argument},
    {dnnl_invalid_graph_op, "invalid_graph_op", ErrorKind::invalid_argument},
    {dnnl_invalid_shape, "invalid_shape", ErrorKind::shape},
    {dnnl_invalid_data_type, "invalid_data_type", ErrorKind::invalid_argument},
};

const StatusRow* find(dnnl_status_t status) {
    for (const auto& row : kStatuses)
        if (row.status == status) return &row;
    return nullptr;
}

const char* class_name(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid_argument: return "InvalidArgumentError";
        case ErrorKind::shape: return "ShapeError";
        case ErrorKind::unsupported: return "UnsupportedError";
        case ErrorKind::runtime_unavailable: return "RuntimeUnavailableError";
        case ErrorKind::error: break;
    }
    return "Error";
}

}  // namespace

const char* status_name(dnnl_status_t status) {
    const StatusRow* row = find(status);
    return row ? row->name : "unknown status";
}

void throw_status(dnnl_status_t status, const char* what) {
    const StatusRow* row = find(status);
    throw NativeError(row ? row->kind : ErrorKind::error,
        std::string(what) + " failed: " + (row ? row->name : "status " + std::to_string(int(status))), int(status));
}

void rethrow(const char* what) {
    try {
        throw;
    } catch (const NativeError&) {
        throw;
    } catch (const py::error_already_set&) {
        throw;
    } catch (const py::builtin_exception&) {
        throw;
    } catch (const dnnl::error& e) {
        // The primitive descriptor that no kernel of this CPU implements comes this way.
        const StatusRow* row = find(e.status);
        const bool unsupported = e.status == dnnl_unimplemented;
        throw NativeError(unsupported ? ErrorKind::unsupported : ErrorKind::error,
            std::string(what) + " failed: " + (e.message ? e.message : "exception without a message") + " ("
                + (row ? row->name : "unknown status") + ")",
            int(e.status));
    } catch (const std::bad_alloc&) {
        throw NativeError(ErrorKind::error,
            std::string(what) + " failed: out of memory, or sizes that the library cannot allocate",
            int(dnnl_out_of_memory));
    } catch (const std::exception& e) {
        throw NativeError(ErrorKind::error, std::string(what) + " failed: " + e.what());
    } catch (...) {
        throw NativeError(ErrorKind::error, std::string(what) + " failed: unknown C++ exception");
    }
}

void bind_guard(py::module_& m) {
    (void)m;
    py::register_exception_translator([](std::exception_ptr p) {
        try {
            if (p) std::rethrow_exception(p);
        } catch (const NativeError& e) {
            // A message may quote text of the caller's that is not UTF-8.
            PyObject* text = PyUnicode_DecodeUTF8(e.what(), Py_ssize_t(std::strlen(e.what())), "backslashreplace");
            if (!text) return;
            auto message = py::reinterpret_steal<py::object>(text);
            const auto type = py::module_::import("dnnl_graph_ops.errors").attr(class_name(e.kind));
            PyErr_SetObject(type.ptr(), message.ptr());
        }
    });
}

}  // namespace dgo
