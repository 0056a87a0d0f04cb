// Formulas of sizes, which symbolic/formula.py writes: programs on a stack of integers and Python objects.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "common/error.hpp"

namespace py = pybind11;

namespace dgo {
namespace {

// Each with its operands in the code, then what it does to the stack.
enum Op : std::int64_t {
    kConstant,   // number of a constant: pushes it
    kValue,      // number of a value: pushes it; the dims are the first values
    kTuple,      // count: pops so many, pushes a tuple of them
    kList,       // count
    kSum,        // count of terms, each a coefficient, a count and numbers of values: pushes the sum of the products
    kQuotient,   // pops a and b, pushes the floor of a / b
    kCall,       // constant of a function, count, constant of a tuple of names: pops arguments, pushes the result
    kMethod,     // constant of a name, count, constant of a tuple of names: pops the object, too
    kAttribute,  // constant of a name: pops an object, pushes its attribute
    kItem,       // index: pops a sequence, pushes its item
    kKeep,       // pops the next value
    kBelow,      // 0 or 1: pops an integer; there is no result unless it is below 0 just then
    kZero,       // 0 or 1: as kBelow, for integers that equal 0
    kEqual,      // pops two; there is no result unless they are equal
};
constexpr std::pair<const char*, Op> kNames[] = {
    {"CONSTANT", kConstant}, {"VALUE", kValue}, {"TUPLE", kTuple},   {"LIST", kList},           {"SUM", kSum},
    {"QUOTIENT", kQuotient}, {"CALL", kCall},   {"METHOD", kMethod}, {"ATTRIBUTE", kAttribute}, {"ITEM", kItem},
    {"KEEP", kKeep},         {"BELOW", kBelow}, {"ZERO", kZero},     {"EQUAL", kEqual},
};

[[noreturn]] void wrong(const std::string& what) { fail(ErrorKind::invalid_argument, "a formula of sizes " + what); }

// Thrown where the formula is not for these sizes.
struct NotForThese {};

// An integer or a Python object, or both: an integer becomes an object where one is needed, once for all of its uses.
struct Slot {
    Slot(std::int64_t number = 0) : number(number), is_number(true) {}
    Slot(py::object item) : object(std::move(item)) {}
    std::int64_t integer() const {
        if (is_number) return number;
        int overflow = 0;
        const std::int64_t value =
            PyLong_CheckExact(object.ptr()) ? PyLong_AsLongLongAndOverflow(object.ptr(), &overflow) : (overflow = 1);
        if (overflow) wrong("computes with what is no integer of 64 bits");
        return value;
    }
    const py::object& boxed() {
        if (!object) object = py::int_(number);
        return object;
    }

    py::object object;
    std::int64_t number = 0;
    bool is_number = false;
};

class Stack {
public:
    explicit Stack(std::size_t most) { slots_.reserve(most); }
    void push(Slot slot) { slots_.push_back(std::move(slot)); }
    Slot pop() {
        Slot slot = std::move(slots_.back());
        slots_.pop_back();
        return slot;
    }
    // Fills `objects` with the last `count`, which stay on the stack.
    void last(std::size_t count, std::vector<PyObject*>& objects) {
        objects.clear();
        for (std::size_t i = slots_.size() - count; i < slots_.size(); ++i) objects.push_back(slots_[i].boxed().ptr());
    }
    void drop(std::size_t count) { slots_.resize(slots_.size() - count); }

private:
    std::vector<Slot> slots_;
};

class Formula {
public:
    Formula(std::size_t dims, std::vector<std::int64_t> code, py::tuple constants)
        : dims_(dims), code_(std::move(code)), constants_(std::move(constants)) {
        check();
    }

    py::object operator()(const std::vector<std::int64_t>& dims) const {
        if (dims.size() != dims_) wrong("takes " + std::to_string(dims_) + " dims, got " + std::to_string(dims.size()));
        std::vector<Slot> values;
        values.reserve(kept_);
        for (const std::int64_t dim : dims) values.emplace_back(dim);
        try {
            return run(values);
        } catch (const NotForThese&) {
            return py::none();
        }
    }

private:
    // Refuses code that reads beyond its end, its constants, the stack, or values that are not kept yet.
    void check();
    py::object run(std::vector<Slot>& values) const;
    PyObject* constant(std::int64_t number) const {
        return PyTuple_GET_ITEM(constants_.ptr(), static_cast<Py_ssize_t>(number));
    }
    void require_names(std::size_t at, std::size_t count) const;
    Slot sum(const std::int64_t*& at, const std::vector<Slot>& values) const;

    std::size_t dims_;
    std::vector<std::int64_t> code_;
    py::tuple constants_;
    std::size_t kept_ = 0, deepest_ = 0;
};

void Formula::check() {
    std::size_t at = 0, depth = 0;
    kept_ = dims_;
    const auto next = [&] {
        if (at == code_.size()) wrong("ends within an instruction");
        return code_[at++];
    };
    const auto below = [&](std::size_t most, const char* what) {
        const std::int64_t number = next();
        if (number < 0 || static_cast<std::uint64_t>(number) >= most)
            wrong(std::string("has no ") + what + " " + std::to_string(number));
        return static_cast<std::size_t>(number);
    };
    const auto constant = [&](bool (*is_right)(py::handle)) {
        if (!is_right(constants_[below(constants_.size(), "constant")])) wrong("has a constant of another type");
    };
    const auto any = [](py::handle) { return true; };
    const auto is_name = [](py::handle item) { return PyUnicode_CheckExact(item.ptr()) != 0; };
    const auto are_names = [](py::handle item) { return PyTuple_CheckExact(item.ptr()) != 0; };
    const auto replace = [&](std::size_t popped) {
        if (popped > depth) wrong("takes more from its stack than lies there");
        depth += 1 - popped;
        deepest_ = std::max(deepest_, depth);
    };
    while (at < code_.size()) {
        switch (next()) {
            case kConstant:
                constant(any);
                replace(0);
                break;
            case kValue:
                below(kept_, "value");
                replace(0);
                break;
            case kTuple:
            case kList: replace(below(depth + 1, "count")); break;
            case kSum:
                for (std::size_t terms = below(code_.size(), "count"); terms > 0; --terms) {
                    next();
                    for (std::size_t factors = below(code_.size(), "count"); factors > 0; --factors)
                        below(kept_, "value");
                }
                replace(0);
                break;
            case kQuotient: replace(2); break;
            case kCall: {
                constant(any);
                const std::size_t count = below(depth + 1, "count");
                constant(are_names);
                require_names(at, count);
                replace(count);
                break;
            }
            case kMethod: {
                constant(is_name);
                const std::size_t count = below(depth + 1, "count");
                constant(are_names);
                require_names(at, count);
                replace(count + 1);
                break;
            }
            case kAttribute:
                constant(is_name);
                replace(1);
                break;
            case kItem:
                next();
                replace(1);
                break;
            case kKeep:
                replace(1);
                --depth;
                ++kept_;
                break;
            case kBelow:
            case kZero:
                below(2, "answer");
                replace(1);
                --depth;
                break;
            case kEqual:
                replace(2);
                --depth;
                break;
            default: wrong("has an unknown instruction");
        }
    }
    if (depth != 1) wrong("returns " + std::to_string(depth) + " results");
}

// Checks that the call whose operands end at `at` has at least as many arguments (`count`) as names.
void Formula::require_names(std::size_t at, std::size_t count) const {
    if (static_cast<std::size_t>(PyTuple_GET_SIZE(constant(code_[at - 1]))) > count)
        wrong("names more arguments than there are");
}

// In 128 bits: an operand may be beyond 64 where the sum is not, as in 2**63 - n.
Slot Formula::sum(const std::int64_t*& at, const std::vector<Slot>& values) const {
    __extension__ using Wide = __int128;
    Wide total = 0;
    bool overflow = false;
    for (std::int64_t terms = *at++; terms > 0; --terms) {
        Wide product = *at++;
        for (std::int64_t factors = *at++; factors > 0; --factors) {
            const Wide factor = values[static_cast<std::size_t>(*at++)].integer();
            overflow |= __builtin_mul_overflow(product, factor, &product);
        }
        overflow |= __builtin_add_overflow(total, product, &total);
    }
    std::int64_t result = 0;
    if (overflow | __builtin_add_overflow(total, Wide(0), &result)) throw NotForThese();
    return result;
}

py::object Formula::run(std::vector<Slot>& values) const {
    Stack stack(deepest_);
    std::vector<PyObject*> objects;
    const auto count = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    const auto called = [&](PyObject* function, PyObject* method, std::size_t arguments, PyObject* names) {
        stack.last(arguments + (method ? 1 : 0), objects);
        const std::size_t size = objects.size(), named = static_cast<std::size_t>(PyTuple_GET_SIZE(names));
        PyObject* const result = method ? PyObject_VectorcallMethod(method, objects.data(), size - named, names)
                                        : PyObject_Vectorcall(function, objects.data(), size - named, names);
        if (!result) throw py::error_already_set();
        stack.drop(size);
        stack.push(py::reinterpret_steal<py::object>(result));
    };
    const auto collected = [&](py::object collection, std::size_t size, auto set) {
        stack.last(size, objects);
        for (std::size_t i = 0; i < size; ++i)
            set(collection.ptr(), static_cast<Py_ssize_t>(i), py::handle(objects[i]).inc_ref().ptr());
        stack.drop(size);
        stack.push(std::move(collection));
    };
    const std::int64_t* at = code_.data();
    const std::int64_t* const end = at + code_.size();
    while (at < end) {
        switch (*at++) {
            case kConstant: stack.push(py::reinterpret_borrow<py::object>(constant(*at++))); break;
            case kValue:
                values[count(*at)].boxed();
                stack.push(values[count(*at++)]);
                break;
            case kTuple: {
                const std::size_t size = count(*at++);
                collected(py::tuple(size), size,
                          [](PyObject* tuple, Py_ssize_t i, PyObject* item) { PyTuple_SET_ITEM(tuple, i, item); });
                break;
            }
            case kList: {
                const std::size_t size = count(*at++);
                collected(py::list(size), size,
                          [](PyObject* list, Py_ssize_t i, PyObject* item) { PyList_SET_ITEM(list, i, item); });
                break;
            }
            case kSum: stack.push(sum(at, values)); break;
            case kQuotient: {
                const std::int64_t b = stack.pop().integer(), a = stack.pop().integer();
                if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) throw NotForThese();
                stack.push(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
                break;
            }
            case kCall: called(constant(at[0]), nullptr, count(at[1]), constant(at[2])), at += 3; break;
            case kMethod: called(nullptr, constant(at[0]), count(at[1]), constant(at[2])), at += 3; break;
            case kAttribute: {
                const py::object owner = stack.pop().boxed();
                stack.push(py::object(owner.attr(py::handle(constant(*at++)))));
                break;
            }
            case kItem: {
                const py::object owner = stack.pop().boxed();
                stack.push(py::object(owner[py::int_(*at++)]));
                break;
            }
            case kKeep: values.push_back(stack.pop()); break;
            case kBelow:
                if ((stack.pop().integer() < 0) != (*at++ != 0)) return py::none();
                break;
            case kZero:
                if ((stack.pop().integer() == 0) != (*at++ != 0)) return py::none();
                break;
            case kEqual: {
                const py::object wanted = stack.pop().boxed(), value = stack.pop().boxed();
                if (!value.equal(wanted)) return py::none();
                break;
            }
        }
    }
    return stack.pop().boxed();
}

// Finds and replaces sizes and traced objects, of two classes of Python, among arguments of native calls in a trace.
class Recording {
public:
    Recording(py::type size, py::type traced) : size_(std::move(size)), traced_(std::move(traced)) {}

    // A key of arguments, in which sizes are their numbers in the trace.
    py::object frozen(py::handle value) const {
        if (is(value, size_)) return py::make_tuple(size_, value.attr(number_));
        if (is(value, traced_)) return py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(value.ptr()));
        if (!PyTuple_Check(value.ptr()) && !PyList_CheckExact(value.ptr()))
            return py::reinterpret_borrow<py::object>(value);
        return mapped(value, true, [&](py::handle item) { return frozen(item); });
    }

    // Arguments with the values that sizes and objects have in the trace, in tuples and lists.
    py::object plain(py::handle value) const {
        if (is(value, size_) || is(value, traced_)) return value.attr(value_);
        if (!PyTuple_CheckExact(value.ptr()) && !PyList_CheckExact(value.ptr())) {
            return py::reinterpret_borrow<py::object>(value);
        }
        return mapped(value, false, [&](py::handle item) { return plain(item); });
    }

    // The first size or traced object among arguments; None where they have none.
    py::object first(py::handle value) const {
        if (is(value, size_) || is(value, traced_)) return py::reinterpret_borrow<py::object>(value);
        if (PyTuple_Check(value.ptr()) || PyList_CheckExact(value.ptr())) {
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value.ptr()); ++i) {
                py::object item = first(PySequence_Fast_GET_ITEM(value.ptr(), i));
                if (!item.is_none()) return item;
            }
        }
        return py::none();
    }

private:
    static bool is(py::handle value, const py::object& type) {
        return reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == type.ptr();
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

    py::object size_, traced_;
    py::str number_{"number"}, value_{"value"};
};

}  // namespace

void bind_formula(py::module_& m) {
    py::class_<Recording>(m, "Recording", "What a trace knows of arguments: sizes, and objects that calls returned.")
        .def(py::init<py::type, py::type>(), py::arg("size"), py::arg("traced"))
        .def("frozen", &Recording::frozen, py::arg("value"), "A key of arguments, in which sizes are their numbers.")
        .def("plain", &Recording::plain, py::arg("value"),
             "Arguments with the values that their sizes and objects have in the trace, without conditions.")
        .def("first", &Recording::first, py::arg("value"), "A size or a traced object among arguments, or None.");
    py::class_<Formula>(m, "Formula",
                        "A program on a stack of integers and objects, whose first values are `dims` integers.")
        .def(py::init<std::size_t, std::vector<std::int64_t>, py::tuple>(), py::arg("dims"), py::arg("code"),
             py::arg("constants"), "Raises InvalidArgumentError for code that is no program.")
        .def("__call__", &Formula::operator(), py::arg("dims"),
             "The result for these dims; None where a condition does not hold, or a number has more than 64 bits.")
        .def_static(
            "ops",
            [] {
                py::typing::Dict<py::str, py::int_> ops;
                for (const auto& [name, op] : kNames) ops[name] = static_cast<std::int64_t>(op);
                return ops;
            },
            "The numbers of the code's instructions, by name.");
}

}  // namespace dgo
