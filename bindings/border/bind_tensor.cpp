// Tensors on memory of Python objects.
#include <algorithm>
#include <cstdint>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "graph/tensor.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

struct Memory {
    void* data = nullptr;
    std::int64_t bytes = 0;  // from data on
    bool writable = true;
    bool checked = false;  // an address given as an integer has no size to check
    py::object owner{};
};

std::int64_t span(const py::ssize_t* shape, const py::ssize_t* strides, py::ssize_t ndim, std::int64_t itemsize) {
    std::int64_t last = itemsize;
    if (std::find(shape, shape + ndim, 0) != shape + ndim) return 0;
    for (py::ssize_t i = 0; i < ndim; ++i) {
        if (strides[i] < 0)
            fail(ErrorKind::shape, "Tensor: axis " + std::to_string(i) + " of the buffer has the negative stride " +
                                       std::to_string(strides[i]) + "; copy it with numpy.ascontiguousarray");
        std::int64_t reach = 0;
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last))
            fail(ErrorKind::shape, "Tensor: the strides of the buffer span more than 64 bits can address");
    }
    return last;
}

void* address_of(const py::object& number) {
    const auto address = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred()) throw py::error_already_set();
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

Memory memory_of(const py::object& source, const Engine& engine) {
    if (py::isinstance<py::int_>(source)) return {address_of(source), 0, true, false, source};
    if (engine.on_device)
        fail(ErrorKind::invalid_argument,
             "Tensor: " + engine.str() + " takes no arrays of the host; give the address of USM memory as an int");
    if (py::isinstance<py::array>(source)) {  // also the types that the buffer protocol cannot describe: bfloat16
        const auto array = py::reinterpret_borrow<py::array>(source);
        return {const_cast<void*>(array.data()), span(array.shape(), array.strides(), array.ndim(), array.itemsize()),
                array.writeable(), true, source};
    }
    if (!PyObject_CheckBuffer(source.ptr()))
        throw py::type_error(
            "Tensor: the buffer must be a NumPy array, an object with the buffer protocol or an "
            "address, got " +
            std::string(py::str(py::type::handle_of(source).attr("__name__"))));
    // the view pins the memory, the source does not: a bytearray could be emptied, a mapping closed
    auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(source.ptr()));
    if (!view) throw py::error_already_set();
    const Py_buffer& info = *PyMemoryView_GET_BUFFER(view.ptr());
    if (info.suboffsets)
        fail(ErrorKind::invalid_argument, "Tensor: the buffer is in pieces (it has suboffsets); pass a copy");
    return {info.buf, span(info.shape, info.strides, info.ndim, info.itemsize), !info.readonly, true, std::move(view)};
}

// Keeps the owner of the memory alive.
class BoundTensor : public Tensor {
public:
    BoundTensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, const Memory& memory)
        : Tensor(lt, std::move(engine), memory.data), owner_(memory.owner) {
        writable = memory.writable;
    }
    BoundTensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, dnnl_graph_tensor_t handle)
        : Tensor(lt, std::move(engine), handle) {
        writable = false;
    }
    void rebind(const Memory& memory) {
        set_data(memory.data);
        writable = memory.writable;
        owner_ = memory.owner;
    }

private:
    py::object owner_;
};

Memory checked_memory(const LogicalTensor& lt, const Engine& engine, const py::object& source) {
    const Memory memory = memory_of(source, engine);
    const auto needed = lt.mem_size(*engine.lib);
    if (memory.checked && std::uint64_t(memory.bytes) < needed)
        fail(ErrorKind::shape, "tensor " + lt.str() + " needs " + std::to_string(needed) + " bytes, the buffer has " +
                                   std::to_string(memory.bytes));
    return memory;
}

std::shared_ptr<BoundTensor> make_scalar(const LogicalTensor& lt, std::shared_ptr<Engine> engine,
                                         const py::object& value) {
    const Api& api = engine->api();
    DGO_NEED(*engine->lib, graph_tensor_create_scalar, "3.9");
    if (lt.raw.property != abi::property_host_scalar)
        fail(ErrorKind::invalid_argument, "Tensor.scalar: " + lt.str() + " must have TensorProperty.host_scalar");
    Memory memory = checked_memory(lt, *engine, value);
    if (!memory.checked || !memory.data) fail(ErrorKind::invalid_argument, "Tensor.scalar: value must be an array");
    dnnl_graph_tensor_t handle = nullptr;
    DGO_CALL(api, graph_tensor_create_scalar, &handle, &lt.raw, memory.data);
    return std::make_shared<BoundTensor>(lt, std::move(engine), handle);
}

}  // namespace

void bind_tensor(py::module_& m) {
    py::class_<Tensor, std::shared_ptr<Tensor>> base(m, "_TensorBase");
    py::class_<BoundTensor, Tensor, std::shared_ptr<BoundTensor>>(
        m, "Tensor", "Memory with a description. Arrays are kept alive and must be as large as the description says.")
        .def(py::init([](const LogicalTensor& lt, std::shared_ptr<Engine> engine, const py::object& buffer) {
                 const Memory memory = checked_memory(lt, *engine, buffer);
                 return std::make_shared<BoundTensor>(lt, std::move(engine), memory);
             }),
             py::arg("logical_tensor"), py::arg("engine").none(false), py::arg("buffer"))
        .def_static("scalar", &make_scalar, py::arg("logical_tensor"), py::arg("engine").none(false), py::arg("value"),
                    "A host scalar (TensorProperty.host_scalar); oneDNN 3.9 and later.")
        .def_property_readonly("logical_tensor", [](const BoundTensor& t) { return t.lt; })
        .def_property_readonly("engine", [](const BoundTensor& t) { return std::const_pointer_cast<Engine>(t.engine); })
        .def_property_readonly("writable", [](const BoundTensor& t) { return t.writable; })
        .def_property_readonly("data_handle",
                               [](const BoundTensor& t) { return reinterpret_cast<std::uintptr_t>(t.data()); })
        .def(
            "set_data_handle",
            [](BoundTensor& t, const py::object& buffer) { t.rebind(checked_memory(t.lt, *t.engine, buffer)); },
            py::arg("buffer"))
        .def(
            "get_logical_tensor",
            [](const BoundTensor& t) {
                const Api& api = t.engine->api();
                DGO_NEED(*t.engine->lib, graph_tensor_get_logical_tensor, "3.6");
                LogicalTensor out;
                DGO_CALL(api, graph_tensor_get_logical_tensor, t.handle, &out.raw);
                return out;
            },
            "As the library has it; oneDNN 3.6 and later.");
}

}  // namespace dgo
