// NumPy arrays over the memory of other libraries' tensors, by their C exchange functions: no capsule, no Python call.
#include <array>

#include "border/buffer.hpp"
#include "border/dlpack_abi.hpp"

namespace dgo {
namespace {

struct Kind {
    std::uint8_t code, bits;
    int dtype;
};

constexpr Kind kKinds[] = {{2, 32, dnnl_f32}, {4, 16, dnnl_bf16}, {2, 16, dnnl_f16},   {0, 8, dnnl_s8},
                           {1, 8, dnnl_u8},   {0, 32, dnnl_s32},  {6, 8, dnnl_boolean}};

// The oneDNN code of a type, or 0.
int dtype_of(const dlpack::DataType& type) {
    for (const Kind& kind : kKinds)
        if (kind.code == type.code && kind.bits == type.bits && type.lanes == 1) return kind.dtype;
    return 0;
}

// The functions of a tensor's type; null if it has none that lend.
const dlpack::ExchangeApi* api_of(PyObject* tensor) {
    static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    const auto capsule =
        py::reinterpret_steal<py::object>(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(tensor)), name));
    if (!capsule) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw py::error_already_set();
        PyErr_Clear();
        return nullptr;
    }
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    const auto* api =
        static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api && api->major != 1) api = api->previous;
    return api && api->borrow ? api : nullptr;
}

// An array that keeps the tensor alive and may be written; None where the tensor cannot be one.
py::object lent_array(py::object tensor) {
    const dlpack::ExchangeApi* const api = api_of(tensor.ptr());
    if (!api) return py::none();
    dlpack::Tensor t;
    if (api->borrow(tensor.ptr(), &t)) throw py::error_already_set();
    const int dtype = dtype_of(t.dtype);
    PyObject* const descr = dtype_table::descr_of[dtype];
    if (!descr || t.device.type != dlpack::kCpu || t.ndim < 0 || t.ndim > kMaxRank) return py::none();
    const Py_intptr_t itemsize = dtype_table::itemsize_of[dtype];
    std::array<Py_intptr_t, kMaxRank> dims, strides;
    for (int i = 0; i < t.ndim; ++i) {
        dims[i] = t.shape[i];
        if (t.strides && __builtin_mul_overflow(t.strides[i], itemsize, &strides[i])) return py::none();
    }
    // an empty tensor has no address, for which NumPy would take memory of its own
    char* const data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
    static const auto& numpy = py::detail::npy_api::get();
    Py_INCREF(descr);  // NewFromDescr takes a reference over
    auto array = py::reinterpret_steal<py::object>(numpy.PyArray_NewFromDescr_(
        array_type, descr, t.ndim, dims.data(), data && t.strides ? strides.data() : nullptr, data,
        py::detail::npy_api::NPY_ARRAY_WRITEABLE_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_, nullptr));
    if (!array) throw py::error_already_set();
    if (data && numpy.PyArray_SetBaseObject_(array.ptr(), tensor.release().ptr())) throw py::error_already_set();
    return array;
}

}  // namespace

void bind_lent(py::module_& m) { m.def("lent_array", &lent_array, py::arg("tensor")); }

}  // namespace dgo
