// Waiting for the GIL while the interpreter may end, and references that outlast it.
//
// A daemon thread may be inside a call when the interpreter is finalized. CPython up to 3.13 ends such a thread where it
// asks for the GIL, by pthread_exit, whose unwinding runs destructors without the GIL and ends the process at the first
// one that is noexcept. Here the thread is parked for ever instead, as CPython does from 3.14 on.
#pragma once

#include <cxxabi.h>

#include <pybind11/pybind11.h>

#include "common/gil.hpp"

namespace dgo {

namespace gil {

[[noreturn]] void park();

// Calls `f`, which may wait for the GIL, as any Python code may. `f` must own nothing: its destructors would run before
// the thread is parked.
template <typename F>
auto waiting(F&& f) -> decltype(f()) {
#ifdef __GLIBCXX__
    try {
        return f();
    } catch (::abi::__forced_unwind&) {
        park();
    }
#else
    return f();
#endif
}

// Drops a reference. What it was the last one to may wait for the GIL at its end, as Python's mappings of memory do, and
// destructors, which are noexcept, are no place for that.
inline void drop(pybind11::object& object) {
    PyObject* const raw = object.release().ptr();
    waiting([raw] { Py_XDECREF(raw); });
}

}  // namespace gil

// A reference to the Python object around a native one: the caller's frame may drop its reference while other threads
// hold the GIL.
template <typename T>
pybind11::object kept(const T& object) {
    return pybind11::cast(&object, pybind11::return_value_policy::reference);
}

}  // namespace dgo
