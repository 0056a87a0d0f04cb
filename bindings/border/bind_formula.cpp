// Formulas of sizes: programs on a stack of integers and Python objects, and how a trace becomes one.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "border/size.hpp"
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

// Writes a program: each atom, size and native call of a trace is computed once, before the first use.
class Writer {
public:
    // made_by: native objects and names of their attributes, by atoms. traced: the class of objects that calls returned.
    // functions: what the names of calls name.
    Writer(SizeTrace& trace, const std::vector<py::object>& dims, const py::dict& made_by, py::object traced,
           py::object functions)
        : trace_(trace), made_by_(made_by), traced_(std::move(traced)), functions_(std::move(functions)) {
        for (const py::object& dim : dims) atoms_[only_atom(as_size(dim.ptr())->number)] = kept_++;
    }

    void require(const py::tuple& condition) {
        const py::object operand = condition[0], how = condition[1], holds = condition[2];
        if (PyTuple_Check(operand.ptr())) {
            const py::tuple pair = operand;
            emit({kValue, call(pair[0])});
            if (py::len(pair[1])) emit({kAttribute, constant(pair[1])});
            push(holds);
            emit({kEqual});
        } else {
            push(operand);
            emit({how.cast<std::string>() == "<" ? kBelow : kZero, holds.cast<bool>() ? 1 : 0});
        }
    }

    // Whether a condition depends on a native call, which takes longer than numbers.
    bool calls(py::handle operand) {
        SizeObject* const size = as_size(operand.ptr());
        return size ? calls(size->size()) : PyTuple_Check(operand.ptr()) != 0;
    }

    // Leaves a value on top of the stack; a list becomes a tuple of it if `tuples`.
    void push(py::handle value, bool tuples = false) {
        PyObject* const object = value.ptr();
        const bool list = PyList_CheckExact(object);
        if (SizeObject* const size = as_size(object)) {
            emit({kValue, this->size(size->number)});
        } else if (is_traced(value)) {
            emit({kValue, call(value)});
        } else if (list || (PyTuple_CheckExact(object) && !are_ints(value))) {
            const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
            for (Py_ssize_t i = 0; i < count; ++i) push(PySequence_Fast_GET_ITEM(object, i), tuples);
            emit({list && !tuples ? kList : kTuple, count});
        } else {
            emit({kConstant, constant(value)});
        }
    }

    Formula formula(std::size_t dims) { return {dims, std::move(code_), py::tuple(constants_)}; }

private:
    void emit(std::initializer_list<std::int64_t> code) { code_.insert(code_.end(), code); }

    std::int64_t keep() {
        emit({kKeep});
        return kept_++;
    }

    bool is_traced(py::handle value) const {
        return reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) == traced_.ptr();
    }

    static bool are_ints(py::handle tuple) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.ptr()); ++i)
            if (!PyLong_CheckExact(PyTuple_GET_ITEM(tuple.ptr(), i))) return false;
        return true;
    }

    int only_atom(int size) const { return trace_.atoms_of(trace_.terms(size).at(0).first).at(0); }

    bool calls(Size size) {
        if (!size.varies()) return false;
        const auto known = calls_.find(size.number);
        if (known != calls_.end()) return known->second;
        bool any = false;
        for (const auto& term : trace_.terms(size.number)) {
            for (const int number : trace_.atoms_of(term.first)) {
                const auto& atom = trace_.atom(number);
                any = any || (atom.is_quotient ? calls(atom.a) || calls(atom.b) : made_by_.contains(number));
            }
        }
        return calls_[size.number] = any;
    }

    std::int64_t constant(py::handle value) {
        // equal numbers of several types are several constants
        PyObject* const object = value.ptr();
        const bool by_value = PyLong_CheckExact(object) || PyUnicode_CheckExact(object) ||
                              (PyTuple_CheckExact(object) && are_ints(value));
        const auto count = static_cast<std::int64_t>(constants_.size());
        std::int64_t number = count;
        if (by_value) {
            number = numbers_.attr("setdefault")(value, count).cast<std::int64_t>();
        } else {
            number = objects_.try_emplace(object, count).first->second;
        }
        if (number == count) constants_.append(value);
        return number;
    }

    // The numbers of values, which are computed before; they leave the stack as it is.
    std::int64_t size(int number) {
        const auto& terms = trace_.terms(number);
        if (terms.size() == 1 && terms[0].second == 1 && trace_.atoms_of(terms[0].first).size() == 1)
            return atom(only_atom(number));
        const auto known = sizes_.find(number);
        if (known != sizes_.end()) return known->second;
        std::vector<std::int64_t> sum{kSum, 0};
        for (const auto& [product, c] : terms) {
            std::vector<std::int64_t> factors;
            for (const int factor : trace_.atoms_of(product)) factors.push_back(atom(factor));
            for (const std::int64_t part : parts(c)) {
                ++sum[1];
                sum.insert(sum.end(), {part, static_cast<std::int64_t>(factors.size())});
                sum.insert(sum.end(), factors.begin(), factors.end());
            }
        }
        code_.insert(code_.end(), sum.begin(), sum.end());
        return sizes_[number] = keep();
    }

    // Numbers of 64 bits whose sum is the coefficient; the open end of a slice is 2**63 - 1, or near it.
    static std::vector<std::int64_t> parts(Wide coefficient) {
        if (static_cast<std::int64_t>(coefficient) == coefficient) return {static_cast<std::int64_t>(coefficient)};
        if (coefficient >= Wide(1) << 65 || coefficient <= -(Wide(1) << 65))
            throw std::overflow_error("a size has a coefficient of more than 66 bits");
        const Wide half = coefficient / 2;
        std::vector<std::int64_t> all = parts(half), rest = parts(coefficient - half);
        all.insert(all.end(), rest.begin(), rest.end());
        return all;
    }

    std::int64_t atom(int number) {
        const auto known = atoms_.find(number);
        if (known != atoms_.end()) return known->second;
        const auto& atom = trace_.atom(number);
        std::int64_t value = 0;
        if (atom.is_quotient) {
            for (const Size size : {atom.a, atom.b}) push(trace_.object(size));
            emit({kQuotient});
            value = keep();
        } else if (!made_by_.contains(number)) {
            throw std::runtime_error("a formula depends on a dim that it does not take");
        } else {
            const py::tuple made = made_by_[py::int_(number)];
            value = call(made[0]);
            if (py::len(made[1])) {
                emit({kValue, value, kAttribute, constant(made[1])});
                value = keep();
            }
        }
        return atoms_[number] = value;
    }

    std::int64_t call(py::handle traced) {
        const auto known = objects_called_.find(traced.ptr());
        if (known != objects_called_.end()) return known->second;
        const py::object what = traced.attr(call_);
        const py::tuple args = traced.attr(args_);
        if (PyLong_Check(what.ptr())) {
            push(args[0]);
            emit({kItem, what.cast<std::int64_t>()});
        } else {
            const py::dict keywords = traced.attr(keywords_);
            const bool by_name = PyUnicode_Check(what.ptr());
            if (!by_name) push(py::tuple(what)[0]);
            for (const py::handle value : args) push(value, true);
            py::list names;
            for (const auto& [name, value] : keywords) {
                push(value, true);
                names.append(name);
            }
            const py::object function = by_name ? functions_.attr(what) : py::object(py::tuple(what)[1]);
            const std::int64_t number = constant(function), listed = constant(py::tuple(names));
            emit({by_name ? kCall : kMethod, number, static_cast<std::int64_t>(args.size() + keywords.size()), listed});
        }
        return objects_called_[traced.ptr()] = keep();
    }

    SizeTrace& trace_;
    const py::dict made_by_;
    const py::object traced_, functions_;
    std::vector<std::int64_t> code_;
    std::int64_t kept_ = 0;
    // numbers of values: of atoms, sizes and results of calls; and of constants
    std::unordered_map<int, std::int64_t> atoms_, sizes_;
    std::unordered_map<PyObject*, std::int64_t> objects_called_, objects_;
    std::unordered_map<int, bool> calls_;
    py::dict numbers_;
    py::list constants_;
    const py::str call_{"call"}, args_{"args"}, keywords_{"keywords"};
};

Formula written(SizeTrace& trace, const std::vector<py::object>& dims, const std::vector<py::tuple>& conditions,
                py::handle result, const py::dict& made_by, py::object traced, py::object functions) {
    Writer writer(trace, dims, made_by, std::move(traced), std::move(functions));
    for (const bool late : {false, true})
        for (const py::tuple& condition : conditions)
            if (writer.calls(condition[0]) == late) writer.require(condition);
    writer.push(result);
    return writer.formula(dims.size());
}

}  // namespace

void bind_formula(py::module_& m) {
    py::class_<Formula>(m, "Formula",
                        "A program on a stack of integers and objects, whose first values are `dims` integers.")
        .def(py::init<std::size_t, std::vector<std::int64_t>, py::tuple>(), py::arg("dims"), py::arg("code"),
             py::arg("constants"), "Raises InvalidArgumentError for code that is no program.")
        .def("__call__", &Formula::operator(), py::arg("dims"),
             "The result for these dims; None where a condition does not hold, or a number has more than 64 bits.")
        .def_static("written", &written, py::arg("trace"), py::arg("dims"), py::arg("conditions"), py::arg("result"),
                    py::arg("made_by"), py::arg("traced"), py::arg("functions"),
                    "The function of dims that returns what a trace returned, or None where a condition does not hold.")
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
