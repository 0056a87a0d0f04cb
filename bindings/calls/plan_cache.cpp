// PlanCache: a store of plans as a Python object. One-shot functions call through it, a net holds one.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calls/boxed.hpp"
#include "calls/plan_store.hpp"
#include "common/error.hpp"

#include <pybind11/stl.h>

namespace dgo {
namespace {

PlanStore& store_of(PyObject* self) { return boxed<PlanStore>(self); }

// Reads the first arguments of call() and insert(): name, arrays, attrs, out, engine. False for anything unusual.
bool read_query(PyObject* const* args, Callee& callee, Call& call) {
    PyObject *const arrays = args[1], *const out = args[3];
    if (!PyUnicode_CheckExact(args[0]) || !PyTuple_CheckExact(arrays) || !PyTuple_CheckExact(args[2])) return false;
    callee = {args[0], args[2], args[4]};
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(arrays));
    if (count > kMaxOptional) return false;
    for (std::size_t i = 0; i < count; ++i) call.add(PyTuple_GET_ITEM(arrays, static_cast<Py_ssize_t>(i)), i);
    const std::size_t results =
        PyTuple_CheckExact(out) || PyList_CheckExact(out) ? static_cast<std::size_t>(PySequence_Fast_GET_SIZE(out)) : 1;
    return results <= kMaxArguments && call.set_out(out, results);
}

// False with a Python error set unless a method got as many arguments as it takes, or one more where that may be left out.
bool is_count(Py_ssize_t count, Py_ssize_t least, bool one_more, const char* takes) {
    if (count == least || (one_more && count == least + 1)) return true;
    PyErr_Format(PyExc_TypeError, "%s; got %zd arguments", takes, count);
    return false;
}

PyObject* cache_call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!is_count(count, 6, false, "call() takes name, arrays, attrs, out, engine, slow")) return nullptr;
    PlanStore& store = store_of(self);
    Call call;
    Callee callee;
    const PlanRef* const plan = read_query(args, callee, call) ? store.serve(callee, call) : nullptr;
    if (plan) return run_call(*plan, call);
    if (args[5] == Py_None) Py_RETURN_NONE;
    ++store.misses;
    return PyObject_Vectorcall(args[5], args + 1, 4, nullptr);
}

PyObject* cache_executor(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!is_count(count, 5, false, "executor() takes name, arrays, attrs, out, engine")) return nullptr;
    return translated<PyObject*>(nullptr, [&] {
        Callee callee;
        Call call;
        const PlanStore::Entry* entry = nullptr;
        if (read_query(args, callee, call))
            if (Key key(callee); key.add(call)) entry = store_of(self).find(key);
        return (entry ? entry->plan.executor : py::none()).inc_ref().ptr();
    });
}

// Throws unless the plan reads and writes arrays of the query's layouts.
void require_same_arrays(const Executor& core, const Call& call) {
    const auto count = [&](const char* what, std::size_t plan, std::size_t given) {
        if (plan != given)
            fail(ErrorKind::invalid_argument, core.name() + ": the plan has " + std::to_string(plan) + " " + what +
                                                  ", the call " + std::to_string(given));
    };
    count("inputs", core.inputs().size(), call.inputs);
    for (std::size_t i = 0; i < call.inputs; ++i)
        require_match(core.inputs()[i].layout, call.in[i], core.name() + ": " + core.inputs()[i].name, false);
    if (!call.out_given) return require_row_major_results(core);
    count("outputs", core.outputs().size(), call.outputs);
    for (std::size_t o = 0; o < call.outputs; ++o)
        require_match(core.outputs()[o].layout, call.out[o], core.name() + ": " + core.outputs()[o].name, true);
}

using Start = std::tuple<std::uint64_t, double, int>;  // generation, seconds of a clock, threads

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The time at which compiling a plan began, if stated, else now. None if the store was cleared since.
std::optional<Start> start_of(const PlanStore& store, PyObject* const* args, Py_ssize_t count, Py_ssize_t at) {
    if (count <= at) return Start{store.generation(), now(), plan_threads()};
    const auto start = py::handle(args[at]).cast<Start>();
    return std::get<0>(start) == store.generation() ? std::optional(start) : std::nullopt;
}

PyObject* inserted(PyObject* self, Key& key, PlanRef plan, py::object payload, const Start& start) {
    const auto& [generation, begin, threads] = start;
    key.threads = threads;
    return py::bool_(store_of(self).insert(key, std::move(plan), std::move(payload), now() - begin)).release().ptr();
}

PyObject* cache_insert(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!is_count(count, 6, true, "insert() takes name, arrays, attrs, out, engine, executor and perhaps start"))
        return nullptr;
    return translated<PyObject*>(nullptr, [&] {
        PlanRef plan(py::reinterpret_borrow<py::object>(args[5]));
        Callee callee;
        Call call;
        std::uint64_t hash;
        const auto start = start_of(store_of(self), args, count, 6);
        const bool is_usual = start && read_query(args, callee, call);
        Key key(callee);
        if (!is_usual || !key.add(call) || !key.hash(hash)) return py::bool_(false).release().ptr();
        require_same_arrays(plan.plan->core, call);
        return inserted(self, key, std::move(plan), py::none(), *start);
    });
}

PyObject* cache_add(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!is_count(count, 2, true, "add() takes executor, payload and perhaps start")) return nullptr;
    return translated<PyObject*>(nullptr, [&] {
        PlanRef plan(py::reinterpret_borrow<py::object>(args[0]));
        Key key;
        for (const Argument& input : plan.plan->core.inputs()) key.add(input.layout);
        std::vector<Layout> results;
        for (const Argument& output : plan.plan->core.outputs()) results.push_back(output.layout);
        key.add_results(results);
        auto payload = py::reinterpret_borrow<py::object>(args[1]);
        const auto start = start_of(store_of(self), args, count, 2);
        if (!start) return py::bool_(false).release().ptr();
        return inserted(self, key, std::move(plan), std::move(payload), *start);
    });
}

using LayoutTuple = std::tuple<int, std::vector<std::int64_t>, std::vector<std::int64_t>>;  // dtype, shape, strides

PyObject* cache_find(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!is_count(count, 2, false, "find() takes inputs and results")) return nullptr;
    return translated<PyObject*>(nullptr, [&] {
        const auto layouts = [](PyObject* sequence) {
            std::vector<Layout> found;
            for (const auto& [dtype, shape, strides] : py::handle(sequence).cast<std::vector<LayoutTuple>>())
                found.emplace_back(dtype, shape, strides);
            return found;
        };
        Key key;
        for (const Layout& input : layouts(args[0])) key.add(input);
        key.add_results(args[1] == Py_None ? std::vector<Layout>{} : layouts(args[1]));
        const PlanStore::Entry* const entry = store_of(self).find(key);
        return (entry ? entry->plan.executor : py::none()).inc_ref().ptr();
    });
}

PyObject* cache_executors(PyObject* self, PyObject*) {
    return translated<PyObject*>(nullptr, [&] {
        py::list list;
        for (const PlanStore::Entry& entry : store_of(self).entries()) list.append(entry.plan.executor);
        return PyList_AsTuple(list.ptr());
    });
}

PyObject* cache_latest(PyObject* self, PyObject*) {
    const auto& entries = store_of(self).entries();
    if (entries.empty()) Py_RETURN_NONE;
    return py::object(entries.front().plan.executor).release().ptr();
}

PyObject* cache_payload(PyObject* self, PyObject* executor) {
    return store_of(self).payload_of(executor).release().ptr();
}

PyObject* cache_threads(PyObject* self, PyObject* executor) {
    for (const PlanStore::Entry& entry : store_of(self).entries())
        if (entry.plan.executor.ptr() == executor) return PyLong_FromLong(entry.threads);
    return PyLong_FromLong(0);
}

PyObject* cache_clear(PyObject* self, PyObject*) {
    store_of(self).clear();
    Py_RETURN_NONE;
}

PyObject* cache_start(PyObject* self, PyObject*) {
    return Py_BuildValue("(Kdi)", static_cast<unsigned long long>(store_of(self).generation()), now(), plan_threads());
}

PyObject* cache_info(PyObject* self, PyObject*) {
    const PlanStore& store = store_of(self);
    return Py_BuildValue("{sKsKsn}", "hits", static_cast<unsigned long long>(store.hits), "misses",
                         static_cast<unsigned long long>(store.misses), "size",
                         static_cast<Py_ssize_t>(store.entries().size()));
}

PyObject* cache_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":PlanCache", const_cast<char**>(keywords))) return nullptr;
    return translated<PyObject*>(nullptr, [&] { return new_boxed(type, std::make_unique<PlanStore>()); });
}

PyMethodDef methods[] = {
    {"call", as_method(&cache_call), METH_FASTCALL,
     "call(self, name: str, arrays: _Items, attrs: _Items, out: Any, engine: Any, slow: _Slow | None, /) -> Any\n\nRun "
     "the plan inserted for such a call, else `slow(arrays, attrs, out, engine)`; without slow: None."},
    {"executor", as_method(&cache_executor), METH_FASTCALL,
     "executor(self, name: str, arrays: _Items, attrs: _Items, out: Any, engine: Any, /) -> Executor | None\n\nOf the "
     "plan inserted for such a call, which now counts as the one used last."},
    {"insert", as_method(&cache_insert), METH_FASTCALL,
     "insert(self, name: str, arrays: _Items, attrs: _Items, out: Any, engine: Any, executor: Executor, start: _Start "
     "= ..., /) -> bool\n\nThe plan's inputs are the arrays that are not None. What took long to make since its start "
     "is kept longer.\n\nFalse: such a call is never looked up, or the cache was cleared since the start."},
    {"add", as_method(&cache_add), METH_FASTCALL,
     "add(self, executor: Executor, payload: object, start: _Start = ..., /) -> bool\n\nFor nets: the plan is found by "
     "its own declared arrays. Returns as insert().\n\nThe payload is kept until another plan is added or this one is "
     "dropped."},
    {"find", as_method(&cache_find), METH_FASTCALL,
     "find(self, inputs: Sequence[_Layout], results: Sequence[_Layout] | None, /) -> Executor | None\n\nThe plan added "
     "for such arrays, which now counts as the one used last."},
    {"executors", &cache_executors, METH_NOARGS,
     "executors(self) -> tuple[Executor, ...]\n\nOf all plans, the one used last first."},
    {"latest", &cache_latest, METH_NOARGS, "latest(self) -> Executor | None\n\nOf the plan used last."},
    {"payload", &cache_payload, METH_O,
     "payload(self, executor: object, /) -> Any\n\nWhat was added with it, if that was the last plan that was added; "
     "else None."},
    {"threads", &cache_threads, METH_O,
     "threads(self, executor: object, /) -> int\n\nThe number of threads that this plan was added for; 0 if it is none "
     "of these plans."},
    {"clear", &cache_clear, METH_NOARGS,
     "clear(self) -> None\n\nForget all plans and counts; begins a new generation."},
    {"start", &cache_start, METH_NOARGS,
     "start(self) -> _Start\n\nThe generation, the time and the number of threads: to be read before what a plan is "
     "made for."},
    {"info", &cache_info, METH_NOARGS, "info(self) -> dict[str, int]\n\nhits, misses, size"},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject* cache_type = nullptr;

}  // namespace

PlanStore* store_in(PyObject* object) {
    if (Py_TYPE(object) == cache_type) return &store_of(object);
    PyErr_Format(PyExc_TypeError, "plans must be a PlanCache, got %s", Py_TYPE(object)->tp_name);
    return nullptr;
}

PyObject* make_plan_cache_type() {
    PyObject* const type = make_boxed_type<PlanStore>(
        "dnnl_graph_ops._core.PlanCache",
        "Plans of a net or of one-shot functions, which all share a limit of bytes.\n\nWhere results "
        "are to lie row-major, calls with and without `out` share a plan. attrs hold None, bool, int, "
        "float, str, bytes, types, and tuples or lists of these; they are compared by type and value.",
        &cache_new, {{Py_tp_methods, methods}});
    cache_type = reinterpret_cast<PyTypeObject*>(type);
    return type;
}

}  // namespace dgo
