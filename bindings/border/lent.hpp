// Tensors of other libraries, read by their C exchange functions: no capsule, no Python call. Needs the GIL throughout.
#pragma once

#include "border/buffer.hpp"
#include "border/dlpack_abi.hpp"

namespace dgo {

// The exchange functions of a tensor's type; null if it has none. Throws.
const dlpack::ExchangeApi* exchange_api(PyTypeObject* type);

// Whether the memory of a tensor holds its elements with the other sign: PyTorch's imaginary parts of conjugates.
bool is_negated(PyObject* tensor, const dlpack::Tensor& t);

// The oneDNN code of a type, or 0.
int dtype_of(const dlpack::DataType& type);

// Fields of a NumPy array over a tensor's memory, without the array: for look-ups and plans, which read fields only.
// Never passed to Python.
class LentFields {
public:
    // False if no NumPy array could describe the tensor, or with a Python error set.
    bool read(const dlpack::ExchangeApi& api, PyObject* tensor);
    // Sets the flag that new arrays have; read() leaves it out, which look-ups of inputs do not need.
    void find_row_major();

    const Array& array() const { return array_; }
    PyObject* object() { return reinterpret_cast<PyObject*>(&array_); }

private:
    Array array_{};
    std::array<Py_intptr_t, kMaxRank> dims_, strides_;
};

}  // namespace dgo
