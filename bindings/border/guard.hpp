// The one place where a status or a C++ exception of the library becomes an error of the package.
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <pybind11/pybind11.h>

#include "library/abi.hpp"
#include "library/fork_guard.hpp"

namespace dgo {

// Classes of dnnl_graph_ops.errors.
enum class ErrorKind { error, invalid_argument, shape, unsupported, runtime_unavailable };

// Thrown with or without the GIL; a translator registered by bind_guard makes it a Python exception.
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

const char* status_name(dnnl_status_t status);
[[noreturn]] void throw_status(dnnl_status_t status, const char* what);
// Call inside a catch block: rethrows what was caught as NativeError (NativeError and Python errors unchanged).
[[noreturn]] void rethrow(const char* what);

inline void check(dnnl_status_t status, const char* what) {
    if (status != dnnl_success) throw_status(status, what);
}

// Runs a library call; `what` is the C function's name. The library's C functions may throw.
template <typename F>
auto guarded(const char* what, F&& f) {
    using Result = std::invoke_result_t<F>;
    try {
        if constexpr (std::is_same_v<Result, dnnl_status_t>)
            check(std::forward<F>(f)(), what);
        else
            return std::forward<F>(f)();
    } catch (...) {
        rethrow(what);
    }
}

// Also refuses where a thread that is missing may hold the library's locks. DGO_CALL(lib.api(), graph_op_create, &op, id, kind, name)
#define DGO_CALL(api, function, ...) \
    (::dgo::fork_guard::check(), ::dgo::guarded("dnnl_" #function, [&] { return (api).function(__VA_ARGS__); }))

}  // namespace dgo
