#include "border/lent.hpp"

#include <algorithm>
#include <utility>

namespace dgo {
namespace {

struct Kind {
    std::uint8_t code, bits;
    int dtype;
};

constexpr Kind kKinds[] = {{2, 32, dnnl_f32}, {4, 16, dnnl_bf16}, {2, 16, dnnl_f16},   {0, 8, dnnl_s8},
                           {1, 8, dnnl_u8},   {0, 32, dnnl_s32},  {6, 8, dnnl_boolean}};

const dlpack::ExchangeApi* look_up_api(PyTypeObject* type) {
    static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    const auto capsule = py::reinterpret_steal<py::object>(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
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

// NumPy's sizes and strides in bytes; null if a tensor cannot be an array.
PyObject* numpy_fields(const dlpack::Tensor& t, Py_intptr_t* dims, Py_intptr_t* strides) {
    const int dtype = dtype_of(t.dtype);
    PyObject* const descr = dtype_table::descr_of[dtype];
    if (!descr || t.device.type != dlpack::kCpu || t.ndim < 0 || t.ndim > kMaxRank) return nullptr;
    Py_intptr_t dense = dtype_table::itemsize_of[dtype];
    for (int i = 0; i < t.ndim; ++i) dims[i] = t.shape[i];
    for (int i = t.ndim - 1; i >= 0; --i) {
        if (__builtin_mul_overflow(t.strides ? t.strides[i] : dense, t.strides ? dtype_table::itemsize_of[dtype] : 1,
                                   &strides[i]))
            return nullptr;
        if (!t.strides && __builtin_mul_overflow(dense, dims[i], &dense)) return nullptr;
    }
    return descr;
}

// An array that keeps the tensor alive and may be written; None where the tensor cannot be one.
py::object lent_array(py::object tensor) {
    const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(tensor.ptr()));
    if (!api) return py::none();
    dlpack::Tensor t;
    if (api->borrow(tensor.ptr(), &t)) throw py::error_already_set();
    std::array<Py_intptr_t, kMaxRank> dims, strides;
    PyObject* const descr = numpy_fields(t, dims.data(), strides.data());
    if (!descr || is_negated(tensor.ptr(), t)) return py::none();
    // zeros without memory, or memory that was freed
    const Py_intptr_t* const end = dims.data() + t.ndim;
    if (!t.data && std::find(dims.cbegin(), end, 0) == end) return py::none();
    // an empty tensor has no address; for a null address NumPy would allocate memory
    char* const data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
    static const auto& numpy = py::detail::npy_api::get();
    Py_INCREF(descr);  // NewFromDescr takes a reference over
    auto array = py::reinterpret_steal<py::object>(numpy.PyArray_NewFromDescr_(
        array_type, descr, t.ndim, dims.data(), data ? strides.data() : nullptr, data,
        py::detail::npy_api::NPY_ARRAY_WRITEABLE_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_, nullptr));
    if (!array) throw py::error_already_set();
    if (data && numpy.PyArray_SetBaseObject_(array.ptr(), tensor.release().ptr())) throw py::error_already_set();
    return array;
}

}  // namespace

const dlpack::ExchangeApi* exchange_api(PyTypeObject* type) {
    // tensors are of one type, parameters of another; the few that are kept stay for ever
    static std::array<std::pair<PyTypeObject*, const dlpack::ExchangeApi*>, 4> known{};
    static std::size_t count = 0;
    for (const auto& [seen, api] : known)
        if (seen == type) return api;
    const dlpack::ExchangeApi* const api = look_up_api(type);
    if (api && count < known.size()) {
        Py_INCREF(type);
        known[count++] = {type, api};
    }
    return api;
}

bool is_negated(PyObject* tensor, const dlpack::Tensor& t) {
    // asking takes a microsecond for a parameter; of a complex tensor every other number is read
    if (t.dtype.code != dlpack::kFloat) return false;
    for (int i = 0; i < t.ndim; ++i)
        if ((t.shape[i] > 1 || t.ndim == 1) && (!t.strides || t.strides[i] == 1)) return false;
    static PyObject* const name = PyUnicode_InternFromString("is_neg");
    PyObject* const answer = PyObject_CallMethodNoArgs(tensor, name);
    if (!answer) {
        const bool is_unknown = PyErr_ExceptionMatches(PyExc_AttributeError) == 0;
        PyErr_Clear();
        return is_unknown;
    }
    const bool is_one = answer == Py_True;
    Py_DECREF(answer);
    return is_one;
}

int dtype_of(const dlpack::DataType& type) {
    for (const Kind& kind : kKinds)
        if (kind.code == type.code && kind.bits == type.bits && type.lanes == 1) return kind.dtype;
    return 0;
}

bool LentFields::read(const dlpack::ExchangeApi& api, PyObject* tensor) {
    dlpack::Tensor t;
    if (api.borrow(tensor, &t)) return false;
    PyObject* const descr = numpy_fields(t, dims_.data(), strides_.data());
    if (!descr || !t.data || is_negated(tensor, t)) return false;
    Py_SET_TYPE(object(), array_type);
    Py_SET_REFCNT(object(), 1);
    array_.data = static_cast<char*>(t.data) + t.byte_offset;
    array_.nd = t.ndim;
    array_.dimensions = dims_.data();
    array_.strides = strides_.data();
    array_.descr = descr;
    array_.flags = py::detail::npy_api::NPY_ARRAY_WRITEABLE_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
    return true;
}

void LentFields::find_row_major() {
    Py_intptr_t dense = dtype_table::itemsize_of[dtype_code(array_)];
    for (int i = array_.nd - 1; i >= 0; --i) {
        if (dims_[i] > 1 && strides_[i] != dense) return;
        dense *= dims_[i];
    }
    array_.flags |= py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_;
}

void bind_lent(py::module_& m) {
    m.def("lent_array", &lent_array, py::arg("tensor"),
          "An array over the memory of a tensor whose type has DLPack's C exchange functions, asked for nothing else; "
          "None where the memory does not hold its elements.");
}

}  // namespace dgo
