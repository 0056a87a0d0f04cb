#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace dgo {
void bind_guard(py::module_& m);
void bind_enums(py::module_& m);
void bind_library(py::module_& m);
void bind_log_capture(py::module_& m);
void bind_allocator(py::module_& m);
void bind_engine(py::module_& m);
void bind_logical_tensor(py::module_& m);
void bind_op(py::module_& m);
void bind_tensor(py::module_& m);
void bind_partition(py::module_& m);
void bind_graph(py::module_& m);
void bind_threads(py::module_& m);
void bind_dlpack(py::module_& m);
void bind_lent(py::module_& m);
void bind_kernels(py::module_& m);
void bind_buffer(py::module_& m);
void bind_device_array(py::module_& m);
void bind_executor(py::module_& m);
void bind_call(py::module_& m);
}  // namespace dgo

PYBIND11_MODULE(_core, m) {
    m.doc() = "The oneDNN Graph C API, one to one, and what runs compiled plans.";
    dgo::bind_guard(m);
    dgo::bind_enums(m);
    dgo::bind_library(m);
    dgo::bind_log_capture(m);
    dgo::bind_allocator(m);
    dgo::bind_engine(m);
    dgo::bind_logical_tensor(m);
    dgo::bind_op(m);
    dgo::bind_tensor(m);
    dgo::bind_partition(m);
    dgo::bind_graph(m);
    dgo::bind_threads(m);
    dgo::bind_dlpack(m);
    dgo::bind_lent(m);
    dgo::bind_kernels(m);
    dgo::bind_buffer(m);
    dgo::bind_device_array(m);
    dgo::bind_executor(m);
    dgo::bind_call(m);
}
