// The errors of native code, which Python callers get as exceptions of dnnl_graph_ops.errors.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace dgo {

// Classes of dnnl_graph_ops.errors.
enum class ErrorKind { error, invalid_argument, shape, unsupported, runtime_unavailable, timeout };

// Thrown with or without the GIL.
class NativeError : public std::exception {
public:
    NativeError(ErrorKind kind, std::string message, int status = -1)
        : kind(kind), status(status), message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }

    const ErrorKind kind;
    const int status;  // a dnnl_status_t, or -1 when no status was involved

private:
    std::string message_;
};

[[noreturn]] inline void fail(ErrorKind kind, std::string message) { throw NativeError(kind, std::move(message)); }

}  // namespace dgo
