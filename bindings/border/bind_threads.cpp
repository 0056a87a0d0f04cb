// The threads of this process: those of OpenMP, and the one of a SYCL runtime; and what bounds the calls of a thread.
#include <omp.h>

#include <utility>

#include <pybind11/pybind11.h>

#include "common/gil.hpp"
#include "library/host_task.hpp"
#include "library/threads.hpp"
#include "plan/call_scope.hpp"

namespace py = pybind11;

// Exported: by this symbol threadpoolctl tells this file from other packages' files of the same name.
extern "C" PYBIND11_EXPORT const char dnnl_graph_ops_thread_pool;
const char dnnl_graph_ops_thread_pool = 1;

namespace dgo {

void bind_threads(py::module_& m) {
    m.def("get_num_threads", [] { return omp_get_max_threads(); });
    m.def("set_num_threads", [](int n) { omp_set_num_threads(n); }, py::arg("n"));
    m.def(
        "require_threads",
        [](int n) {
            const ReleaseGil release;
            threads::require(n);
        },
        py::arg("n"),
        "Error unless so many threads can be started in this process; numbers that could are remembered.");
    m.def(
        "set_call_threads", [](int n) { return std::exchange(call_scope::bounds().threads, n); }, py::arg("n"),
        "For calls of this thread; 0: the net's number, or the default. Returns the number before.");
    m.def(
        "call_threads", [] { return call_scope::bounds().threads; }, "What set_call_threads has set for this thread.");
    m.def(
        "set_call_deadline", [](double at) { return std::exchange(call_scope::bounds().deadline, at); }, py::arg("at"),
        "Calls of this thread end unfinished at this time of time.monotonic(); inf: never. Returns the time before.");
    m.def(
        "call_deadline", [] { return call_scope::bounds().deadline; },
        "What set_call_deadline has set for this thread.");
    m.def("check_deadline", &call_scope::check_deadline, py::arg("what"),
          "Raises Timeout if the deadline of this thread has passed; `what` begins the message.");
    m.def("follow_caller", &host_task::follow, py::arg("thread"),
          "Let this thread, SYCL's host-task thread, run on the CPU of whoever calls.");
    m.def("stop_following", &host_task::stop, "Let it run anywhere again.");
    m.def("following_thread", &host_task::following, "The thread that follows, 0 if none.");
}

}  // namespace dgo
