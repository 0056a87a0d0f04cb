#include "calls/give_back.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "common/gil.hpp"
#include "library/fork_guard.hpp"
#include "memory/arena.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

// Less is not worth the time that looking for free pages takes, and touching them anew.
constexpr std::size_t kMany = std::size_t{16} << 20;

std::size_t waiting = 0;  // bytes freed since the last time

void give_back() {
    if (!fork_guard::is_broken()) library_blocks().drop_idle();
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

int give_back_soon(void*) {
    const ReleaseGil release;
    give_back();
    return 0;
}

}  // namespace

void freed(std::size_t bytes) noexcept {
    waiting += bytes;
    if (waiting < kMany) return;
    // full when many calls are pending: another time
    if (Py_AddPendingCall(&give_back_soon, nullptr) == 0) waiting = 0;
}

void bind_give_back(py::module_& m) {
    m.def("freed", &freed, py::arg("bytes"));
    m.def("give_back", &give_back, py::call_guard<ReleaseGil>());
}

}  // namespace dgo
