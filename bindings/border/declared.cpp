#include "border/declared.hpp"

#include <array>

#include "border/translated.hpp"
#include "border/values.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

constexpr size_t kMostParameters = 32;

// The signature as inspect reads it, operands and text.
std::string help_of(const Declaration& declared) {
    std::string signature;
    for (const Declaration::Parameter& parameter : declared.parameters) {
        signature += (signature.empty() ? "" : ", ") + parameter.name;
        if (!parameter.initial.empty()) signature += "=" + parameter.initial;
    }
    const std::string run = declared.operands.empty() ? "" : "run(" + declared.operands + ")";
    const std::string between = run.empty() ? "" : declared.text.empty() ? "." : ": ";
    return declared.name + "(" + signature + ")\n--\n\n" + run + between + declared.text;
}

size_t position_of(const DeclaredFunction& function, PyObject* keyword) {
    const size_t count = function.names.size();
    for (size_t i = 0; i < count; ++i) {
        if (function.names[i].ptr() == keyword) return i;
    }
    for (size_t i = 0; i < count; ++i) {
        if (PyUnicode_Compare(function.names[i].ptr(), keyword) == 0) return i;
    }
    return count;
}

[[noreturn]] void refuse(const DeclaredFunction& function, const char* problem, PyObject* name) {
    PyErr_Format(PyExc_TypeError, "%s() %s '%U'", function.declared.name.c_str(), problem, name);
    throw py::error_already_set();
}

PyObject* call_function(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    return translated<PyObject*>(nullptr, [&] {
        return (*static_cast<DeclaredFunction*>(PyCapsule_GetPointer(self, nullptr)))(arguments, count, keywords);
    });
}

PyObject* call_class(PyObject* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        for (const DeclaredClass& each : declared_classes()) {
            if (reinterpret_cast<PyObject*>(each.type) == self && each.constructor) {
                return (*each.constructor)(arguments, PyVectorcall_NARGS(count), keywords);
            }
        }
        return PyErr_Format(PyExc_TypeError, "cannot create '%s' instances",
                            reinterpret_cast<PyTypeObject*>(self)->tp_name);
    });
}

void dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    reinterpret_cast<DeclaredObject*>(self)->native.~shared_ptr();
    type->tp_free(self);
    Py_DECREF(type);
}

// Never freed: Python objects hold their addresses.
DeclaredFunction& function_of(const Declaration& declared) {
    static std::deque<DeclaredFunction>& all = *new std::deque<DeclaredFunction>;
    return all.emplace_back(declared);
}

py::object python_function(DeclaredFunction& function, const py::module_& m) {
    function.method = {function.declared.name.c_str(), as_method(call_function), METH_FASTCALL | METH_KEYWORDS,
                       function.text.c_str()};
    const py::capsule self(&function);
    return py::reinterpret_steal<py::object>(PyCFunction_NewEx(&function.method, self.ptr(), m.attr("__name__").ptr()));
}

void add_class(py::module_& m, const Declaration& declared) {
    DeclaredClass& added = declared_classes().emplace_back();
    added.name = declared.name;
    std::string doc = declared.text;
    if (declared.callable()) {
        added.constructor = &function_of(declared);
        doc = added.constructor->text;
    }
    added.path = py::cast<std::string>(m.attr("__name__")) + "." + declared.name;
    PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)}, {Py_tp_doc, doc.data()}, {0, nullptr}};
    PyType_Spec spec = {added.path.c_str(), sizeof(DeclaredObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    const auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
    if (!type) throw py::error_already_set();
    added.type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
    added.type->tp_vectorcall = call_class;
    m.attr(declared.name.c_str()) = type;
}

void add_function(py::module_& m, const Declaration& declared) {
    const py::object python = python_function(function_of(declared), m);
    const bool member = !declared.scope.empty();
    const py::object owner = member ? py::object(m.attr(declared.scope.c_str())) : m;
    py::object value = python;
    if (declared.plain) {
        const py::object property = py::module_::import("builtins").attr("property");
        value = declared.parameters.empty() ? python() : property(python, py::none(), py::none(), declared.text);
    } else if (member) {
        value = py::reinterpret_steal<py::object>(PyInstanceMethod_New(python.ptr()));
    }
    owner.attr(declared.name.c_str()) = value;
}

bool is_class(const Declaration& declared) { return declared.scope.empty() && declared.returns == declared.name; }

// A row for each declaration: scope, name, whether it is plain, parameters (name, type, default as text), what it
// returns, operands, text.
py::tuple table() {
    py::list rows;
    for (const Declaration* declared : declarations()) {
        py::list parameters;
        for (const Declaration::Parameter& p : declared->parameters) {
            parameters.append(py::make_tuple(p.name, p.type, p.initial));
        }
        rows.append(py::make_tuple(declared->scope, declared->name, declared->plain, py::tuple(parameters),
                                   declared->returns, declared->operands, declared->text));
    }
    return rows;
}

}  // namespace

DeclaredFunction::DeclaredFunction(const Declaration& declared) : declared(declared), text(help_of(declared)) {
    const py::object evaluate = py::module_::import("builtins").attr("eval");
    for (const Declaration::Parameter& parameter : declared.parameters) {
        names.push_back(py::reinterpret_steal<py::object>(PyUnicode_InternFromString(parameter.name.c_str())));
        const DeclaredClass* const of = parameter.initial == "..." ? declared_class(parameter.type) : nullptr;
        defaults.push_back(parameter.initial.empty() ? py::object()
                           : of ? py::reinterpret_steal<py::object>((*of->constructor)(nullptr, 0, nullptr))
                                : evaluate(parameter.initial));
    }
    if (names.size() > kMostParameters) throw std::logic_error(declared.name + " has too many parameters");
}

PyObject* DeclaredFunction::operator()(PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) const {
    const size_t count = names.size(), first = static_cast<size_t>(positional);
    if (first > count) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zu arguments, got %zd", declared.name.c_str(), count, positional);
        throw py::error_already_set();
    }
    std::array<Handle, kMostParameters> values;
    for (size_t i = 0; i < count; ++i) values[i] = i < first ? arguments[i] : nullptr;
    const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* const keyword = PyTuple_GET_ITEM(keywords, i);
        const size_t position = position_of(*this, keyword);
        if (position == count) refuse(*this, "has no argument", keyword);
        if (values[position]) refuse(*this, "got more than one value for", keyword);
        values[position] = arguments[positional + i];
    }
    for (size_t i = first; i < count; ++i) {
        if (!values[i]) values[i] = defaults[i].ptr();
        if (!values[i]) refuse(*this, "misses the argument", names[i].ptr());
    }
    PythonValues border(declared);
    return static_cast<PyObject*>(declared.call(border, values.data()));
}

std::deque<DeclaredClass>& declared_classes() {
    static std::deque<DeclaredClass> all;
    return all;
}

const DeclaredClass* declared_class(std::string_view name) {
    for (const DeclaredClass& each : declared_classes()) {
        if (each.name == name) return &each;
    }
    return nullptr;
}

void bind_declared(py::module_& m) {
    const std::vector<const Declaration*> all = declarations();
    for (const Declaration* declared : all) {
        if (is_class(*declared)) add_class(m, *declared);
    }
    for (const Declaration* declared : all) {
        if (!is_class(*declared)) add_function(m, *declared);
    }
    m.def("table", table, "Every declaration of this module: scope, name, plain, parameters, returns, operands, text.");
}

}  // namespace dgo
