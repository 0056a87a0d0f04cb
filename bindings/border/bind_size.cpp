// The type of sizes of a trace: arithmetic on polynomials, and comparisons that add conditions.
#include <limits>
#include <new>
#include <string>
#include <utility>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "border/size.hpp"
#include "border/translated.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

using Ask = Polynomials::Ask;

py::object taken(PyObject* object) {
    if (!object) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(object);
}

py::object pinned(SizeObject* size) { return integer_object(size->trace->pin(size->size())); }

// Operands of an operator, of which one is a size at least: integers and sizes of one trace.
struct Operands {
    enum class Kind { sizes, others, unknown };  // others: objects of Python, to which the operator is applied again

    Operands(PyObject* left, PyObject* right)
        : left(py::reinterpret_borrow<py::object>(left)), right(py::reinterpret_borrow<py::object>(right)) {
        SizeObject* const first = as_size(left);
        SizeObject* const second = as_size(right);
        trace = (first ? first : second)->trace.get();
        if (first) a = first->size();
        if (second) b = second->size();
        if (first && second) {
            if (second->trace.get() == trace) return;
            // a size of another trace is an integer here
            kind = Kind::others;
            this->right = pinned(second);
            if (trace->closed) this->left = integer_object(a.value);
            return;
        }
        PyObject* const other = first ? right : left;
        if (PyFloat_Check(other)) {
            kind = Kind::others;
            (first ? this->left : this->right) = py::float_(pinned(first ? first : second));
        } else if (PyLong_CheckExact(other)) {
            (first ? b : a) = {wide_of(other)};
        } else if (PyIndex_Check(other)) {
            (first ? b : a) = {wide_of(taken(PyNumber_Index(other)).ptr())};
        } else {
            kind = Kind::unknown;
        }
    }

    py::object left, right;
    SizeTrace* trace;
    Size a, b;
    Kind kind = Kind::sizes;
};

template <typename Result>
PyObject* binary(PyObject* left, PyObject* right, binaryfunc again, const Result& result) {
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        const Operands o(left, right);
        if (o.kind == Operands::Kind::unknown) return py::handle(Py_NotImplemented).inc_ref().ptr();
        if (o.kind == Operands::Kind::others) return again(o.left.ptr(), o.right.ptr());
        return result(*o.trace, o.a, o.b).release().ptr();
    });
}

Size quotient_of(SizeTrace& trace, Size a, Size b) {
    if (b.value == 0) {
        // the divisor is 0 for these dims alone
        trace.holds(b, Ask::zero);
        PyErr_SetString(PyExc_ZeroDivisionError, "integer division or modulo by zero");
        throw py::error_already_set();
    }
    return trace.quotient(a, b);
}

Size remainder_of(SizeTrace& trace, Size a, Size b, Size quotient) {
    return trace.sum(a, trace.product(quotient, b), -1);
}

PyObject* add(PyObject* left, PyObject* right) {
    return binary(left, right, PyNumber_Add, [](auto& trace, Size a, Size b) { return trace.object(trace.sum(a, b)); });
}

PyObject* subtract(PyObject* left, PyObject* right) {
    return binary(left, right, PyNumber_Subtract,
                  [](auto& trace, Size a, Size b) { return trace.object(trace.sum(a, b, -1)); });
}

PyObject* multiply(PyObject* left, PyObject* right) {
    return binary(left, right, PyNumber_Multiply,
                  [](auto& trace, Size a, Size b) { return trace.object(trace.product(a, b)); });
}

PyObject* floor_divide(PyObject* left, PyObject* right) {
    return binary(left, right, PyNumber_FloorDivide,
                  [](auto& trace, Size a, Size b) { return trace.object(quotient_of(trace, a, b)); });
}

PyObject* remainder(PyObject* left, PyObject* right) {
    return binary(left, right, PyNumber_Remainder, [](auto& trace, Size a, Size b) {
        return trace.object(remainder_of(trace, a, b, quotient_of(trace, a, b)));
    });
}

PyObject* divmod(PyObject* left, PyObject* right) {
    return binary(left, right, PyNumber_Divmod, [](auto& trace, Size a, Size b) -> py::object {
        const Size quotient = quotient_of(trace, a, b);
        return py::make_tuple(trace.object(quotient), trace.object(remainder_of(trace, a, b, quotient)));
    });
}

// Operators that no polynomial expresses take the int of a size.
template <binaryfunc Operator>
PyObject* of_ints(PyObject* left, PyObject* right) {
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        const auto plain = [](PyObject* value) {
            SizeObject* const size = as_size(value);
            return size ? pinned(size) : py::reinterpret_borrow<py::object>(value);
        };
        return Operator(plain(left).ptr(), plain(right).ptr());
    });
}

PyObject* power_of_two(PyObject* left, PyObject* right) { return PyNumber_Power(left, right, Py_None); }
PyObject* power(PyObject* left, PyObject* right, PyObject* modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return of_ints<power_of_two>(left, right);
}

template <typename Result>
PyObject* unary(PyObject* object, const Result& result) {
    return translated<PyObject*>(nullptr, [&] { return result(*as_size(object)).release().ptr(); });
}

PyObject* negate(PyObject* object) {
    return unary(object, [](SizeObject& self) { return self.trace->object(self.trace->product(self.size(), {-1})); });
}

PyObject* itself(PyObject* object) { return py::handle(object).inc_ref().ptr(); }

PyObject* magnitude(PyObject* object) {
    return unary(object, [&](SizeObject& self) {
        return self.trace->holds(self.size(), Ask::below) ? taken(negate(object))
                                                          : py::reinterpret_borrow<py::object>(object);
    });
}

PyObject* to_int(PyObject* object) {
    return unary(object, [](SizeObject& self) { return pinned(&self); });
}

PyObject* to_float(PyObject* object) {
    return unary(object, [](SizeObject& self) -> py::object { return py::float_(pinned(&self)); });
}

int to_bool(PyObject* object) {
    return translated(-1, [&] {
        SizeObject& self = *as_size(object);
        return self.trace->holds(self.size(), Ask::zero) ? 0 : 1;
    });
}

PyObject* compare(PyObject* left, PyObject* right, int how) {
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        const Operands o(left, right);
        if (o.kind == Operands::Kind::unknown) Py_RETURN_NOTIMPLEMENTED;
        if (o.kind == Operands::Kind::others) return PyObject_RichCompare(o.left.ptr(), o.right.ptr(), how);
        const auto below = [&](Size a, Size b) { return o.trace->holds(o.trace->sum(a, b, -1), Ask::below); };
        bool answer = false;
        switch (how) {
            case Py_LT: answer = below(o.a, o.b); break;
            case Py_GE: answer = !below(o.a, o.b); break;
            case Py_GT: answer = below(o.b, o.a); break;
            case Py_LE: answer = !below(o.b, o.a); break;
            default:
                answer = left == right || o.trace->holds(o.trace->sum(o.a, o.b, -1), Ask::zero);
                if (how == Py_NE) answer = !answer;
        }
        return py::bool_(answer).release().ptr();
    });
}

// Sizes and ints may be keys of one dictionary, and may be equal: a key that is there is compared, and adds its
// condition; one that is not there is missed, where other dims would have found it.
Py_hash_t hash(PyObject* object) {
    return translated<Py_hash_t>(-1,
                                 [&] { return PyObject_Hash(integer_object(as_size(object)->size().value).ptr()); });
}

PyObject* text(PyObject* object) {
    return unary(object, [](SizeObject& self) { return taken(PyObject_Str(integer_object(self.size().value).ptr())); });
}

PyObject* format(PyObject* object, PyObject* spec) {
    return unary(object, [&](SizeObject& self) {
        return taken(PyObject_Format(integer_object(self.size().value).ptr(), spec));
    });
}

// Attributes of int, such as bit_length, pin the size.
PyObject* attribute(PyObject* object, PyObject* name) {
    PyObject* const own = PyObject_GenericGetAttr(object, name);
    if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    return unary(object, [&](SizeObject& self) { return taken(PyObject_GetAttr(pinned(&self).ptr(), name)); });
}

PyObject* get_value(PyObject* object, void*) {
    return unary(object, [](SizeObject& self) { return integer_object(self.size().value); });
}

PyObject* get_number(PyObject* object, void*) { return PyLong_FromLong(as_size(object)->number); }

PyObject* get_trace(PyObject* object, void*) {
    return unary(object, [](SizeObject& self) { return py::cast(self.trace); });
}

void deallocate(PyObject* object) {
    SizeObject& self = *as_size(object);
    self.trace->objects[static_cast<std::size_t>(self.number)] = nullptr;
    self.trace.~shared_ptr();
    PyTypeObject* const type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

py::object new_type(const char* name) {
    static PyGetSetDef properties[] = {
        {"value", get_value, nullptr, "The value in the trace, without a condition.", nullptr},
        {"number", get_number, nullptr, "The number in the trace.", nullptr},
        {"trace", get_trace, nullptr, "The trace.", nullptr},
        {},
    };
    static PyMethodDef methods[] = {{"__format__", format, METH_O, nullptr}, {}};
    const auto slot = [](int id, auto* function) { return PyType_Slot{id, reinterpret_cast<void*>(function)}; };
    PyType_Slot slots[] = {
        slot(Py_nb_add, add),
        slot(Py_nb_subtract, subtract),
        slot(Py_nb_multiply, multiply),
        slot(Py_nb_floor_divide, floor_divide),
        slot(Py_nb_remainder, remainder),
        slot(Py_nb_divmod, divmod),
        slot(Py_nb_true_divide, of_ints<PyNumber_TrueDivide>),
        slot(Py_nb_and, of_ints<PyNumber_And>),
        slot(Py_nb_or, of_ints<PyNumber_Or>),
        slot(Py_nb_xor, of_ints<PyNumber_Xor>),
        slot(Py_nb_lshift, of_ints<PyNumber_Lshift>),
        slot(Py_nb_rshift, of_ints<PyNumber_Rshift>),
        slot(Py_nb_power, power),
        slot(Py_nb_negative, negate),
        slot(Py_nb_positive, itself),
        slot(Py_nb_absolute, magnitude),
        slot(Py_nb_int, to_int),
        slot(Py_nb_index, to_int),
        slot(Py_nb_float, to_float),
        slot(Py_nb_bool, to_bool),
        slot(Py_tp_richcompare, compare),
        slot(Py_tp_hash, hash),
        slot(Py_tp_repr, text),
        slot(Py_tp_getattro, attribute),
        slot(Py_tp_dealloc, deallocate),
        {Py_tp_getset, properties},
        {Py_tp_methods, methods},
        {Py_tp_doc, const_cast<char*>("A polynomial of the atoms of a trace, and its value in the trace.")},
        {},
    };
    PyType_Spec spec = {name, sizeof(SizeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return taken(PyType_FromSpec(&spec));
}

Size size_of(SizeTrace& trace, py::handle value) {
    SizeObject* const size = as_size(value.ptr());
    if (!size) return {wide_of(value.ptr())};
    return size->trace.get() == &trace ? size->size() : Size{size->trace->pin(size->size())};
}

py::list listed(SizeTrace& trace, const std::vector<Polynomials::Condition>& conditions) {
    py::list list;
    for (const auto& [number, ask, holds] : conditions)
        list.append(py::make_tuple(trace.object(trace.size(number)), ask == Ask::below ? "<" : "==", holds));
    return list;
}

// Finds and replaces sizes, and objects of a class of Python that calls returned, among arguments of native calls in a trace.
class Recording {
public:
    explicit Recording(py::type traced) : traced_(std::move(traced)) {}

    // A key of arguments, in which sizes are their numbers in the trace.
    py::object frozen(py::handle value) const {
        if (SizeObject* const size = as_size(value.ptr()))
            return py::make_tuple(py::handle(reinterpret_cast<PyObject*>(size_type)), size->number);
        if (is_traced(value)) return py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(value.ptr()));
        if (!PyTuple_Check(value.ptr()) && !PyList_CheckExact(value.ptr()))
            return py::reinterpret_borrow<py::object>(value);
        return mapped(value, true, [&](py::handle item) { return frozen(item); });
    }

    // Arguments with the values that sizes and objects have in the trace, in tuples and lists.
    py::object plain(py::handle value) const {
        if (SizeObject* const size = as_size(value.ptr())) return integer_object(size->size().value);
        if (is_traced(value)) return value.attr(value_);
        if (!PyTuple_CheckExact(value.ptr()) && !PyList_CheckExact(value.ptr())) {
            return py::reinterpret_borrow<py::object>(value);
        }
        return mapped(value, false, [&](py::handle item) { return plain(item); });
    }

    // The first size or traced object among arguments; None where they have none.
    py::object first(py::handle value) const {
        if (as_size(value.ptr()) || is_traced(value)) return py::reinterpret_borrow<py::object>(value);
        if (PyTuple_Check(value.ptr()) || PyList_CheckExact(value.ptr())) {
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value.ptr()); ++i) {
                py::object item = first(PySequence_Fast_GET_ITEM(value.ptr(), i));
                if (!item.is_none()) return item;
            }
        }
        return py::none();
    }

private:
    bool is_traced(py::handle value) const {
        return reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == traced_.ptr();
    }

    // Itself where no item changes, but a tuple of a list if `tuples`.
    template <typename Map>
    static py::object mapped(py::handle value, bool tuples, const Map& map) {
        const bool list = PyList_CheckExact(value.ptr());
        const Py_ssize_t size = PySequence_Fast_GET_SIZE(value.ptr());
        py::tuple items(size);
        bool changed = false;
        for (Py_ssize_t i = 0; i < size; ++i) {
            PyObject* const before = PySequence_Fast_GET_ITEM(value.ptr(), i);
            py::object item = map(before);
            changed = changed || item.ptr() != before;
            PyTuple_SET_ITEM(items.ptr(), i, item.release().ptr());
        }
        if (list && !tuples) return py::list(std::move(items));
        if (!changed && !list) return py::reinterpret_borrow<py::object>(value);
        return std::move(items);
    }

    const py::object traced_;
    const py::str value_{"value"};
};

}  // namespace

py::object SizeTrace::object(Size size) {
    if (!size.varies()) return integer_object(size.value);
    objects.resize(count(), nullptr);
    SizeObject*& object = objects[static_cast<std::size_t>(size.number)];
    if (object) return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(object));
    py::object made = taken(size_type->tp_alloc(size_type, 0));
    object = reinterpret_cast<SizeObject*>(made.ptr());
    new (&object->trace) std::shared_ptr<SizeTrace>(shared_from_this());
    object->number = size.number;
    return made;
}

py::object integer_object(Wide value) {
    const auto low = static_cast<long long>(value);
    if (low == value) return taken(PyLong_FromLongLong(low));
    const py::int_ high(static_cast<long long>(value >> 64)), bits(64);
    const py::object rest = taken(PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(value)));
    return taken(PyNumber_Or(taken(PyNumber_Lshift(high.ptr(), bits.ptr())).ptr(), rest.ptr()));
}

Wide wide_of(PyObject* integer) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(integer, &overflow);
    if (!overflow) {
        if (value == -1 && PyErr_Occurred()) throw py::error_already_set();
        return value;
    }
    const py::int_ bits(64);
    const long long high = PyLong_AsLongLong(taken(PyNumber_Rshift(integer, bits.ptr())).ptr());
    if (high == -1 && PyErr_Occurred()) throw py::error_already_set();
    return Wide(high) << 64 | PyLong_AsUnsignedLongLongMask(integer);
}

void bind_size(py::module_& m) {
    m.attr("Size") = new_type("dnnl_graph_ops._core.Size");
    size_type = reinterpret_cast<PyTypeObject*>(m.attr("Size").ptr());
    py::class_<SizeTrace, std::shared_ptr<SizeTrace>>(
        m, "SizeTrace",
        "Sizes that follow from unknown dims, and the conditions under which all answers about them hold.")
        .def(py::init<>())
        .def(
            "close", [](SizeTrace& trace) { trace.closed = true; }, "From here on, answers add no conditions.")
        .def(
            "dim",
            [](SizeTrace& trace, py::int_ value, py::int_ least, py::int_ most) {
                return trace.object(trace.atom(wide_of(value.ptr()), {wide_of(least.ptr()), wide_of(most.ptr())}));
            },
            py::arg("value"), py::arg("least"), py::arg("most"),
            "An unknown dim with its value in this trace, and its range in all dims that the trace is for.")
        .def(
            "bounds",
            [](SizeTrace& trace, py::handle size) {
                const auto [low, high] = trace.interval(size_of(trace, size));
                return py::make_tuple(integer_object(low), integer_object(high));
            },
            py::arg("size"), "The least and the largest value for all dims in the trace's range.")
        .def(
            "total",
            [](SizeTrace& trace, const std::vector<py::object>& sizes) {
                std::vector<Size> all;
                for (const py::object& size : sizes) all.push_back(size_of(trace, size));
                return trace.object(trace.total(all));
            },
            py::arg("sizes"), "The sum.")
        .def(
            "is_multiple",
            [](SizeTrace& trace, py::handle a, py::handle b) {
                return trace.is_multiple(size_of(trace, a), size_of(trace, b));
            },
            py::arg("a"), py::arg("b"), "Whether a is a multiple of b for all dims, where b is one product of atoms.")
        .def(
            "atom_of",
            [](SizeTrace& trace, py::handle size) {
                return trace.atoms_of(trace.terms(size_of(trace, size).number).at(0).first).at(0);
            },
            py::arg("size"), "The number of the atom that a size consists of.")
        .def(
            "answers", [](SizeTrace& trace) { return listed(trace, trace.conditions()); },
            "The conditions, in the order in which they were met: sizes that are below 0 or equal 0, or not.")
        .def(
            "begin_apart", [](SizeTrace& trace) { trace.begin_apart(); },
            "Conditions are apart from here on, and answers given again.")
        .def(
            "end_apart", [](SizeTrace& trace) { return listed(trace, trace.end_apart()); },
            "The conditions since `begin_apart`.");
    py::class_<Recording>(m, "Recording", "What a trace knows of arguments: sizes, and objects that calls returned.")
        .def(py::init<py::type>(), py::arg("traced"))
        .def("frozen", &Recording::frozen, py::arg("value"), "A key of arguments, in which sizes are their numbers.")
        .def("plain", &Recording::plain, py::arg("value"),
             "Arguments with the values that their sizes and objects have in the trace, without conditions.")
        .def("first", &Recording::first, py::arg("value"), "A size or a traced object among arguments, or None.");
}

}  // namespace dgo
