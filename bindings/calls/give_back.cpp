#include "calls/give_back.hpp"

#include <chrono>
#include <ctime>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "common/gil.hpp"
#include "library/fork_guard.hpp"
#include "memory/arena.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

// Fewer bytes do not justify the time to search for free pages and to fault them in again.
constexpr std::size_t kMany = std::size_t{8} << 20;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Where free memory lies in millions of pieces it takes a tenth of a second: after so long a time the process has fifty
// times as long without.
constexpr double kLong = 0.01, kPause = 50;

std::size_t waiting = 0;  // bytes freed since the last time
Clock::time_point not_before;

// CPU time of the calling thread: other threads may use its CPU meanwhile.
double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void give_back() {
    if (!fork_guard::is_broken()) library_blocks().drop_idle();
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

int give_back_soon(void*) {
    const double start = cpu_seconds();
    {
        const ReleaseGil release;
        give_back();
    }
    const double taken = cpu_seconds() - start;
    if (taken > kLong) not_before = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(kPause * taken));
    return 0;
}

}  // namespace

void freed(std::size_t bytes) noexcept {
    waiting += bytes;
    if (waiting < kMany || Clock::now() < not_before) return;
    // full when many calls are pending: another time
    if (Py_AddPendingCall(&give_back_soon, nullptr) == 0) waiting = 0;
}

void bind_give_back(py::module_& m) {
    // what weak references with an attribute nbytes call when their objects go: no Python code runs in it
    m.def(
        "noting_freed",
        [](py::object also) {
            return py::cpp_function([also](const py::object& reference) {
                also(reference);
                freed(reference.attr("nbytes").cast<std::size_t>());
            });
        },
        py::arg("also"),
        "For weak references with an attribute `nbytes`: once many bytes went so, memory goes back to the system "
        "soon.\n\nCalls `also` first, and no Python code besides.");
    m.def("give_back", &give_back, py::call_guard<ReleaseGil>(), "Free memory goes back to the system now.");
}

}  // namespace dgo
