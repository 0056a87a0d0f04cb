// Python types whose objects hold one C++ value. The value T tells the garbage collector what it refers to by
// each(visit), which calls visit(object) until that returns anything but 0 and returns that, and lets go of it by clear().
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <vector>

#include <pybind11/pybind11.h>
#include <structmember.h>  // after Python.h

#include "border/translated.hpp"

namespace dgo {

template <typename T>
struct Boxed {
    PyObject_HEAD vectorcallfunc vectorcall;  // null: not callable
    T* value;  // null until it is made
};

template <typename T>
T& boxed(PyObject* self) {
    return *reinterpret_cast<Boxed<T>*>(self)->value;
}

// New reference, or null with a Python error set.
template <typename T>
PyObject* new_boxed(PyTypeObject* type, std::unique_ptr<T> value, vectorcallfunc vectorcall = nullptr) {
    PyObject* const self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    auto* const object = reinterpret_cast<Boxed<T>*>(self);
    object->vectorcall = vectorcall;
    object->value = value.release();
    return self;
}

template <typename T>
int traverse_boxed(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    T* const value = reinterpret_cast<Boxed<T>*>(self)->value;
    return value ? value->each([&](PyObject* object) { return object ? visit(object, arg) : 0; }) : 0;
}

template <typename T>
int clear_boxed(PyObject* self) {
    if (T* const value = reinterpret_cast<Boxed<T>*>(self)->value) value->clear();
    return 0;
}

template <typename T>
void dealloc_boxed(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete reinterpret_cast<Boxed<T>*>(self)->value;
    type->tp_free(self);
    Py_DECREF(type);
}

// The entry point behind Boxed::vectorcall.
template <typename T>
inline PyMemberDef vectorcall_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Boxed<T>, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// A new type; `more` are slots next to those of every such type. Throws with the Python error set.
template <typename T>
PyObject* make_boxed_type(const char* name, const char* doc, newfunc make, std::initializer_list<PyType_Slot> more,
                          unsigned long flags = 0) {
    std::vector<PyType_Slot> slots = {
        {Py_tp_doc, const_cast<char*>(doc)},
        {Py_tp_new, reinterpret_cast<void*>(make)},
        {Py_tp_dealloc, reinterpret_cast<void*>(&dealloc_boxed<T>)},
        {Py_tp_traverse, reinterpret_cast<void*>(&traverse_boxed<T>)},
        {Py_tp_clear, reinterpret_cast<void*>(&clear_boxed<T>)},
    };
    if (flags & Py_TPFLAGS_HAVE_VECTORCALL) {
        slots.push_back({Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)});
        slots.push_back({Py_tp_members, vectorcall_members<T>});
    }
    slots.insert(slots.end(), more);
    slots.push_back({0, nullptr});
    PyType_Spec spec = {name, sizeof(Boxed<T>), 0,
                        static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | flags), slots.data()};
    PyObject* const type = PyType_FromSpec(&spec);
    if (!type) throw py::error_already_set();
    return type;
}

}  // namespace dgo
