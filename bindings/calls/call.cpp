#include "calls/call.hpp"

#include <string>
#include <utility>

#include "calls/give_back.hpp"
#include "common/error.hpp"

namespace dgo {
namespace {

// References to all arrays of a call while other threads may run Python.
class Hold {
public:
    explicit Hold(const Call& call) : call_(call) {
        each([](PyObject* object) { Py_INCREF(object); });
    }
    ~Hold() {
        each([](PyObject* object) { Py_DECREF(object); });
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

private:
    template <typename F>
    void each(F&& f) const {
        for (std::size_t i = 0; i < call_.inputs; ++i) f(call_.in[i]);
        for (std::size_t o = 0; call_.out_given && o < call_.outputs; ++o) f(call_.out[o]);
    }

    const Call& call_;
};

// New arrays, one or a tuple; their addresses go to `out`.
PyObject* allocate_results(const Executor& plan, char** out) {
    const auto& outputs = plan.outputs();
    const auto one = [&](std::size_t o) {
        PyObject* const array = new_array(outputs[o].layout);
        if (array) out[o] = py::detail::array_proxy(array)->data;
        return array;
    };
    if (outputs.size() == 1) return one(0);
    PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(outputs.size()));
    for (std::size_t o = 0; tuple && o < outputs.size(); ++o) {
        PyObject* const array = one(o);
        if (!array) {
            Py_DECREF(tuple);
            return nullptr;
        }
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(o), array);
    }
    return tuple;
}

PyObject* given_results(const Call& call) {
    if (call.outputs == 1) {
        Py_INCREF(call.out[0]);
        return call.out[0];
    }
    PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(call.outputs));
    for (std::size_t o = 0; tuple && o < call.outputs; ++o) {
        Py_INCREF(call.out[o]);
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(o), call.out[o]);
    }
    return tuple;
}

}  // namespace

bool Call::set_out(PyObject* argument, std::size_t results) {
    outputs = results;
    out_given = argument && argument != Py_None;
    if (!out_given) return true;
    if (results == 1) {
        out[0] = argument;
    } else {
        if (!PyTuple_CheckExact(argument) && !PyList_CheckExact(argument)) return false;
        if (static_cast<std::size_t>(PySequence_Fast_GET_SIZE(argument)) != results) return false;
        for (std::size_t o = 0; o < results; ++o)
            out[o] = PySequence_Fast_GET_ITEM(argument, static_cast<Py_ssize_t>(o));
    }
    for (std::size_t o = 0; o < results; ++o)
        if (!exact_array(out[o])) return false;
    return true;
}

bool Call::fits_results(const Executor& plan) const {
    const auto& results = plan.outputs();
    if (results.size() > kMaxArguments) return false;
    if (!out_given) return true;
    if (outputs != results.size()) return false;
    for (std::size_t o = 0; o < outputs; ++o) {
        const std::size_t bytes = results[o].layout.extent;
        if (!matches(results[o].layout, output(o)) || !is_writeable(output(o))) return false;
        for (std::size_t i = 0; i < inputs; ++i)
            if (extents_overlap(output(o).data, bytes, input(i).data, plan.inputs()[i].layout.extent)) return false;
        for (std::size_t p = 0; p < o; ++p)
            if (extents_overlap(output(o).data, bytes, output(p).data, results[p].layout.extent)) return false;
    }
    return true;
}

PlanRef::PlanRef(py::object object) : executor(std::move(object)), plan(&executor.cast<ExecutorObject&>()) {
    if (!plan->core.finalized())
        fail(ErrorKind::invalid_argument, plan->core.name() + ": finalize the plan before adding it");
}

void require_row_major_results(const Executor& plan) {
    for (const Argument& output : plan.outputs())
        if (!output.layout.row_major())
            fail(ErrorKind::invalid_argument, plan.name() + ": " + output.name + " is " + output.layout.str() +
                                                  ", but arrays for results are allocated row-major");
}

PyObject* run_call(const PlanRef& plan, const Call& call) noexcept {
    const PlanRef keep = plan;
    const Hold hold(call);
    char* in[kMaxArguments];
    char* out[kMaxArguments];
    PyObject* const result = call.out_given ? given_results(call) : allocate_results(keep.plan->core, out);
    if (!result) return nullptr;
    for (std::size_t i = 0; i < call.inputs; ++i) in[i] = call.input(i).data;
    for (std::size_t o = 0; call.out_given && o < call.outputs; ++o) out[o] = call.output(o).data;
    const bool ran = translated(false, [&] {
        run_plan(*keep.plan, {in, out});
        return true;
    });
    if (ran) return result;
    Py_DECREF(result);
    return nullptr;
}

bool read_size(PyObject* object, const char* what, std::size_t& size) {
    const Py_ssize_t value = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if (value == -1 && PyErr_Occurred()) return false;
    if (value < 0) {
        PyErr_Format(PyExc_ValueError, "%s must not be negative, got %zd", what, value);
        return false;
    }
    size = static_cast<std::size_t>(value);
    return true;
}

void bind_call(py::module_& m) {
    m.add_object("NetBase", py::reinterpret_steal<py::object>(make_net_type()));
    m.add_object("PlanCache", py::reinterpret_steal<py::object>(make_plan_cache_type()));
    m.add_object("TensorCall", py::reinterpret_steal<py::object>(make_tensor_call_type()));
    m.add_object("TensorMarks", py::reinterpret_steal<py::object>(make_tensor_marks_type()));
    bind_give_back(m);
}

}  // namespace dgo
