// Calls of the library: the one place where a status, or an exception that the library lets through, becomes an error.
#pragma once

#include <type_traits>
#include <utility>

#include "common/error.hpp"
#include "library/abi.hpp"
#include "library/fork_guard.hpp"

namespace dgo {

[[noreturn]] void throw_status(dnnl_status_t status, const char* what);
// Call inside a catch block: rethrows what was caught as NativeError, which it may be already.
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

// The value that a function writes through its last argument. DGO_READ(std::size_t, lib.api(), graph_op_get_id, op)
#define DGO_READ(type, api, function, ...)            \
    [&] {                                             \
        type out{};                                   \
        DGO_CALL(api, function, ##__VA_ARGS__, &out); \
        return out;                                   \
    }()

// Throws UnsupportedError naming the first release that has the function.
#define DGO_NEED(lib, function, since) (lib).need((lib).api().function, "dnnl_" #function, since)

}  // namespace dgo
