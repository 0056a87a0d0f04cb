// _core.kernels: own vector code as objects that a plan, or a test, can run.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../guard.hpp"
#include "factories.hpp"
#include "isa.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

void bind_minimal_filter(py::module_& m);

namespace {

char* address_of(const py::handle& operand) {
    if (py::isinstance<py::array>(operand)) {
        return static_cast<char*>(const_cast<void*>(py::reinterpret_borrow<py::array>(operand).data()));
    }
    return reinterpret_cast<char*>(operand.cast<uintptr_t>());
}

void run(const Kernel& kernel, const py::args& operands) {
    if (static_cast<int>(operands.size()) != kernel.arity) {
        fail(ErrorKind::invalid_argument, "kernel '" + kernel.name + "' takes " +
                                              std::to_string(kernel.arity) + " operands, got " +
                                              std::to_string(operands.size()));
    }
    std::vector<char*> addresses;
    for (const py::handle operand : operands) addresses.push_back(address_of(operand));
    py::gil_scoped_release release;
    kernel.run(addresses.data());
}

}  // namespace

void bind_kernels(py::module_& parent) {
    py::module_ m = parent.def_submodule("kernels", "Own vector code.");
    m.def("isa", [] { return vector_code().isa; }, "The instruction set in use: 'avx2' or 'avx512'.");

    py::class_<Kernel, std::shared_ptr<Kernel>>(m, "Kernel", "One step of a plan.")
        .def_readonly("arity", &Kernel::arity, "The number of operands of run().")
        .def_readonly("name", &Kernel::name)
        .def("run", run,
             "Runs on NumPy arrays or addresses, sources first and destination last. Extents, strides and "
             "data types are those given to the factory: the operands are not checked.");

    m.def("copy", make_copy, "shape"_a, "src_dtype"_a, "src_strides"_a, "dst_dtype"_a, "dst_strides"_a,
          "run(src, dst): dst = src, element by element, converted.");
    m.def("fill", make_fill, "shape"_a, "dtype"_a, "strides"_a, "value"_a, "run(dst): dst = value.");
    m.def("fill_channel", make_fill_channel, "shape"_a, "dtype"_a, "dst_strides"_a, "axis"_a, "bias_dtype"_a,
          "run(bias, dst): dst = bias of the element's index on `axis`.");
    m.def("copy_list", make_copy_list, "items"_a, "src_dtype"_a, "dst_dtype"_a, "zero_elements"_a = 0,
          "run(src, dst): dst[0:zero_elements] = 0, then every item (shape, src_offset, src_strides, "
          "dst_offset, dst_strides) as a copy.");
    bind_minimal_filter(m);
}

}  // namespace dgo
