// Logical tensors, ops and graphs.
#include <cstdint>
#include <optional>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "border/instance.hpp"
#include "graph/graph.hpp"
#include "graph/logical_tensor.hpp"
#include "graph/op.hpp"
#include "library/fork_guard.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

using OptionalDims = std::optional<std::vector<std::optional<std::int64_t>>>;

std::optional<std::vector<std::int64_t>> known(const OptionalDims& dims) {
    if (!dims) return std::nullopt;
    std::vector<std::int64_t> out;
    for (const auto& dim : *dims) {
        // The library's value for "unknown" must not come from a caller.
        if (dim && *dim < 0)
            fail(ErrorKind::shape,
                 "dims and strides cannot be negative, got " + std::to_string(*dim) + "; write None for unknown");
        out.push_back(dim.value_or(kUnknownDim));
    }
    return out;
}

py::object tuple(const std::int64_t* values, int count) {
    if (count < 0) return py::none();
    py::tuple out(count);
    for (int i = 0; i < count; ++i) out[i] = values[i] == kUnknownDim ? py::object(py::none()) : py::int_(values[i]);
    return out;
}

void set_attr(Op& op, int code, const std::string& type, const py::object& value) {
    const auto where = op.str() + ": attribute " + std::to_string(code);
    const char* expected = attr_type(code);
    if (!expected) fail(ErrorKind::invalid_argument, where + " is unknown; see OpAttr");
    if (type != expected) fail(ErrorKind::invalid_argument, where + " has type " + expected + ", not " + type);
    const auto nonempty = [&](auto values) {
        if (values.empty())
            fail(ErrorKind::invalid_argument, where + " (" + type + ") is empty; give a value per axis");
        return values;
    };
    // A Python value of another type is a py::cast_error, which pybind11 would report as RuntimeError.
    try {
        if (type == "f32") return op.set_f32(code, {value.cast<float>()});
        if (type == "f32[]") return op.set_f32(code, nonempty(value.cast<std::vector<float>>()));
        if (type == "s64") return op.set_s64(code, {value.cast<std::int64_t>()});
        if (type == "s64[]") return op.set_s64(code, nonempty(value.cast<std::vector<std::int64_t>>()));
        if (type == "bool") return op.set_bool(code, value.cast<bool>());
        const auto text = value.cast<std::string>();
        if (text.empty()) fail(ErrorKind::invalid_argument, where + " (string) is empty");
        op.set_string(code, text);
    } catch (const py::cast_error&) {
        throw py::type_error(where + " wants a value of type " + type + ", got " + std::string(py::repr(value)));
    }
}

// Waiting for another thread's filter must not hold the GIL.
template <typename Result, typename... Args>
auto released(Result (Graph::*method)(Args...)) {
    return [method](Graph& graph, Args... args) -> Result {
        const py::object keep = kept(graph);
        const ReleaseGil release;
        const fork_guard::Busy busy;
        return (graph.*method)(args...);
    };
}

template <typename Result>
auto released(Result (Graph::*method)() const) {
    return [method](const Graph& graph) -> Result {
        const py::object keep = kept(graph);
        const ReleaseGil release;
        const fork_guard::Busy busy;
        return (graph.*method)();
    };
}

void add_op(Graph& graph, const Op& op) {
    const py::object keep[] = {kept(graph), kept(op)};
    const ReleaseGil release;
    const fork_guard::Busy busy;
    graph.add_op(op);
}

}  // namespace

void bind_logical_tensor(py::module_& m) {
    py::class_<LogicalTensor>(
        m, "LogicalTensor",
        "Description of a tensor. `dims=None`: unknown rank; None among dims or strides: unknown value.\n\nStrided "
        "tensors of known dims get dense row-major strides where none are given.")
        .def(py::init([](std::size_t id, int dtype, const OptionalDims& dims, const OptionalDims& strides, int layout,
                         int property, std::optional<std::size_t> layout_id) {
                 return LogicalTensor(id, dtype, known(dims), known(strides), layout, property, layout_id);
             }),
             py::arg("id"), py::arg("dtype"), py::arg("dims") = py::none(), py::arg("strides") = py::none(),
             py::arg("layout") = int(dnnl_graph_layout_type_strided),
             py::arg("property") = int(dnnl_graph_tensor_property_undef), py::arg("layout_id") = py::none(),
             "layout_id: of LayoutType.opaque, as a compiled partition tells it.")
        .def_property_readonly("id", on_object(&LogicalTensor::id))
        .def_property_readonly("dtype", [](const LogicalTensor& lt) { return lt.raw.data_type; })
        .def_property_readonly("dims", [](const LogicalTensor& lt) { return tuple(lt.raw.dims, lt.raw.ndims); })
        .def_property_readonly("strides",
                               [](const LogicalTensor& lt) {
                                   return lt.is_strided() ? tuple(lt.raw.layout.strides, lt.raw.ndims)
                                                          : py::object(py::none());
                               })
        .def_property_readonly("layout_type", [](const LogicalTensor& lt) { return lt.raw.layout_type; })
        .def_property_readonly("layout_id",
                               [](const LogicalTensor& lt) -> std::optional<std::size_t> {
                                   if (lt.raw.layout_type != dnnl_graph_layout_type_opaque) return std::nullopt;
                                   return lt.raw.layout.layout_id;
                               })
        .def_property_readonly("property", [](const LogicalTensor& lt) { return lt.raw.property; })
        .def("mem_size", &LogicalTensor::mem_size, py::arg("library"), "Bytes.")
        .def(
            "is_equal",
            [](const LogicalTensor& a, const Library& lib, const LogicalTensor& b) {
                return DGO_READ(std::uint8_t, lib.api(), graph_logical_tensor_is_equal, &a.raw, &b.raw) != 0;
            },
            py::arg("library"), py::arg("other"))
        .def("__repr__", [](const LogicalTensor& lt) { return "LogicalTensor(" + lt.str() + ")"; });
}

void bind_op(py::module_& m) {
    py::class_<Op, std::shared_ptr<Op>>(m, "Op")
        .def(py::init([](std::shared_ptr<Library> lib, std::size_t id, int kind, const std::string& name) {
                 return std::make_shared<Op>(std::move(lib), id, kind, name);
             }),
             py::arg("library").none(false), py::arg("id"), py::arg("kind"), py::arg("name"))
        .def("add_input", &Op::add_input, py::arg("tensor"))
        .def("add_output", &Op::add_output, py::arg("tensor"))
        .def("set_attr", &set_attr, py::arg("code"), py::arg("type"), py::arg("value"),
             "type: f32, f32[], s64, s64[], bool or string.")
        .def_property_readonly(
            "id", [](const Op& op) { return DGO_READ(std::size_t, op.lib->api(), graph_op_get_id, op.handle); })
        .def_property_readonly(
            "kind",
            [](const Op& op) { return DGO_READ(dnnl_graph_op_kind_t, op.lib->api(), graph_op_get_kind, op.handle); })
        .def_readonly("name", &Op::name)
        .def("__repr__",
             [](const Op& op) { return "Op(" + op.str() + ", kind " + std::to_string(int(op.kind)) + ")"; });
}

void bind_graph(py::module_& m) {
    py::class_<Graph, std::shared_ptr<Graph>>(m, "Graph")
        .def(py::init([](std::shared_ptr<Library> lib, int kind, int fpmath_mode) {
                 return std::make_shared<Graph>(std::move(lib), engine_kind_from(kind), fpmath_mode);
             }),
             py::arg("library").none(false), py::arg("engine_kind"),
             py::arg("fpmath_mode") = int(dnnl_fpmath_mode_strict))
        .def_property_readonly("library", [](const Graph& g) { return std::const_pointer_cast<Library>(g.lib); })
        .def_property_readonly("engine_kind", [](const Graph& g) { return g.kind; })
        .def("add_op", &add_op, py::arg("op"),
             "Copies the op. Raises InvalidArgumentError where it does not fit its schema or its id is taken.")
        .def("finalize", released(&Graph::finalize))
        .def_property_readonly("is_finalized", released(&Graph::is_finalized))
        .def("filter", released(&Graph::filter), py::arg("policy") = int(dnnl_graph_partition_policy_fusion))
        .def_property_readonly("partition_count", released(&Graph::partition_count))
        .def("partitions", released(&Graph::partitions),
             "In topological order; unsupported ops come as partitions of their own.")
        .def("set_fpmath_mode", released(&Graph::set_fpmath_mode), py::arg("mode"), py::arg("apply_to_int") = false,
             "oneDNN 3.7 and later.")
        .def("get_fpmath_mode", released(&Graph::fpmath_mode), "oneDNN 3.7 and later.")
        .def("set_deterministic", released(&Graph::set_deterministic), py::arg("on"), "oneDNN 3.14 and later.")
        .def("get_deterministic", released(&Graph::deterministic), "oneDNN 3.14 and later.");
}

}  // namespace dgo
