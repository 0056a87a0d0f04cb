// The threads of this process: those of OpenMP, and the one of a SYCL runtime.
#include <omp.h>

#include <pybind11/pybind11.h>

#include "common/gil.hpp"
#include "library/host_task.hpp"
#include "library/threads.hpp"

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
    m.def("follow_caller", &host_task::follow, py::arg("thread"),
          "Let this thread, SYCL's host-task thread, run on the CPU of whoever calls.");
    m.def("stop_following", &host_task::stop, "Let it run anywhere again.");
    m.def("following_thread", &host_task::following, "The thread that follows, 0 if none.");
}

}  // namespace dgo
