#include "border/values.hpp"

#include <new>

#include "border/declared.hpp"
#include "kernels/filtering/filter_product.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

PyObject* object_of(Handle value) { return static_cast<PyObject*>(value); }

// A new reference, unless Python raised.
Handle made(PyObject* object) {
    if (!object) throw py::error_already_set();
    return object;
}

}  // namespace

void PythonValues::refuse(PyObject* value) const {
    const Declaration::Parameter& parameter = declared_.parameters[position];
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s(): %s takes %s, got %R of type %s", declared_.name.c_str(),
                 parameter.name.c_str(), parameter.type.c_str(), value, Py_TYPE(value)->tp_name);
    throw py::error_already_set();
}

int64_t PythonValues::integer(Handle value, int64_t least, int64_t most) {
    PyObject* const object = object_of(value);
    int overflow = 0;
    long long number = 0;
    if (PyLong_Check(object)) {
        number = PyLong_AsLongLongAndOverflow(object, &overflow);
    } else {
        const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object));
        if (!index) refuse(object);
        number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    }
    if (overflow != 0 || number < least || number > most) refuse(object);
    return number;
}

double PythonValues::real(Handle value) {
    const double number = PyFloat_AsDouble(object_of(value));
    if (number == -1.0 && PyErr_Occurred()) refuse(object_of(value));
    return number;
}

bool PythonValues::truth(Handle value) {
    PyObject* const object = object_of(value);
    if (object == Py_True || object == Py_False) return object == Py_True;
    const PyNumberMethods* const number = Py_TYPE(object)->tp_as_number;
    const int truth = object == Py_None ? 0 : number && number->nb_bool ? number->nb_bool(object) : -1;
    if (truth < 0) refuse(object);
    return truth > 0;
}

std::string PythonValues::text(Handle value) {
    Py_ssize_t size = 0;
    const char* const text =
        PyUnicode_Check(object_of(value)) ? PyUnicode_AsUTF8AndSize(object_of(value), &size) : nullptr;
    if (!text) refuse(object_of(value));
    return std::string(text, static_cast<size_t>(size));
}

Border::Items PythonValues::items(Handle value) {
    PyObject* sequence = object_of(value);
    if (!PyTuple_Check(sequence)) {
        if (PyUnicode_Check(sequence) || PyBytes_Check(sequence) || PyDict_Check(sequence)) refuse(sequence);
        // not PySequence_Fast: an item's code could change the list meanwhile
        kept_.push_back(py::reinterpret_steal<py::object>(PySequence_Tuple(sequence)));
        if (!kept_.back()) refuse(object_of(value));
        sequence = kept_.back().ptr();
    }
    return {reinterpret_cast<Handle*>(reinterpret_cast<PyTupleObject*>(sequence)->ob_item),
            static_cast<size_t>(PyTuple_GET_SIZE(sequence))};
}

Border::Items PythonValues::items(Handle value, size_t count) {
    const Items all = items(value);
    if (all.count != count) refuse(object_of(value));
    return all;
}

std::shared_ptr<Kernel> PythonValues::kernel(Handle value) {
    py::detail::make_caster<std::shared_ptr<Kernel>> caster;
    if (!caster.load(object_of(value), false) || value == Py_None) refuse(object_of(value));
    return py::detail::cast_op<std::shared_ptr<Kernel>>(caster);
}

const void* PythonValues::object(Handle value, const char* type) {
    if (Py_TYPE(object_of(value)) != declared_class(type)->type) refuse(object_of(value));
    return static_cast<DeclaredObject*>(value)->native.get();
}

Handle PythonValues::give(int64_t value) { return made(PyLong_FromLongLong(value)); }
Handle PythonValues::give(double value) { return made(PyFloat_FromDouble(value)); }
Handle PythonValues::give(bool value) { return made(PyBool_FromLong(value)); }
Handle PythonValues::give(const std::string& value) {
    return made(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}
Handle PythonValues::give(const Bytes& value) { return py::bytes(value.bytes).release().ptr(); }

Handle PythonValues::give(const std::vector<int64_t>& value) {
    py::list list;
    for (const int64_t number : value) list.append(number);
    return list.release().ptr();
}

Handle PythonValues::give_tuple(std::initializer_list<Handle> parts) {
    py::tuple tuple(parts.size());
    Py_ssize_t at = 0;
    for (const Handle part : parts) PyTuple_SET_ITEM(tuple.ptr(), at++, object_of(part));
    return tuple.release().ptr();
}

Handle PythonValues::give(std::shared_ptr<Kernel> kernel) {
    if (auto with_scratch = std::dynamic_pointer_cast<ScratchKernel>(kernel)) {
        return py::cast(std::move(with_scratch)).release().ptr();
    }
    return py::cast(std::move(kernel)).release().ptr();
}

Handle PythonValues::give(std::shared_ptr<const void> object, const char* type) {
    PyTypeObject* const python = declared_class(type)->type;
    const Handle instance = made(python->tp_alloc(python, 0));
    new (&static_cast<DeclaredObject*>(instance)->native) std::shared_ptr<const void>(std::move(object));
    return instance;
}

}  // namespace dgo
