// The OpenMP settings of the calling thread: shared by own kernels and an OpenMP build of the library.
#include <omp.h>
#include <pybind11/pybind11.h>

namespace dgo {

void bind_threads(pybind11::module_ &m) {
    m.def("get_num_threads", [] { return omp_get_max_threads(); });
    m.def("set_num_threads", [](int n) { omp_set_num_threads(n); }, pybind11::arg("n"));
}

} // namespace dgo
