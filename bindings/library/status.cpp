#include "library/status.hpp"

#include <new>
#include <string>

#include <oneapi/dnnl/dnnl_common.hpp>

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

}  // namespace

void throw_status(dnnl_status_t status, const char* what) {
    const StatusRow* row = find(status);
    throw NativeError(row ? row->kind : ErrorKind::error,
                      std::string(what) + " failed: " + (row ? row->name : "status " + std::to_string(int(status))),
                      int(status));
}

void rethrow(const char* what) {
    try {
        throw;
    } catch (const NativeError&) {
        throw;
    } catch (const dnnl::error& e) {
        // The primitive descriptor that no kernel of this CPU implements comes this way.
        const StatusRow* row = find(e.status);
        const bool unsupported = e.status == dnnl_unimplemented;
        throw NativeError(unsupported ? ErrorKind::unsupported : ErrorKind::error,
                          std::string(what) + " failed: " + (e.message ? e.message : "exception without a message") +
                              " (" + (row ? row->name : "unknown status") + ")",
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

}  // namespace dgo
