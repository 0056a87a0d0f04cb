#include "border/gil.hpp"

#include <unistd.h>

#include "library/fork_guard.hpp"

namespace dgo {
namespace gil {
namespace {

// True from the end of the interpreter on.
bool finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

// Whether this thread holds the GIL; unlike PyGILState_Check, also right after the interpreter has ended.
bool held() {
    PyThreadState* const own = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX >= 0x030D0000
    return own && own == PyThreadState_GetUnchecked();
#else
    return own && own == _PyThreadState_UncheckedGet();
#endif
}

}  // namespace

void park() {
    for (;;) pause();
}

}  // namespace gil

// The forking thread has the GIL, so other threads in native code do not.
ReleaseGil::ReleaseGil(bool held) : state_(nullptr) {
    if (!held || gil::finalizing()) return;
    fork_guard::begin();
    state_ = PyEval_SaveThread();
}

ReleaseGil::~ReleaseGil() {
    if (!state_) return;
    fork_guard::end();
    if (gil::finalizing()) gil::park();
    // finalization may begin here
    gil::waiting([this] { PyEval_RestoreThread(static_cast<PyThreadState*>(state_)); });
}

ReleaseGilIfHeld::ReleaseGilIfHeld() : ReleaseGil(gil::held()) {}

TryAcquireGil::TryAcquireGil() : got_(gil::held()) {
    if (got_ || !Py_IsInitialized() || gil::finalizing()) return;
    gil::waiting([this] { state_ = PyGILState_Ensure(); });
    got_ = taken_ = true;
}

TryAcquireGil::~TryAcquireGil() {
    if (taken_) PyGILState_Release(static_cast<PyGILState_STATE>(state_));
}

AcquireGil::AcquireGil() {
    if (!*this) gil::park();
}

}  // namespace dgo
