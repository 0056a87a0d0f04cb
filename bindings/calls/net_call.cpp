// NetBase: the callable that compile.Net derives from. A call that an already made plan fits is served here;
// everything else, every mistake included, goes to the Python method _slow_call.
#include <cstddef>
#include <new>

#include "calls/plan_store.hpp"
#include "common/error.hpp"

#include <structmember.h>  // after Python.h

namespace dgo {
namespace {

struct Net {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* names;  // tuple of str; null until __init__
    PyObject* plans;  // a PlanCache; null until __init__
    PlanStore* store;  // inside it
    std::size_t outputs;
    bool out_is_input;    // an input has that name, so no results can be given
    bool row_major;  // new results are
};

PyObject* str_out = nullptr;
PyObject* str_slow_call = nullptr;

Net& as_net(PyObject* self) { return *reinterpret_cast<Net*>(self); }

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
bool read_arguments(const Net& net, PyObject* const* args, std::size_t positional, PyObject* keywords, Call& call) {
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

// A call that grew out of memory is served by Python like any other unusual one.
const PlanRef* plan_for(const Net& net, PyObject* const* args, std::size_t positional, PyObject* keywords,
                        Call& call) noexcept {
    if (!read_arguments(net, args, positional, keywords, call) || !(call.out_given || net.row_major)) return nullptr;
    if (const PlanRef* const plan = net.store->serve_again(call)) return plan;
    try {
        Key key;
        for (std::size_t i = 0; i < call.inputs; ++i)
            if (!key.add(call.in[i])) return nullptr;
        return key.add_results(call) ? net.store->serve(key, call) : nullptr;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

PyObject* net_call(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* keywords) {
    const auto positional = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
    Call call;
    if (const PlanRef* const plan = plan_for(as_net(self), args, positional, keywords, call))
        return run_call(*plan, call);
    return slow_call(self, args, positional, keywords);
}

PyObject* net_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* const self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    as_net(self).vectorcall = &net_call;
#if PY_VERSION_HEX < 0x030C0000
    // a class made in Python does not inherit the flag yet, only the slots it stands for
    if (type->tp_call == &PyVectorcall_Call && type->tp_vectorcall_offset == offsetof(Net, vectorcall))
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#endif
    return self;
}

int net_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"names", "n_outputs", "plans", "row_major", nullptr};
    PyObject *sequence, *count, *plans;
    int row_major = 1;
    std::size_t outputs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|p:NetBase", const_cast<char**>(keywords), &sequence, &count,
                                     &plans, &row_major) ||
        !read_size(count, "n_outputs", outputs))
        return -1;
    PlanStore* const store = store_in(plans);
    if (!store) return -1;
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
    net.outputs = outputs;
    net.out_is_input = out_is_input;
    net.row_major = row_major != 0;
    net.store = store;
    Py_INCREF(plans);
    Py_XSETREF(net.plans, plans);
    Py_XSETREF(net.names, names);
    return 0;
}

int net_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const Net& net = as_net(self);
    Py_VISIT(net.names);
    Py_VISIT(net.plans);
    return 0;
}

int net_clear(PyObject* self) {
    Net& net = as_net(self);
    Py_CLEAR(net.names);  // first: a net without names asks no plans
    Py_CLEAR(net.plans);
    return 0;
}

void net_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    net_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Net, vectorcall), READONLY, nullptr},
    {"_input_names", T_OBJECT, offsetof(Net, names), READONLY, nullptr},
    {"_plans", T_OBJECT, offsetof(Net, plans), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot net_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("A callable over compiled plans. Calls that no plan fits go to the subclass's `_slow_call`.")},
    {Py_tp_new, reinterpret_cast<void*>(&net_new)},
    {Py_tp_init, reinterpret_cast<void*>(&net_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&net_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&net_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&net_clear)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec net_spec = {"dnnl_graph_ops._core.NetBase", sizeof(Net), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                        net_slots};

}  // namespace

PyObject* make_net_type() {
    str_out = PyUnicode_InternFromString("out");
    str_slow_call = PyUnicode_InternFromString("_slow_call");
    PyObject* const type = str_out && str_slow_call ? PyType_FromSpec(&net_spec) : nullptr;
    if (!type) throw py::error_already_set();
    return type;
}

}  // namespace dgo
