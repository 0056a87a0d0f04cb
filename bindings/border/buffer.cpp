#include "border/buffer.hpp"

#include "border/line_memory.hpp"
#include "common/error.hpp"
#include "graph/logical_tensor.hpp"

namespace dgo {
namespace {

std::string array_dtype_text(const Array& array) {
    if (const int code = dtype_code(array)) return data_type_name(code);
    return py::str(py::handle(array.descr)).cast<std::string>();
}

void register_dtype(const py::dtype& dtype, int code) {
    const int number = dtype.num();
    const Descr& descr = *py::detail::array_descriptor_proxy(dtype.ptr());
    if (descr.byteorder != '=' && descr.byteorder != '|')
        fail(ErrorKind::invalid_argument, "register_dtype: dtype must be in native byte order");
    if (number < 0 || number >= dtype_table::kNumbers || dtype.has_fields())
        fail(ErrorKind::unsupported,
             "register_dtype: NumPy type number " + std::to_string(number) + " is outside the table");
    if (!array_itemsize(code) || array_itemsize(code) != dtype.itemsize())
        fail(ErrorKind::invalid_argument, "register_dtype: dtype has " + std::to_string(dtype.itemsize()) +
                                              " bytes, data type " + std::to_string(code) + " has " +
                                              std::to_string(array_itemsize(code)));
    dtype_table::code_of[number] = static_cast<std::uint8_t>(code);
    dtype_table::itemsize_of[code] = static_cast<std::uint8_t>(array_itemsize(code));
    // results get the first dtype of a code: NumPy has several integers of equal size
    if (!dtype_table::descr_of[code]) dtype_table::descr_of[code] = dtype.inc_ref().ptr();
}

PyObject* make_array(const Layout& layout, char* data, int flags) {
    PyObject* const descr = dtype_table::descr_of[layout.dtype];
    if (!descr) {
        PyErr_Format(PyExc_TypeError, "no NumPy dtype is registered for data type %d", layout.dtype);
        return nullptr;
    }
    static const auto& api = py::detail::npy_api::get();
    std::array<Py_intptr_t, kMaxRank> dims, strides;
    for (int i = 0; i < layout.rank; ++i) {
        dims[i] = layout.dims[i];
        strides[i] = layout.strides[i];
    }
    Py_INCREF(descr);  // NewFromDescr takes a reference over
    return api.PyArray_NewFromDescr_(array_type, descr, layout.rank, dims.data(), data ? strides.data() : nullptr, data,
                                     flags, nullptr);
}

}  // namespace

const Array& require_match(const Layout& layout, PyObject* object, const std::string& who, bool written) {
    const Array* const array = exact_array(object);
    if (!array) throw py::type_error(who + " must be a numpy.ndarray, got " + Py_TYPE(object)->tp_name);
    const int code = dtype_code(*array);
    const auto want = [&](ErrorKind kind, const std::string& what, const std::string& expected, const std::string& got,
                          const std::string& remedy) {
        fail(kind, who + " must have " + what + " " + expected + ", got " + got + remedy);
    };
    if (code != layout.dtype)
        want(ErrorKind::invalid_argument, "dtype", data_type_name(layout.dtype), array_dtype_text(*array),
             "; convert with array.astype(...)");
    bool same = array->nd == layout.rank;
    for (int i = 0; same && i < layout.rank; ++i) same = array->dimensions[i] == layout.dims[i];
    static_assert(sizeof(*array->dimensions) == sizeof(std::int64_t));
    const auto text = [&](const py::ssize_t* values, std::int64_t unit) {
        return tuple_text(reinterpret_cast<const std::int64_t*>(values), array->nd, unit);
    };
    if (!same)
        want(ErrorKind::shape, "shape", tuple_text(layout.dims.data(), layout.rank), text(array->dimensions, 1), "");
    if (layout.extent && !is_aligned(array->data, layout.itemsize))
        fail(ErrorKind::invalid_argument, who + " must start at a multiple of its item size, " +
                                              std::to_string(layout.itemsize) + " bytes; copy it with array.copy()");
    if (!matches(layout, *array))
        want(ErrorKind::invalid_argument, "strides", tuple_text(layout.strides.data(), layout.rank) + " bytes",
             text(array->strides, 1), "");
    if (written && !is_writeable(*array)) fail(ErrorKind::invalid_argument, who + " must be writable");
    return *array;
}

PyObject* new_array(const Layout& layout) {
    const LineMemory lines(layout.extent >= kAlignedBytes);
    return make_array(layout, nullptr, 0);
}

PyObject* new_view(const Layout& layout, char* data, bool writeable) {
    using api = py::detail::npy_api;
    return make_array(layout, data, api::NPY_ARRAY_ALIGNED_ | (writeable ? api::NPY_ARRAY_WRITEABLE_ : 0));
}

void bind_buffer(py::module_& m) {
    array_type = py::detail::npy_api::get().PyArray_Type_;
    prepare_line_memory();
    m.def("register_dtype", &register_dtype, py::arg("dtype"), py::arg("code"),
          "Make arrays of a NumPy dtype known as elements of an oneDNN data type; results get the first one.");
    m.def(
        "new_array",
        [](int dtype, const std::vector<std::int64_t>& shape) {
            PyObject* const array = new_array(Layout(dtype, shape, dense_strides(shape)));
            if (!array) throw py::error_already_set();
            return py::reinterpret_steal<py::array>(array);
        },
        py::arg("dtype"), py::arg("shape"), "A row-major array as calls return it: from 32 KB on at a cache line.");
}

}  // namespace dgo
