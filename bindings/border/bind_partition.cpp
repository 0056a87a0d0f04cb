// Partitions and what they compile to, with the checks of the tensors that one is executed on.
#include <algorithm>
#include <optional>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "graph/op.hpp"
#include "graph/partition.hpp"
#include "graph/tensor.hpp"
#include "library/fork_guard.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

bool same_layout(const LogicalTensor& a, const LogicalTensor& b) {
    if (a.raw.data_type != b.raw.data_type || a.raw.layout_type != b.raw.layout_type || a.ndims() != b.ndims() ||
        !std::equal(a.raw.dims, a.raw.dims + std::max(a.ndims(), 0), b.raw.dims))
        return false;
    if (!a.is_strided()) return a.raw.layout.layout_id == b.raw.layout.layout_id;
    for (int i = 0; i < a.ndims(); ++i)
        if (a.raw.dims[i] > 1 && a.raw.layout.strides[i] != b.raw.layout.strides[i]) return false;
    return true;
}

using Tensors = std::vector<std::shared_ptr<Tensor>>;

// The library compares none of this; a wrong order would silently give wrong numbers.
std::vector<const_dnnl_graph_tensor_t> handles(const char* side, const Tensors& tensors,
                                               const std::vector<LogicalTensor>& compiled, const Engine& engine,
                                               bool written) {
    if (tensors.size() != compiled.size())
        fail(ErrorKind::invalid_argument, std::string("execute: got ") + std::to_string(tensors.size()) + " " + side +
                                              "s, the partition was compiled with " + std::to_string(compiled.size()));
    std::vector<const_dnnl_graph_tensor_t> out;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto where = std::string("execute: ") + side + " " + std::to_string(i);
        if (!tensors[i]) throw py::type_error(where + " is None");
        const Tensor& t = *tensors[i];
        if (t.engine.get() != &engine)
            fail(ErrorKind::invalid_argument, where + " is on another engine than the compiled partition");
        if (t.lt.id() != compiled[i].id() || !same_layout(t.lt, compiled[i]))
            fail(ErrorKind::invalid_argument, where + " is " + t.lt.str() + ", compiled was " + compiled[i].str());
        if (written && !t.writable) fail(ErrorKind::invalid_argument, where + " is read-only memory");
        out.push_back(t.handle);
    }
    return out;
}

void execute_tensors(const CompiledPartition& cp, const Stream& stream, const Tensors& inputs, const Tensors& outputs,
                     const std::shared_ptr<Tensor>& scratchpad) {
    fork_guard::enter();
    if (stream.engine != cp.engine)
        fail(ErrorKind::invalid_argument,
             "execute: the stream is on another engine than the one the partition was compiled for");
    const auto in = handles("input", inputs, cp.inputs, *cp.engine, false);
    const auto out = handles("output", outputs, cp.outputs, *cp.engine, true);
    const_dnnl_graph_tensor_t scratch = nullptr;
    if (scratchpad && cp.scratchpad_size() > 0)
        scratch = handles("scratchpad", {scratchpad}, {cp.scratchpad()}, *cp.engine, true).front();
    const py::object keep[] = {kept(cp), kept(stream)};
    const ReleaseGil release;
    cp.execute(stream.handle, in.data(), out.data(), scratch);
}

}  // namespace

void bind_partition(py::module_& m) {
    py::class_<CompiledPartition, std::shared_ptr<CompiledPartition>>(m, "CompiledPartition")
        .def_property_readonly("engine",
                               [](const CompiledPartition& cp) { return std::const_pointer_cast<Engine>(cp.engine); })
        .def_property_readonly("inputs", [](const CompiledPartition& cp) { return cp.inputs; })
        .def_property_readonly("outputs", [](const CompiledPartition& cp) { return cp.outputs; })
        .def("query", &CompiledPartition::query, py::arg("id"))
        .def_property_readonly("inplace_ports", &CompiledPartition::inplace_ports)
        .def_property_readonly("scratchpad_size", &CompiledPartition::scratchpad_size)
        .def_property_readonly("scratchpad",
                               [](const CompiledPartition& cp) -> std::optional<LogicalTensor> {
                                   if (cp.scratchpad_size() == 0) return std::nullopt;
                                   return cp.scratchpad();
                               })
        .def("execute", &execute_tensors, py::arg("stream"), py::arg("inputs"), py::arg("outputs"),
             py::arg("scratchpad") = std::shared_ptr<Tensor>());

    py::class_<Partition, std::shared_ptr<Partition>>(m, "Partition")
        .def_static(
            "create_with_op",
            [](const Op& op, int kind) { return Partition::create_with_op(op, engine_kind_from(kind)); }, py::arg("op"),
            py::arg("engine_kind"))
        .def_property_readonly("id", &Partition::id)
        .def_property_readonly("op_count", [](const Partition& p) { return p.op_ids().size(); })
        .def_property_readonly("op_ids", &Partition::op_ids)
        .def_property_readonly("is_supported", &Partition::is_supported)
        .def_property_readonly("engine_kind", &Partition::engine_kind)
        .def_property_readonly("input_ports", &Partition::input_ports)
        .def_property_readonly("output_ports", &Partition::output_ports)
        .def(
            "compile",
            [](const Partition& p, const std::vector<LogicalTensor>& inputs, const std::vector<LogicalTensor>& outputs,
               std::shared_ptr<Engine> engine, bool one_thread) {
                const py::object keep = kept(p);
                const ReleaseGil release;
                return p.compile(inputs, outputs, std::move(engine), one_thread);
            },
            py::arg("inputs"), py::arg("outputs"), py::arg("engine").none(false), py::arg("one_thread") = false);
}

}  // namespace dgo
