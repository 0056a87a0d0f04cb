// NumPy arrays as address, data type, shape and strides, without NumPy's headers. Needs the GIL throughout.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <pybind11/numpy.h>

#include "memory/layout.hpp"

namespace dgo {

namespace py = pybind11;

using Array = py::detail::PyArray_Proxy;
using Descr = py::detail::PyArrayDescr_Proxy;

namespace dtype_table {
// Data type codes by NumPy's type number; those of ml_dtypes are handed out at run time, from 256 on.
inline constexpr int kNumbers = 1024;
inline std::array<std::uint8_t, kNumbers> code_of{};
inline std::array<PyObject*, 256> descr_of{};    // by code; null unless registered
inline std::array<std::uint8_t, 256> itemsize_of{};  // by code
}  // namespace dtype_table

inline PyTypeObject* array_type = nullptr;  // numpy.ndarray; set by bind_buffer

// Null unless the object is exactly a numpy.ndarray; subclasses may interpret their memory differently.
inline const Array* exact_array(PyObject* object) {
    return Py_TYPE(object) == array_type ? py::detail::array_proxy(object) : nullptr;
}

// The code of a registered data type in native byte order, else 0 (dnnl_data_type_undef).
inline int dtype_code(const Array& array) {
    const Descr& descr = *py::detail::array_descriptor_proxy(array.descr);
    if (descr.byteorder != '=' && descr.byteorder != '|') return 0;
    const auto number = static_cast<unsigned>(descr.type_num);
    return number < dtype_table::kNumbers ? dtype_table::code_of[number] : 0;
}

inline bool is_aligned(const void* data, int itemsize) {
    return (reinterpret_cast<std::uintptr_t>(data) & static_cast<std::uintptr_t>(itemsize - 1)) == 0;
}

inline bool is_writeable(const Array& array) { return array.flags & py::detail::npy_api::NPY_ARRAY_WRITEABLE_; }

inline bool is_row_major(const Array& array) { return array.flags & py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_; }

// Whether memory can be read by `layout` without a conversion.
inline bool matches(const Layout& layout, const Array& array) {
    if (array.nd != layout.rank || dtype_code(array) != layout.dtype) return false;
    for (int i = 0; i < layout.rank; ++i)
        if (array.dimensions[i] != layout.dims[i]) return false;
    if (layout.extent == 0) return true;
    for (int i = 0; i < layout.rank; ++i)
        if (array.strides[i] != layout.strides[i] && layout.dims[i] > 1) return false;
    return is_aligned(array.data, layout.itemsize);
}

inline bool extents_overlap(const char* a, std::size_t a_bytes, const char* b, std::size_t b_bytes) {
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

// Returns the array; raises TypeError, ShapeError or InvalidArgumentError with the expected dtype and shape of `who`.
const Array& require_match(const Layout& layout, PyObject* object, const std::string& who, bool written);

// New references; null with a Python error set. A view does not own its memory.
PyObject* new_array(const Layout& layout);
PyObject* new_view(const Layout& layout, char* data, bool writeable);

}  // namespace dgo
