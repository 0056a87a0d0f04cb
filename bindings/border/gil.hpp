// The one way to let go of the GIL and to take it, which also holds while the interpreter ends.
//
// A daemon thread may be inside a call when the interpreter is finalized. CPython up to 3.13 ends such a thread where it
// asks for the GIL, by pthread_exit, whose unwinding runs destructors without the GIL and ends the process at the first
// one that is noexcept. Here the thread is parked for ever instead, as CPython does from 3.14 on.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

#include <pybind11/pybind11.h>

namespace dgo {

namespace gil {

[[noreturn]] inline void park() {
    for (;;) pause();
}

// Stays true when the interpreter is gone.
inline bool finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

// Whether this thread holds it; unlike PyGILState_Check, also right when the interpreter is gone.
inline bool held() {
    PyThreadState* const own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
    return own && own == PyThreadState_GetUnchecked();
#else
    return own && own == _PyThreadState_UncheckedGet();
#endif
}

// Calls what may wait for the GIL, as any Python code does now and then. `f` must own nothing: its destructors would run
// before the thread is parked.
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

inline void retake(PyThreadState* state) {
    if (finalizing()) park();
    waiting([&] { PyEval_RestoreThread(state); });  // finalization may begin here
}

}  // namespace gil

// A reference of its own to the Python object around a native one: its caller's frame may lose it while others hold the
// GIL.
template <typename T>
pybind11::object kept(const T& object) {
    return pybind11::cast(&object, pybind11::return_value_policy::reference);
}

// For code that holds the GIL. The thread that finalizes keeps it: no other may have it any more.
class ReleaseGil {
public:
    ReleaseGil() : ReleaseGil(true) {}
    ~ReleaseGil() {
        if (state_) gil::retake(state_);
    }
    ReleaseGil(const ReleaseGil&) = delete;
    ReleaseGil& operator=(const ReleaseGil&) = delete;

protected:
    explicit ReleaseGil(bool held) : state_(held && !gil::finalizing() ? PyEval_SaveThread() : nullptr) {}

private:
    PyThreadState* state_;
};

// For code that runs with or without it (destructors).
class ReleaseGilIfHeld : public ReleaseGil {
public:
    ReleaseGilIfHeld() : ReleaseGil(gil::held()) {}
};

// For code of any thread that can do without it: true if the thread has the GIL now, false if nobody can have it.
class TryAcquireGil {
public:
    TryAcquireGil() : got_(gil::held()) {
        if (got_ || !Py_IsInitialized() || gil::finalizing()) return;
        gil::waiting([&] { state_ = PyGILState_Ensure(); });
        got_ = taken_ = true;
    }
    ~TryAcquireGil() {
        if (taken_) PyGILState_Release(state_);
    }
    TryAcquireGil(const TryAcquireGil&) = delete;
    TryAcquireGil& operator=(const TryAcquireGil&) = delete;

    explicit operator bool() const { return got_; }

private:
    bool got_, taken_ = false;
    PyGILState_STATE state_{};
};

// For code that cannot go on without it (callbacks).
class AcquireGil : public TryAcquireGil {
public:
    AcquireGil() {
        if (!*this) gil::park();
    }
};

}  // namespace dgo
