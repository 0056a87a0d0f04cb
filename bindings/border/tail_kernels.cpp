// _core.kernels.Tail: post-ops as own kernels take them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <tuple>

#include "kernels/factories.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

namespace {

using PyStep = std::tuple<std::string, int64_t, int64_t, int64_t, double, double>;
using PyOperand = std::tuple<std::string, int>;

std::vector<TailStepSpec> specs_of(const std::vector<PyStep>& steps) {
    std::vector<TailStepSpec> specs;
    for (const auto& [op, left, right, to, alpha, beta] : steps) specs.push_back({op, left, right, to, alpha, beta});
    return specs;
}

}  // namespace

void bind_tail_kernels(py::module_& m) {
    py::class_<Tail> tail(
        m, "Tail",
        "Post-ops: steps (op, left, right, to, alpha, beta) on registers, of which 0 is the value that is "
        "written, and operands, numbered from OPERANDS; operands are (spread, data type).");
    tail.attr("REGISTERS") = kTailRegisters;
    tail.attr("OPERANDS") = kTailOperands;
    tail.attr("REPEAT") = kTailRepeat;
    tail.def(py::init([](const std::vector<PyStep>& steps, const std::vector<PyOperand>& operands) {
                 std::vector<TailOperandSpec> specs;
                 for (const auto& [spread, dtype] : operands) specs.push_back({spread, dtype});
                 return Tail(specs_of(steps), specs);
             }),
             "steps"_a = std::vector<PyStep>{}, "operands"_a = std::vector<PyOperand>{})
        .def("__bool__", [](const Tail& tail) { return !tail.empty(); })
        .def_property_readonly("operands", &Tail::operands, "How many it adds to a kernel's operands.");
    m.def(
        "chain",
        [](const Dims& shape, const std::vector<PyStep>& steps, const std::vector<std::pair<int, Dims>>& operands,
           int dst_dtype,
           const Dims& dst_strides) { return make_chain(shape, specs_of(steps), operands, dst_dtype, dst_strides); },
        "shape"_a, "steps"_a, "operands"_a, "dst_dtype"_a, "dst_strides"_a,
        "run(operands..., dst): element-wise steps as of Tail, but no register is written at first and the last step "
        "alone writes register 0. Operands are (data type, strides), each f32, bf16 or f16; strides may be 0. dst may "
        "be "
        "an operand of the same strides and item size.");
    m.def("tail", make_tail, "tail"_a, "positions"_a, "channels"_a, "strides"_a,
          "run(operands..., dst): the post-ops on dst itself, f32, channels last; positions: the sizes of its axes "
          "without the channels, images first, and their strides.");
}

}  // namespace dgo
