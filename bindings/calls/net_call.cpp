// NetBase: the callable base class of compile.Net. A call with an existing plan runs here; all other calls, wrong ones
// included, go to the Python method _slow_call.
#include <cstddef>
#include <memory>
#include <utility>

#include "calls/boxed.hpp"
#include "calls/plan_store.hpp"
#include "common/error.hpp"
#include "plan/call_scope.hpp"

namespace dgo {
namespace {

struct Net {
    template <typename Visit>
    int each(Visit&& visit) const {
        const int stop = visit(names.ptr());
        return stop ? stop : visit(plans.ptr());
    }
    void clear() {
        py::object dropped = std::move(names);  // first: a net without names asks no plans
        dropped = std::move(plans);
    }

    py::object names;  // tuple of str; null until __init__
    py::object plans;  // a PlanCache; null until __init__
    PlanStore* store = nullptr;  // inside it
    std::size_t outputs = 0;
    bool out_is_input = false;  // an input has that name, so no results can be given
    bool row_major = true;  // new results are
    int threads = 0;  // of its calls; 0: the default
};

PyObject* str_out = nullptr;
PyObject* str_slow_call = nullptr;

Net& as_net(PyObject* self) { return boxed<Net>(self); }

PyObject* name_of(const Net& net, std::size_t i) {
    return PyTuple_GET_ITEM(net.names.ptr(), static_cast<Py_ssize_t>(i));
}

// Index of an input's name, or the number of inputs.
std::size_t find_name(const Net& net, std::size_t inputs, PyObject* key) {
    for (std::size_t i = 0; i < inputs; ++i)
        if (name_of(net, i) == key) return i;
    for (std::size_t i = 0; i < inputs; ++i)
        if (PyUnicode_Compare(name_of(net, i), key) == 0) return i;
    return inputs;
}

bool is_out(PyObject* key) { return key == str_out || PyUnicode_Compare(key, str_out) == 0; }

// Sorts the arguments of a call into inputs and results; false for unusual arguments.
bool read_arguments(const Net& net, PyObject* const* args, std::size_t positional, PyObject* keywords, Call& call) {
    if (!net.names) return false;
    const auto inputs = static_cast<std::size_t>(PyTuple_GET_SIZE(net.names.ptr()));
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

PyObject* net_call(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* keywords) {
    const auto positional = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
    const Net& net = as_net(self);
    const call_scope::Threads threads(net.threads);
    Call call;
    if (read_arguments(net, args, positional, keywords, call) && (call.out_given || net.row_major))
        if (const PlanRef* const plan = net.store->serve({}, call)) return run_call(*plan, call);
    return slow_call(self, args, positional, keywords);
}

PyObject* net_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* const self =
        translated<PyObject*>(nullptr, [&] { return new_boxed(type, std::make_unique<Net>(), &net_call); });
#if PY_VERSION_HEX < 0x030C0000
    // a class made in Python does not inherit the flag yet, only the slots it stands for
    if (self && type->tp_call == &PyVectorcall_Call && type->tp_vectorcall_offset == offsetof(Boxed<Net>, vectorcall))
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
#endif
    return self;
}

int net_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"names", "n_outputs", "plans", "row_major", "threads", nullptr};
    PyObject *sequence, *count, *plans;
    int row_major = 1, threads = 0;
    std::size_t outputs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|pi:NetBase", const_cast<char**>(keywords), &sequence, &count,
                                     &plans, &row_major, &threads) ||
        !read_size(count, "n_outputs", outputs))
        return -1;
    PlanStore* const store = store_in(plans);
    if (!store) return -1;
    auto names = py::reinterpret_steal<py::object>(PySequence_Tuple(sequence));
    if (!names) return -1;
    bool out_is_input = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.ptr()); ++i) {
        PyObject* name = PyTuple_GET_ITEM(names.ptr(), i);
        if (!PyUnicode_CheckExact(name)) {
            PyErr_Format(PyExc_TypeError, "names must be strings, got %s", Py_TYPE(name)->tp_name);
            return -1;
        }
        out_is_input |= is_out(name);
    }
    Net& net = as_net(self);
    net.outputs = outputs;
    net.out_is_input = out_is_input;
    net.row_major = row_major != 0;
    net.threads = threads;
    net.store = store;
    const py::object before = std::exchange(net.plans, py::reinterpret_borrow<py::object>(plans));
    std::swap(net.names, names);
    return 0;
}

template <py::object Net::* member>
PyObject* get(PyObject* self, void*) {
    const py::object& value = as_net(self).*member;
    return (value ? value : py::none()).inc_ref().ptr();
}

PyGetSetDef getters[] = {
    {"_input_names", &get<&Net::names>, nullptr, nullptr, nullptr},
    {"_plans", &get<&Net::plans>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// Puts a docstring on __call__, whose text for all types is "Call self as a function.". The descriptor stays a slot
// wrapper with the slot's name and function, so that Python classes derived from the type inherit the vector call.
void document_call(PyTypeObject* type) {
    static wrapperbase base;
    auto* const wrapper =
        reinterpret_cast<PyWrapperDescrObject*>(PyDict_GetItemString(type->tp_dict, "__call__"));  // borrowed
    if (!wrapper || !Py_IS_TYPE(wrapper, &PyWrapperDescr_Type)) return;
    base = *wrapper->d_base;
    base.doc =
        "__call__($self, /, *args, out=None, **kwargs)\n--\n\n"
        "Runs the net on arrays, and returns an array, or a tuple of arrays in the order of the outputs.\n\n"
        "Args:\n"
        "    *args: an array for each input, in the order of `input_names`, of the declared shapes and dtypes.\n"
        "    **kwargs: arrays by the names of inputs.\n"
        "    out: an array to write the result to, or a sequence of them, or {name of an output: array}; they must "
        "not\n"
        "        overlap the inputs.\n\n"
        "The first call with other shapes or strides compiles a plan.\n\n"
        "Raises:\n"
        "    TypeError: an input is missing or unknown, or an argument is not an array.\n"
        "    ShapeError, InvalidArgumentError: an array does not fit the graph.";
    const auto documented = py::reinterpret_steal<py::object>(PyDescr_NewWrapper(type, &base, wrapper->d_wrapped));
    if (!documented || PyDict_SetItemString(type->tp_dict, "__call__", documented.ptr())) throw py::error_already_set();
    PyType_Modified(type);
}

}  // namespace

PyObject* make_net_type() {
    str_out = PyUnicode_InternFromString("out");
    str_slow_call = PyUnicode_InternFromString("_slow_call");
    if (!str_out || !str_slow_call) throw py::error_already_set();
    auto type = py::reinterpret_steal<py::object>(make_boxed_type<Net>(
        "dnnl_graph_ops._core.NetBase",
        "A callable over compiled plans. Calls that no plan fits go to the subclass's `_slow_call`.", &net_new,
        {{Py_tp_init, reinterpret_cast<void*>(&net_init)}, {Py_tp_getset, getters}},
        Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL));
    document_call(reinterpret_cast<PyTypeObject*>(type.ptr()));
    return type.release().ptr();
}

}  // namespace dgo
