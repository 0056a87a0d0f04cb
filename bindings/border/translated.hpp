// Entry points that CPython calls itself, where an exception must become Python's error.
#pragma once

#include "border/gil.hpp"

namespace dgo {

// Runs f, and turns an exception into a Python error and `failed`.
template <typename Result, typename F>
Result translated(Result failed, F&& f) noexcept {
    try {
        return f();
    } catch (pybind11::error_already_set& error) {
        error.restore();
#ifdef __GLIBCXX__
    } catch (::abi::__forced_unwind&) {
        gil::park();
#endif
    } catch (...) {
        pybind11::detail::try_translate_exceptions();
    }
    return failed;
}

// For method tables: a function of any of CPython's calling conventions.
template <typename F>
PyCFunction as_method(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace dgo
