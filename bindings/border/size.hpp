// Sizes of a trace as Python's objects.
#pragma once

#include <memory>
#include <vector>

#include <pybind11/pybind11.h>

#include "common/polynomials.hpp"

namespace dgo {

struct SizeObject;

// Equal sizes are one object as long as it lives.
struct SizeTrace : Polynomials, std::enable_shared_from_this<SizeTrace> {
    pybind11::object object(Size size);  // an int where the size does not vary

    std::vector<SizeObject*> objects;  // by number; null where there is none
};

struct SizeObject {
    Size size() const { return trace->size(number); }

    PyObject_HEAD std::shared_ptr<SizeTrace> trace;
    int number;
};

inline PyTypeObject* size_type = nullptr;  // set by bind_size

inline SizeObject* as_size(PyObject* object) {
    return Py_TYPE(object) == size_type ? reinterpret_cast<SizeObject*>(object) : nullptr;
}

pybind11::object integer_object(Wide value);
Wide wide_of(PyObject* integer);  // throws beyond 128 bits

}  // namespace dgo
