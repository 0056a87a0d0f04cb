// The Python side of declarations: functions, classes and the values of their calls.
#pragma once

#include <pybind11/pybind11.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/declaration.hpp"

namespace dgo {

// An object of a declared class.
struct DeclaredObject {
    PyObject_HEAD std::shared_ptr<const void> native;
};

// A declaration as Python calls it; lives as long as the process.
struct DeclaredFunction {
    const Declaration& declared;
    std::string text;  // of help(), with the signature in front as CPython has it
    std::vector<pybind11::object> names, defaults;  // of the parameters; no default: null
    PyMethodDef method{};

    explicit DeclaredFunction(const Declaration& declared);
    PyObject* operator()(PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) const;
};

struct DeclaredClass {
    std::string name, path;  // path: what CPython calls it, kept by the type
    PyTypeObject* type = nullptr;
    const DeclaredFunction* constructor = nullptr;
};
// All classes; null for an unknown name.
std::deque<DeclaredClass>& declared_classes();
const DeclaredClass* declared_class(std::string_view name);

// Adds all declarations to a module.
void bind_declared(pybind11::module_& m);

}  // namespace dgo
