// The native object inside a Python one, for calls that are too short for pybind11's look-up.
#pragma once

#include <pybind11/pybind11.h>

namespace dgo {

// The native object of a class with a single native base; null for other objects.
template <typename T>
T* instance_of(PyObject* object, PyTypeObject* type) {
    if (!PyObject_TypeCheck(object, type)) return nullptr;
    return static_cast<T*>(reinterpret_cast<pybind11::detail::instance*>(object)->get_value_and_holder().value_ptr());
}

// A method without arguments as a function of a reference: a pointer to the method would be called on None, too.
template <typename T, typename R>
auto on_object(R (T::*method)() const) {
    return [method](const T& object) -> R { return (object.*method)(); };
}
template <typename T, typename R>
auto on_object(R (T::*method)()) {
    return [method](T& object) -> R { return (object.*method)(); };
}

// The object itself, or the attribute _native of a Python object that wraps one.
inline pybind11::object native_of(PyObject* object, PyTypeObject* type) {
    static PyObject* const name = PyUnicode_InternFromString("_native");
    if (PyObject_TypeCheck(object, type)) return pybind11::reinterpret_borrow<pybind11::object>(object);
    auto native = pybind11::reinterpret_steal<pybind11::object>(PyObject_GetAttr(object, name));
    if (!native) PyErr_Clear();
    return native && PyObject_TypeCheck(native.ptr(), type) ? native : pybind11::object();
}

template <typename T>
PyTypeObject* bound_type() {
    return reinterpret_cast<PyTypeObject*>(pybind11::type::of<T>().ptr());
}

}  // namespace dgo
