// TensorCall: repeats a call on another library's tensors without creating arrays.
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "border/lent.hpp"
#include "calls/boxed.hpp"
#include "calls/plan_store.hpp"
#include "common/error.hpp"

namespace dgo {
namespace {

constexpr std::size_t kMostTensors = 4;

// An argument of the first call; without a type if it was None.
struct Expected {
    py::object type;
    const dlpack::ExchangeApi* api = nullptr;
    Layout layout{dnnl_u8, {}, {}};
};

struct TensorCall {
    template <typename Visit>
    int each(Visit&& visit) const {
        for (const py::object* object : {&plans, &name, &attributes, &make})
            if (const int stop = visit(object->ptr())) return stop;
        for (const Expected& one : expected)
            if (const int stop = visit(one.type.ptr())) return stop;
        return 0;
    }
    void clear() {}  // nothing in it changes: whoever else is part of a cycle ends it

    py::object plans;  // a PlanCache
    PlanStore* store;  // inside it
    py::object name, attributes;  // of a one-shot function; null for a net
    py::object make;  // returns a new tensor for the result
    std::vector<Expected> expected;
};

// Whether an argument has the fields of the first call's; false without exchange functions.
bool fits(const Expected& expected, PyObject* argument, LentFields& fields) {
    if (!expected.type) return argument == Py_None;
    if (reinterpret_cast<PyObject*>(Py_TYPE(argument)) != expected.type.ptr()) return false;
    if (fields.read(*expected.api, argument)) return matches(expected.layout, fields.array());
    PyErr_Clear();
    return false;
}

PyObject* none_unless_error() {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
}

PyObject* tensor_call(PyObject* object, PyObject* const* args, std::size_t nargsf, PyObject* keywords) {
    const TensorCall& self = boxed<TensorCall>(object);
    const std::size_t count = self.expected.size();
    if (keywords || static_cast<std::size_t>(PyVectorcall_NARGS(nargsf)) != count) {
        PyErr_Format(PyExc_TypeError, "a TensorCall of %zu tensors takes so many, and no keywords", count);
        return nullptr;
    }
    std::array<LentFields, kMostTensors + 1> fields;
    Call call;
    for (std::size_t i = 0; i < count; ++i) {
        if (!fits(self.expected[i], args[i], fields[i])) Py_RETURN_NONE;
        call.add(args[i] == Py_None ? Py_None : fields[i].object(), i);
    }
    if (self.store->entries().empty()) Py_RETURN_NONE;
    PyObject* const out = PyObject_CallNoArgs(self.make.ptr());
    if (!out) return nullptr;
    LentFields& result = fields[kMostTensors];
    const dlpack::ExchangeApi* const api = self.expected[0].api;
    const PlanRef* plan = nullptr;
    if (result.read(*api, out)) {
        result.find_row_major();
        const Callee callee = {self.name.ptr(), self.attributes.ptr(), self.name ? Py_None : nullptr};
        if (call.set_out(result.object(), 1)) plan = self.store->serve(callee, call);
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
    return {py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(tensor))), api,
            Layout(dtype_code(array), shape, strides)};
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
        const auto own = [](PyObject* object) { return py::reinterpret_borrow<py::object>(object); };
        auto call = std::make_unique<TensorCall>();
        for (std::size_t i = 0; i < count; ++i)
            call->expected.push_back(expected_of(PyTuple_GET_ITEM(tensors, static_cast<Py_ssize_t>(i))));
        call->store = store;
        call->plans = own(plans);
        call->make = own(make);
        if (name != Py_None) {
            call->name = own(name);
            call->attributes = own(attributes);
        }
        return new_boxed(type, std::move(call), &tensor_call);
    });
}

}  // namespace

PyObject* make_tensor_call_type() {
    return make_boxed_type<TensorCall>(
        "dnnl_graph_ops._core.TensorCall",
        "A call of a net, or of a one-shot function, on tensors that came before: looked up and run without arrays.",
        &call_new, {}, Py_TPFLAGS_HAVE_VECTORCALL);
}

}  // namespace dgo
