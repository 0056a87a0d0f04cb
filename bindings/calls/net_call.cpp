// NetBase: the callable that compile.Net derives from. A call that an already made plan fits is served here;
// everything else, every mistake included, goes to the Python method _slow_call.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "calls/call.hpp"
#include "common/error.hpp"

#include <structmember.h>  // after Python.h

namespace dgo {
namespace {

struct Plan {
    PlanRef ref;
    bool explicit_out_strides;
};

struct Net {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject* names;  // tuple of str; null until __init__
    std::size_t outputs;
    bool out_is_input;  // an input has that name, so no results can be given
    std::size_t capacity;
    std::vector<Plan>* plans;  // the one used last comes first
};

constexpr std::size_t kDefaultCapacity = 8;
PyObject* str_out = nullptr;
PyObject* str_slow_call = nullptr;

Net& as_net(PyObject* self) { return *reinterpret_cast<Net*>(self); }

bool fits(const Plan& plan, const Call& call) {
    const Executor& core = plan.ref.plan->core;
    for (std::size_t i = 0; i < call.inputs; ++i)
        if (!matches(core.inputs()[i].layout, call.input(i))) return false;
    if (!call.out_given) return !plan.explicit_out_strides;
    for (std::size_t o = 0; o < call.outputs; ++o)
        if (!matches(core.outputs()[o].layout, call.output(o))) return false;
    return true;
}

// Index of an input's name, or the number of inputs.
std::size_t find_name(const Net& net, std::size_t inputs, PyObject* key) {
    for (std::size_t i = 0; i < inputs; ++i)
        if (PyTuple_GET_ITEM(net.names, static_cast<Py_ssize_t>(i)) == key) return i;
    for (std::size_t i = 0; i < inputs; ++i)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(net.names, static_cast<Py_ssize_t>(i)), key) == 0) return i;
    return inputs;
}

bool is_out(PyObject* key) { return key == str_out || PyUnicode_Compare(key, str_out) == 0; }

// Sorts the arguments of a call into inputs and results; false for anything unusual.
bool read_arguments(
    const Net& net, PyObject* const* args, std::size_t positional, PyObject* keywords, Call& call) {
    if (!net.names) return false;
    const auto inputs = static_cast<std::size_t>(PyTuple_GET_SIZE(net.names));
    if (inputs > kMaxArguments || net.outputs > kMaxArguments || positional > inputs) return false;
    for (std::size_t i = 0; i < inputs; ++i) call.in[i] = i < positional ? args[i] : nullptr;
    call.inputs = inputs;
    PyObject* out = nullptr;
    const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t k = 0; k < named; ++k) {
        PyObject* const key = PyTuple_GET_ITEM(keywords, k);
        PyObject* const value = args[static_cast<Py_ssize_t>(positional) + k];
        if (!net.out_is_input && is_out(key)) {
            out = value;
            continue;
        }
        const std::size_t i = find_name(net, inputs, key);
        if (i == inputs || call.in[i]) return false;
        call.in[i] = value;
    }
    for (std::size_t i = 0; i < inputs; ++i)
        if (!call.in[i] || !exact_array(call.in[i])) return false;
    return call.set_out(out, net.outputs);
}

PyObject* slow_call(PyObject* self, PyObject* const* args, std::size_t positional, PyObject* keywords) {
    return translated<PyObject*>(nullptr, [&] {
        py::tuple tuple(positional);
        for (std::size_t i = 0; i < positional; ++i) tuple[i] = py::handle(args[i]);
        py::dict dict;
        const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
        for (Py_ssize_t k = 0; k < named; ++k)
            dict[PyTuple_GET_ITEM(keywords, k)] = py::handle(args[static_cast<Py_ssize_t>(positional) + k]);
        return gil::waiting(
            [&] { return PyObject_CallMethodObjArgs(self, str_slow_call, tuple.ptr(), dict.ptr(), nullptr); });
    });
}

void bring_to_front(std::vector<Plan>& plans, std::size_t p) {
    const auto at = plans.begin() + static_cast<std::ptrdiff_t>(p);
    if (p) std::rotate(plans.begin(), at, at + 1);
}

PyObject* net_call(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* keywords) {
    const Net& net = as_net(self);
    const auto positional = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
    Call call;
    if (read_arguments(net, args, positional, keywords, call)) {
        std::vector<Plan>& plans = *net.plans;
        for (std::size_t p = 0; p < plans.size(); ++p) {
            if (!fits(plans[p], call)) continue;
            if (!call.results_are_apart(plans[p].ref.plan->core)) break;
            bring_to_front(plans, p);
            return run_call(plans.front().ref, call);
        }
    }
    return slow_call(self, args, positional, keywords);
}

// The plans leave the list before they are dropped: dropping may run any Python code.
void shrink(Net& net, std::size_t size) {
    std::vector<Plan> surplus;
    while (net.plans->size() > size) {
        surplus.push_back(std::move(net.plans->back()));
        net.plans->pop_back();
    }
}

PyObject* net_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* const self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    Net& net = as_net(self);
    net.vectorcall = &net_call;
    net.capacity = kDefaultCapacity;
    net.plans = new (std::nothrow) std::vector<Plan>;
    if (!net.plans) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
#if PY_VERSION_HEX < 0x030C0000
    // a class made in Python does not inherit the flag yet, only the slots it stands for
    if (type->tp_call == &PyVectorcall_Call && type->tp_vectorcall_offset == offsetof(Net, vectorcall))
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#endif
    return self;
}

int net_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"names", "n_outputs", nullptr};
    PyObject *sequence, *count;
    std::size_t outputs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:NetBase", const_cast<char**>(keywords), &sequence, &count) ||
        !read_size(count, "n_outputs", outputs))
        return -1;
    PyObject* const names = PySequence_Tuple(sequence);
    if (!names) return -1;
    bool out_is_input = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
        PyObject* name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) {
            PyErr_Format(PyExc_TypeError, "names must be strings, got %s", Py_TYPE(name)->tp_name);
            Py_DECREF(names);
            return -1;
        }
        out_is_input |= is_out(name);
    }
    Net& net = as_net(self);
    shrink(net, 0);
    net.outputs = outputs;
    net.out_is_input = out_is_input;
    Py_XSETREF(net.names, names);
    return 0;
}

int net_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const Net& net = as_net(self);
    Py_VISIT(net.names);
    if (net.plans)
        for (const Plan& plan : *net.plans) Py_VISIT(plan.ref.executor.ptr());
    return 0;
}

int net_clear(PyObject* self) {
    Net& net = as_net(self);
    if (net.plans) shrink(net, 0);
    Py_CLEAR(net.names);
    return 0;
}

void net_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    net_clear(self);
    delete as_net(self).plans;
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* net_add_plan(PyObject* self, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"executor", "explicit_out_strides", nullptr};
    PyObject* executor;
    int explicit_out_strides = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O|p:_add_plan", const_cast<char**>(keywords), &executor, &explicit_out_strides))
        return nullptr;
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        Net& net = as_net(self);
        const Executor& core = py::handle(executor).cast<ExecutorObject&>().core;
        const auto inputs = net.names ? static_cast<std::size_t>(PyTuple_GET_SIZE(net.names)) : 0;
        if (core.inputs().size() != inputs || core.outputs().size() != net.outputs)
            fail(ErrorKind::invalid_argument, core.name() + ": the net has " + std::to_string(inputs) +
                    " inputs and " + std::to_string(net.outputs) + " outputs, the plan " +
                    std::to_string(core.inputs().size()) + " and " + std::to_string(core.outputs().size()));
        if (!explicit_out_strides) require_row_major_results(core);
        const auto known = std::find_if(net.plans->begin(), net.plans->end(),
            [&](const Plan& plan) { return plan.ref.executor.ptr() == executor; });
        if (known != net.plans->end()) {
            known->explicit_out_strides &= explicit_out_strides != 0;
            bring_to_front(*net.plans, static_cast<std::size_t>(known - net.plans->begin()));
            Py_RETURN_NONE;
        }
        PlanRef ref(py::reinterpret_borrow<py::object>(executor));
        net.plans->insert(net.plans->begin(), Plan{std::move(ref), explicit_out_strides != 0});
        shrink(net, net.capacity);
        Py_RETURN_NONE;
    });
}

PyObject* net_set_capacity(PyObject* self, PyObject* argument) {
    if (!read_size(argument, "the capacity", as_net(self).capacity)) return nullptr;
    shrink(as_net(self), as_net(self).capacity);
    Py_RETURN_NONE;
}

PyObject* net_clear_plans(PyObject* self, PyObject*) {
    shrink(as_net(self), 0);
    Py_RETURN_NONE;
}

PyObject* net_plans(PyObject* self, PyObject*) {
    return translated<PyObject*>(nullptr, [&] {
        py::list list;
        for (const Plan& plan : *as_net(self).plans) list.append(plan.ref.executor);
        return PyList_AsTuple(list.ptr());
    });
}

PyMethodDef methods[] = {
    {"_add_plan", as_method(&net_add_plan), METH_VARARGS | METH_KEYWORDS,
        "Serve calls that the plan's declared arrays fit; with explicit_out_strides only calls that give out=."},
    {"_set_capacity", &net_set_capacity, METH_O, "Keep so many plans, those used last."},
    {"_clear_plans", &net_clear_plans, METH_NOARGS, "Forget all plans."},
    {"_native_plans", &net_plans, METH_NOARGS, "The plans, the one used last first."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Net, vectorcall), READONLY, nullptr},
    {"_input_names", T_OBJECT, offsetof(Net, names), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A callable over compiled plans; a subclass provides _slow_call(args, kwargs).")},
    {Py_tp_new, reinterpret_cast<void*>(&net_new)},
    {Py_tp_init, reinterpret_cast<void*>(&net_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&net_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&net_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&net_clear)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"dnnl_graph_ops._core.NetBase", sizeof(Net), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

PyObject* make_net_type() {
    str_out = PyUnicode_InternFromString("out");
    str_slow_call = PyUnicode_InternFromString("_slow_call");
    PyObject* const type = str_out && str_slow_call ? PyType_FromSpec(&spec) : nullptr;
    if (!type) throw py::error_already_set();
    return type;
}

}  // namespace dgo
