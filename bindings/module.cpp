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
void bind_size(py::module_& m);
void bind_formula(py::module_& m);
void bind_buffer(py::module_& m);
void bind_device_array(py::module_& m);
void bind_executor(py::module_& m);
void bind_call(py::module_& m);
void bind_plan_store(py::module_& m);
void bind_protobuf(py::module_& m);
void bind_nearest(py::module_& m);
}  // namespace dgo

namespace {

// Whether this is the main interpreter; else an ImportError is set. Native threads and pybind11 take the GIL by
// PyGILState_Ensure, which waits for ever for the main interpreter's lock where another interpreter holds it.
bool in_main_interpreter() {
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
    PyErr_SetString(
        PyExc_ImportError,
        "dnnl_graph_ops works in Python's main interpreter alone, and this is a sub-interpreter; import it in the main "
        "interpreter or in a process of its own (mod_wsgi: WSGIApplicationGroup %{GLOBAL})");
    return false;
}

}  // namespace

// PyInit__core asks first, as pybind11 takes the GIL before the module's body runs. Since Python 3.13 the main
// interpreter calls it for all others, so the body asks again.
PYBIND11_MODULE(_core_of_main, m) {
    if (!in_main_interpreter()) throw py::error_already_set();
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
    dgo::bind_size(m);
    dgo::bind_formula(m);
    dgo::bind_buffer(m);
    dgo::bind_device_array(m);
    dgo::bind_executor(m);
    dgo::bind_call(m);
    dgo::bind_plan_store(m);
    dgo::bind_protobuf(m);
    dgo::bind_nearest(m);
}

extern "C" PYBIND11_EXPORT PyObject* PyInit__core() { return in_main_interpreter() ? PyInit__core_of_main() : nullptr; }
