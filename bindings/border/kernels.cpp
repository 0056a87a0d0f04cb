// _core.kernels: own vector code as objects that a plan, or a test, can run, and what kernels declare.
#include <omp.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "border/declared.hpp"
#include "border/gil.hpp"
#include "common/error.hpp"
#include "kernels/filtering/filter_product.hpp"
#include "library/fork_guard.hpp"
#include "library/threads.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

char* address_of(const py::handle& operand) {
    if (py::isinstance<py::array>(operand)) {
        return static_cast<char*>(const_cast<void*>(py::reinterpret_borrow<py::array>(operand).data()));
    }
    return reinterpret_cast<char*>(operand.cast<uintptr_t>());
}

void run(const Kernel& kernel, const py::args& operands) {
    fork_guard::enter();
    if (static_cast<int>(operands.size()) != kernel.arity) {
        fail(ErrorKind::invalid_argument, "kernel '" + kernel.name + "' takes " + std::to_string(kernel.arity) +
                                              " operands, got " + std::to_string(operands.size()));
    }
    std::vector<char*> addresses;
    for (const py::handle operand : operands) addresses.push_back(address_of(operand));
    const py::object self = kept(kernel);
    const ReleaseGil release;
    threads::require(omp_get_max_threads());
    kernel.run(addresses.data());
}

}  // namespace

void bind_kernels(py::module_& parent) {
    py::module_ m =
        parent.def_submodule("kernels", "Own vector code. dtypes are DataType values, strides count elements.");
    py::class_<Kernel, std::shared_ptr<Kernel>>(m, "Kernel", "One step of a plan.")
        .def_readonly("arity", &Kernel::arity, "The number of operands of run().")
        .def_readonly("name", &Kernel::name)
        .def_readonly("by", &Kernel::by, "What computes, as 'dot_bf16_avx512bf16_8x32', or ''.")
        .def("run", run,
             "Runs on NumPy arrays or addresses, sources first and destination last. Extents, strides and "
             "data types are those given to the factory: the operands are not checked.");
    py::class_<ScratchKernel, Kernel, std::shared_ptr<ScratchKernel>>(
        m, "ScratchKernel", "A kernel that takes scratch memory as the operand before its destination.")
        .def_readonly("scratch_bytes", &ScratchKernel::scratch_bytes, "Bytes of scratch; align it to 64.")
        .def_readonly("over_operands", &ScratchKernel::over_operands,
                      "Whether an operand of post-ops that lies as the destination does may be where that is.")
        .def_readonly("products", &ScratchKernel::products, "Multiplications of one run.");
    bind_declared(m);
}

}  // namespace dgo
