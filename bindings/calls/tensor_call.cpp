// TensorCall: a call on another library's tensors that came before, made again without an array in between.
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "border/lent.hpp"
#include "calls/plan_store.hpp"
#include "common/error.hpp"

#include <structmember.h>  // after Python.h

namespace dgo {
namespace {

constexpr std::size_t kMostTensors = 4;

// One argument as it was at first; no type where it was None.
struct Expected {
    PyTypeObject* type = nullptr;
    const dlpack::ExchangeApi* api = nullptr;
    Layout layout{dnnl_u8, {}, {}};
};

struct TensorCall {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* plans;  // a PlanCache; null until __init__
    PlanStore* store;  // inside it
    PyObject *name, *attributes;  // of a one-shot function; null for a net
    PyObject* make;  // returns a new tensor for the result
    std::vector<Expected>* expected;
};

TensorCall& as_call(PyObject* self) { return *reinterpret_cast<TensorCall*>(self); }

// Whether an argument is as it was at first, with its fields. One that lends nothing is not.
bool fits(const Expected& expected, PyObject* argument, LentFields& fields) {
    if (!expected.type) return argument == Py_None;
    if (Py_TYPE(argument) != expected.type) return false;
    if (fields.read(*expected.api, argument)) return matches(expected.layout, fields.array());
    PyErr_Clear();
    return false;
}

const PlanRef* plan_for(const TensorCall& self, PyObject* const* args, Call& call) noexcept {
    if (!self.name)
        if (const PlanRef* const plan = self.store->serve_again(call)) return plan;
    try {
        Key key;
        key.name = self.name;
        key.attributes = self.attributes;
        if (self.name) key.engine = Py_None;
        std::size_t given = 0;
        for (std::size_t i = 0; i < self.expected->size(); ++i)
            if (!key.add(args[i] == Py_None ? Py_None : call.in[given++])) return nullptr;
        return key.add_results(call) ? self.store->serve(key, call) : nullptr;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

PyObject* none_unless_error() {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

PyObject* tensor_call(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* keywords) {
    const TensorCall& self = as_call(object);
    const std::size_t count = self.expected ? self.expected->size() : 0;
    if (count == 0 || keywords || static_cast<std::size_t>(PyVectorcall_NARGS(nargsf)) != count) {
        PyErr_Format(PyExc_TypeError, "a TensorCall of %zu tensors takes so many, and no keywords", count);
        return nullptr;
    }
    std::array<LentFields, kMostTensors + 1> fields;
    Call call;
    for (std::size_t i = 0; i < count; ++i) {
        if (!fits((*self.expected)[i], args[i], fields[i])) Py_RETURN_NONE;
        if (args[i] != Py_None) call.in[call.inputs++] = fields[i].object();
    }
    if (self.store->entries().empty()) Py_RETURN_NONE;
    PyObject* const out = PyObject_CallNoArgs(self.make);
    if (!out) return nullptr;
    LentFields& result = fields[kMostTensors];
    const dlpack::ExchangeApi* const api = (*self.expected)[0].api;
    const PlanRef* plan = nullptr;
    if (result.read(*api, out)) {
        result.find_row_major();
        if (call.set_out(result.object(), 1)) plan = plan_for(self, args, call);
    }
    PyObject* const ran = plan ? run_call(*plan, call) : nullptr;  // the fields themselves
    if (ran) return out;
    Py_DECREF(out);
    return none_unless_error();
}

Expected expected_of(PyObject* tensor) {
    if (tensor == Py_None) return {};
    LentFields fields;
    const dlpack::ExchangeApi* const api = exchange_api(Py_TYPE(tensor));
    if (!api || !fields.read(*api, tensor)) {
        if (PyErr_Occurred()) throw py::error_already_set();
        fail(ErrorKind::unsupported, std::string("a ") + Py_TYPE(tensor)->tp_name + " that NumPy cannot have");
    }
    const Array& array = fields.array();
    const int itemsize = dtype_table::itemsize_of[dtype_code(array)];
    std::vector<std::int64_t> shape, strides;
    for (int i = 0; i < array.nd; ++i) {
        shape.push_back(array.dimensions[i]);
        strides.push_back(array.strides[i] / itemsize);
    }
    return {Py_TYPE(tensor), api, Layout(dtype_code(array), shape, strides)};
}

PyObject* call_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"plans", "name", "attributes", "tensors", "make", nullptr};
    PyObject *plans, *name, *attributes, *tensors, *make;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!O!O:TensorCall", const_cast<char**>(keywords), &plans, &name,
                                     &PyTuple_Type, &attributes, &PyTuple_Type, &tensors, &make))
        return nullptr;
    PlanStore* const store = store_in(plans);
    if (!store) return nullptr;
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(tensors));
        if (count == 0 || count > kMostTensors || PyTuple_GET_ITEM(tensors, 0) == Py_None)
            fail(ErrorKind::invalid_argument, "a TensorCall takes 1 to " + std::to_string(kMostTensors) +
                                                  " tensors, None only behind the first; got " + std::to_string(count));
        auto expected = std::make_unique<std::vector<Expected>>();
        for (std::size_t i = 0; i < count; ++i)
            expected->push_back(expected_of(PyTuple_GET_ITEM(tensors, static_cast<Py_ssize_t>(i))));
        for (Expected& one : *expected) Py_XINCREF(one.type);
        PyObject* const self = type->tp_alloc(type, 0);
        if (!self) return nullptr;
        TensorCall& call = as_call(self);
        call.vectorcall = &tensor_call;
        call.store = store;
        const auto own = [](PyObject* object) {
            Py_INCREF(object);
            return object;
        };
        call.plans = own(plans);
        call.make = own(make);
        if (name != Py_None) {
            call.name = own(name);
            call.attributes = own(attributes);
        }
        call.expected = expected.release();
        return self;
    });
}

int call_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const TensorCall& call = as_call(self);
    Py_VISIT(call.plans);
    Py_VISIT(call.name);
    Py_VISIT(call.attributes);
    Py_VISIT(call.make);
    if (call.expected)
        for (const Expected& one : *call.expected) Py_VISIT(one.type);
    return 0;
}

void call_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    TensorCall& call = as_call(self);
    Py_XDECREF(call.plans);
    Py_XDECREF(call.name);
    Py_XDECREF(call.attributes);
    Py_XDECREF(call.make);
    if (call.expected)
        for (const Expected& one : *call.expected) Py_XDECREF(one.type);
    delete call.expected;
    type->tp_free(self);
    Py_DECREF(type);
}

PyMemberDef call_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(TensorCall, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot call_slots[] = {
    {Py_tp_doc,
     const_cast<char*>(
         "A call of a net, or of a one-shot function, on tensors that came before: looked up and run without arrays.")},
    {Py_tp_new, reinterpret_cast<void*>(&call_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&call_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&call_traverse)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_members, call_members},
    {0, nullptr},
};

PyType_Spec call_spec = {"dnnl_graph_ops._core.TensorCall", sizeof(TensorCall), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, call_slots};

}  // namespace

PyObject* make_tensor_call_type() {
    PyObject* const type = PyType_FromSpec(&call_spec);
    if (!type) throw py::error_already_set();
    return type;
}

}  // namespace dgo
