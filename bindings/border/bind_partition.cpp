// Partitions and compiled partitions, with the checks of tensors before an execution.
#include <algorithm>
#include <optional>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/gil.hpp"
#include "border/instance.hpp"
#include "border/translated.hpp"
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

// Enough for nearly every partition; more tensors are stored on the heap.
constexpr std::size_t kUsual = 16;

// The Python objects of one call, each with a reference: the list that holds them may change while other threads hold
// the GIL.
class Operands {
public:
    Operands(const char* side, PyObject* sequence, const std::vector<LogicalTensor>& compiled, const Engine& engine,
             bool written);
    ~Operands() {
        for (std::size_t i = 0; i < count_; ++i) Py_DECREF(objects_[i]);
    }
    Operands(const Operands&) = delete;
    Operands& operator=(const Operands&) = delete;

    std::size_t size() const { return count_; }
    const Tensor& operator[](std::size_t i) const { return *tensors_[i]; }
    const const_dnnl_graph_tensor_t* handles() const { return handles_; }
    std::string name(std::size_t i) const { return std::string(side_) + " " + std::to_string(i); }
    std::string where(std::size_t i) const { return "execute: " + name(i); }

private:
    template <typename T>
    struct List {
        explicit List(std::size_t count) : items(count <= kUsual ? few : (many.resize(count), many.data())) {}
        T few[kUsual];
        std::vector<T> many;
        T* const items;
    };

    const char* const side_;
    std::size_t count_ = 0;  // of those that are checked, and have a reference
    List<PyObject*> object_list_;
    List<const Tensor*> tensor_list_;
    List<const_dnnl_graph_tensor_t> handle_list_;
    PyObject** const objects_ = object_list_.items;
    const Tensor** const tensors_ = tensor_list_.items;
    const_dnnl_graph_tensor_t* const handles_ = handle_list_.items;
};

PyTypeObject* tensor_type = nullptr;
PyTypeObject* stream_type = nullptr;
PyTypeObject* compiled_type = nullptr;

// The library does not compare these; a wrong order would silently give wrong results.
Operands::Operands(const char* side, PyObject* sequence, const std::vector<LogicalTensor>& compiled,
                   const Engine& engine, bool written)
    : side_(side), object_list_(compiled.size()), tensor_list_(compiled.size()), handle_list_(compiled.size()) {
    if (!PyList_Check(sequence) && !PyTuple_Check(sequence))
        throw py::type_error(std::string("execute: the ") + side + "s must be a list or tuple of tensors, got " +
                             Py_TYPE(sequence)->tp_name);
    const auto given = std::size_t(PySequence_Fast_GET_SIZE(sequence));
    if (given != compiled.size())
        fail(ErrorKind::invalid_argument, std::string("execute: got ") + std::to_string(given) + " " + side +
                                              "s, the partition was compiled with " + std::to_string(compiled.size()));
    PyObject* const* const items = PySequence_Fast_ITEMS(sequence);
    try {
        for (; count_ < given; ++count_) {
            py::object native = native_of(items[count_], tensor_type);
            const Tensor* const t = native ? instance_of<Tensor>(native.ptr(), tensor_type) : nullptr;
            if (!t)
                throw py::type_error(where(count_) + " must be a tensor, got " + Py_TYPE(items[count_])->tp_name +
                                     "; write tensor(logical_tensor, engine, array)");
            if (t->engine.get() != &engine)
                fail(ErrorKind::invalid_argument, where(count_) + " is on another engine than the compiled partition");
            if (t->lt.id() != compiled[count_].id() || !same_layout(t->lt, compiled[count_]))
                fail(ErrorKind::invalid_argument,
                     where(count_) + " is " + t->lt.str() + ", compiled was " + compiled[count_].str());
            if (written && !t->writable) fail(ErrorKind::invalid_argument, where(count_) + " is read-only memory");
            tensors_[count_] = t;
            handles_[count_] = t->handle;
            objects_[count_] = native.release().ptr();
        }
    } catch (...) {
        for (std::size_t i = 0; i < count_; ++i) Py_DECREF(objects_[i]);
        throw;
    }
}

// Strided tensors may interleave in each other's gaps: two overlap for certain only if one of them is dense.
bool overlap(const Tensor& a, const Tensor& b) {
    const auto first = [](const Tensor& t) { return static_cast<const char*>(t.data()); };
    return (a.dense() || b.dense()) && first(a) < first(b) + b.bytes() && first(b) < first(a) + a.bytes();
}

bool in_place(const CompiledPartition& cp, const Tensor& input, const Tensor& output) {
    const auto& pairs = cp.inplace_ports();
    return input.data() == output.data() &&
           std::find(pairs.begin(), pairs.end(), std::pair(input.lt.id(), output.lt.id())) != pairs.end();
}

void check_memory(const CompiledPartition& cp, const Operands& inputs, const Operands& outputs) {
    for (std::size_t o = 0; o < outputs.size(); ++o) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
            if (overlap(inputs[i], outputs[o]) && !in_place(cp, inputs[i], outputs[o]))
                fail(ErrorKind::invalid_argument, outputs.where(o) + " shares memory with input " + std::to_string(i) +
                                                      ", which is no in-place pair of the compiled partition");
        for (std::size_t i = 0; i < o; ++i)
            if (overlap(outputs[i], outputs[o]))
                fail(ErrorKind::invalid_argument, outputs.where(o) + " shares memory with output " + std::to_string(i));
    }
}

void check_scratchpad(const Tensor& scratchpad, const Operands& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i)
        if (overlap(scratchpad, operands[i]))
            fail(ErrorKind::invalid_argument, "execute: the scratchpad shares memory with " + operands.name(i));
}

// CompiledPartition.execute(stream, inputs, outputs, scratchpad=None)
PyObject* execute(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        if (count < 3 || count > 4)
            return PyErr_Format(PyExc_TypeError, "execute: takes a stream, inputs, outputs and a scratchpad, got %zd",
                                count);
        fork_guard::enter();
        const auto* const cp = instance_of<CompiledPartition>(self, compiled_type);
        const py::object keep[] = {py::reinterpret_borrow<py::object>(self), native_of(args[0], stream_type)};
        const auto* const stream = keep[1] ? instance_of<Stream>(keep[1].ptr(), stream_type) : nullptr;
        if (!cp || !stream)
            return PyErr_Format(PyExc_TypeError, "execute: needs a stream, got %s", Py_TYPE(args[0])->tp_name);
        if (stream->engine != cp->engine)
            fail(ErrorKind::invalid_argument,
                 "execute: the stream is on another engine than the one the partition was compiled for");
        const Operands inputs("input", args[1], cp->inputs, *cp->engine, false);
        const Operands outputs("output", args[2], cp->outputs, *cp->engine, true);
        check_memory(*cp, inputs, outputs);
        const auto run = [&](const_dnnl_graph_tensor_t scratch) {
            const ReleaseGil release;
            cp->execute(stream->handle, inputs.handles(), outputs.handles(), scratch);
        };
        if (count == 3 || args[3] == Py_None || cp->scratchpad_size() == 0) {
            run(nullptr);
        } else {
            const auto list = py::make_tuple(py::handle(args[3]));
            const Operands scratchpad("scratchpad", list.ptr(), {cp->scratchpad()}, *cp->engine, true);
            check_scratchpad(scratchpad[0], inputs);
            check_scratchpad(scratchpad[0], outputs);
            run(scratchpad[0].handle);
        }
        Py_RETURN_NONE;
    });
}

PyMethodDef kExecute = {"execute", as_method(execute), METH_FASTCALL,
                        "execute(self, stream: Any, inputs: Sequence[Any], outputs: Sequence[Any], scratchpad: Any = "
                        "None, /) -> None\n\nLists or tuples of tensors in the order given to compile. Returns at once "
                        "on a GPU: `stream.wait()`.\n\nTakes `Stream` and `Tensor`, or objects with one as `_native`."};

}  // namespace

void bind_partition(py::module_& m) {
    py::class_<CompiledPartition, std::shared_ptr<CompiledPartition>>(m, "CompiledPartition")
        .def_property_readonly("engine",
                               [](const CompiledPartition& cp) { return std::const_pointer_cast<Engine>(cp.engine); })
        .def_property_readonly(
            "inputs", [](const CompiledPartition& cp) { return cp.inputs; }, "In the order given to compile.")
        .def_property_readonly(
            "outputs", [](const CompiledPartition& cp) { return cp.outputs; },
            "In the order given to compile, with the shapes and layouts that the library chose.")
        .def("query", &CompiledPartition::query, py::arg("id"))
        .def_property_readonly("inplace_ports", on_object(&CompiledPartition::inplace_ports),
                               "(input id, output id) pairs that may share memory.")
        .def_property_readonly("scratchpad_size", on_object(&CompiledPartition::scratchpad_size),
                               "Bytes; 0 before oneDNN 3.13, which allocates by itself.")
        .def_property_readonly("scratchpad", [](const CompiledPartition& cp) -> std::optional<LogicalTensor> {
            if (cp.scratchpad_size() == 0) return std::nullopt;
            return cp.scratchpad();
        });
    tensor_type = bound_type<Tensor>();
    stream_type = bound_type<Stream>();
    compiled_type = bound_type<CompiledPartition>();
    py::type::of<CompiledPartition>().attr("execute") =
        py::reinterpret_steal<py::object>(PyDescr_NewMethod(compiled_type, &kExecute));

    py::class_<Partition, std::shared_ptr<Partition>>(m, "Partition")
        .def_static(
            "create_with_op",
            [](const Op& op, int kind) { return Partition::create_with_op(op, engine_kind_from(kind)); }, py::arg("op"),
            py::arg("engine_kind"))
        .def_property_readonly("id", on_object(&Partition::id))
        .def_property_readonly("op_count", [](const Partition& p) { return p.op_ids().size(); })
        .def_property_readonly("op_ids", on_object(&Partition::op_ids))
        .def_property_readonly("is_supported", on_object(&Partition::is_supported))
        .def_property_readonly("engine_kind", on_object(&Partition::engine_kind))
        .def_property_readonly("input_ports", on_object(&Partition::input_ports))
        .def_property_readonly("output_ports", on_object(&Partition::output_ports))
        .def(
            "compile",
            [](const Partition& p, const std::vector<LogicalTensor>& inputs, const std::vector<LogicalTensor>& outputs,
               std::shared_ptr<Engine> engine, bool one_thread) {
                const py::object keep = kept(p);
                const ReleaseGil release;
                return p.compile(inputs, outputs, std::move(engine), one_thread);
            },
            py::arg("inputs"), py::arg("outputs"), py::arg("engine").none(false), py::arg("one_thread") = false,
            "Inputs: known dims, strided or opaque. Outputs: also of unknown shape or LayoutType.any.\n\none_thread: "
            "make one for each thread that runs it, which are the process's first and one of the package's own\nfor "
            "all others, where an OpenMP library may tie what it makes to a thread: without it, oneDNN 3.2 "
            "runs\ngradients of convolutions only in the thread that compiles them.\n\nRaises UnsupportedError where "
            "this library or CPU has no kernel.");
}

}  // namespace dgo
