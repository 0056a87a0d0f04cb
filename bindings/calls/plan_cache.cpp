// PlanCache: plans of one-shot functions, found by everything that decides what is computed: name, attributes,
// engine, and data type, shape and strides of every array. What cannot be found goes to the caller's slow function.
#include <array>
#include <cstdint>
#include <cstring>
#include <list>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calls/call.hpp"
#include "common/error.hpp"

namespace dgo {
namespace {

void mix(std::uint64_t& hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
}

// Data types, shapes and strides of the arrays of a call, as words to compare and hash.
class Signature {
public:
    void add(std::uint64_t word) {
        if (size_ == words_.size())
            full_ = true;
        else
            words_[size_++] = word;
    }
    // None or an array that plans can read as it is; false for anything else.
    bool add(PyObject* object) {
        if (object == Py_None) {
            add(std::uint64_t{0});
            return true;
        }
        const Array* const array = exact_array(object);
        if (!array) return false;
        const int code = dtype_code(*array);
        if (!code || array->nd > kMaxRank || !is_aligned(array->data, dtype_table::itemsize_of[code])) return false;
        add(static_cast<std::uint64_t>(code) << 8 | static_cast<std::uint64_t>(array->nd));
        bool empty = false;
        for (int i = 0; i < array->nd; ++i) {
            empty |= array->dimensions[i] == 0;
            add(static_cast<std::uint64_t>(array->dimensions[i]));
        }
        for (int i = 0; i < array->nd; ++i)
            add(empty || array->dimensions[i] < 2 ? 0 : static_cast<std::uint64_t>(array->strides[i]));
        return !full_;
    }
    const std::uint64_t* begin() const { return words_.data(); }
    const std::uint64_t* end() const { return words_.data() + size_; }

private:
    std::array<std::uint64_t, 256> words_;
    std::size_t size_ = 0;
    bool full_ = false;
};

constexpr int kMaxDepth = 8;  // of tuples inside attributes

bool is_sequence(PyObject* object) { return PyTuple_CheckExact(object) || PyList_CheckExact(object); }

// Attributes are None, bool, int, float, str, bytes, types, and tuples or lists of these, of exactly these types:
// comparing them runs no Python code. False for anything else.
bool hash_attribute(PyObject* object, std::uint64_t& hash, int depth = 0) {
    if (is_sequence(object)) {
        const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
        mix(hash, static_cast<std::uint64_t>(size));
        for (Py_ssize_t i = 0; i < size; ++i)
            if (depth == kMaxDepth || !hash_attribute(PySequence_Fast_GET_ITEM(object, i), hash, depth + 1))
                return false;
        return true;
    }
    if (PyLong_CheckExact(object) || PyUnicode_CheckExact(object) || PyFloat_CheckExact(object) ||
        PyBytes_CheckExact(object)) {
        mix(hash, static_cast<std::uint64_t>(PyObject_Hash(object)));
        return true;
    }
    mix(hash, reinterpret_cast<std::uintptr_t>(object));
    return object == Py_None || PyBool_Check(object) || PyType_Check(object);
}

// Whether two such attributes are the same: 2 is neither 2.0 nor True, 0.0 is not -0.0; a list is its tuple.
bool same_attribute(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (is_sequence(a) && is_sequence(b)) {
        const Py_ssize_t size = PySequence_Fast_GET_SIZE(a);
        if (size != PySequence_Fast_GET_SIZE(b)) return false;
        for (Py_ssize_t i = 0; i < size; ++i)
            if (!same_attribute(PySequence_Fast_GET_ITEM(a, i), PySequence_Fast_GET_ITEM(b, i))) return false;
        return true;
    }
    if (Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) {
        const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a))
        return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
    return false;
}

// A copy that nobody can change: lists become tuples.
py::object frozen(py::handle object) {
    if (!is_sequence(object.ptr())) return py::reinterpret_borrow<py::object>(object);
    py::tuple copy(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object.ptr())));
    for (std::size_t i = 0; i < copy.size(); ++i)
        copy[i] = frozen(PySequence_Fast_GET_ITEM(object.ptr(), static_cast<Py_ssize_t>(i)));
    return copy;
}

struct Query {
    PyObject *name, *arrays, *attributes, *out, *engine;
};

// A query that plans can be looked up by, with its hash.
struct Key {
    // False for anything unusual.
    bool read(const Query& query) {
        if (!PyUnicode_CheckExact(query.name) || !PyTuple_CheckExact(query.arrays) ||
            !PyTuple_CheckExact(query.attributes))
            return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(query.arrays); ++i) {
            PyObject* const array = PyTuple_GET_ITEM(query.arrays, i);
            if (!signature.add(array)) return false;
            if (array == Py_None) continue;
            if (call.inputs == kMaxArguments) return false;
            call.in[call.inputs++] = array;
        }
        const std::size_t results = is_sequence(query.out)
            ? static_cast<std::size_t>(PySequence_Fast_GET_SIZE(query.out)) : 1;
        if (results > kMaxArguments || !call.set_out(query.out, results)) return false;
        signature.add(call.out_given ? results + 1 : 0);
        for (std::size_t o = 0; call.out_given && o < results; ++o)
            if (!signature.add(call.out[o])) return false;
        for (const std::uint64_t word : signature) mix(hash, word);
        mix(hash, static_cast<std::uint64_t>(PyObject_Hash(query.name)));
        mix(hash, reinterpret_cast<std::uintptr_t>(query.engine));
        return hash_attribute(query.attributes, hash);
    }

    Signature signature;
    Call call;
    std::uint64_t hash = 0;
};

struct Entry {
    bool is_for(const Key& key, const Query& query) const {
        const auto size = static_cast<std::size_t>(key.signature.end() - key.signature.begin());
        return engine.ptr() == query.engine && signature.size() == size &&
            std::memcmp(signature.data(), key.signature.begin(), size * sizeof(std::uint64_t)) == 0 &&
            same_attribute(name.ptr(), query.name) && same_attribute(attributes.ptr(), query.attributes);
    }

    std::uint64_t hash;
    std::vector<std::uint64_t> signature;
    py::object name, attributes, engine;
    PlanRef plan;
};

using Entries = std::list<Entry>;

struct State {
    Entries::iterator find(const Key& key, const Query& query) {
        const auto [first, last] = index.equal_range(key.hash);
        for (auto it = first; it != last; ++it)
            if (it->second->is_for(key, query)) return it->second;
        return entries.end();
    }
    // Moves an entry out; the caller drops it when the cache is consistent again.
    void remove(Entries::iterator entry, Entries& removed) {
        const auto [first, last] = index.equal_range(entry->hash);
        for (auto it = first; it != last; ++it)
            if (it->second == entry) {
                index.erase(it);
                break;
            }
        removed.splice(removed.end(), entries, entry);
    }
    void shrink(std::size_t size, Entries& removed) {
        while (entries.size() > size) remove(std::prev(entries.end()), removed);
    }

    Entries entries;  // the one used last comes first
    std::unordered_multimap<std::uint64_t, Entries::iterator> index;
    std::size_t capacity = 0;
    std::uint64_t hits = 0, misses = 0;
    std::uint64_t generation = 0;  // how often it was cleared
};

struct Cache {
    PyObject_HEAD
    State* state;
};

State& state_of(PyObject* self) { return *reinterpret_cast<Cache*>(self)->state; }

PyObject* cache_call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 6) {
        PyErr_Format(PyExc_TypeError, "call() takes name, arrays, attrs, out, engine, slow; got %zd arguments", count);
        return nullptr;
    }
    const Query query{args[0], args[1], args[2], args[3], args[4]};
    State& state = state_of(self);
    Key key;
    if (key.read(query)) {
        const auto entry = state.find(key, query);
        if (entry != state.entries.end() && key.call.results_are_apart(entry->plan.plan->core)) {
            key.call.outputs = entry->plan.plan->core.outputs().size();
            ++state.hits;
            state.entries.splice(state.entries.begin(), state.entries, entry);
            return run_call(entry->plan, key.call);
        }
    }
    ++state.misses;
    return PyObject_Vectorcall(args[5], args + 1, 4, nullptr);
}

// Throws unless the plan reads and writes arrays just like those of the query.
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

PyObject* cache_insert(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (count != 6 && count != 7) {
        PyErr_Format(PyExc_TypeError,
            "insert() takes name, arrays, attrs, out, engine, executor and perhaps generation; got %zd arguments", count);
        return nullptr;
    }
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        const Query query{args[0], args[1], args[2], args[3], args[4]};
        State& state = state_of(self);
        PlanRef plan(py::reinterpret_borrow<py::object>(args[5]));
        Key key;
        if (!key.read(query) || state.capacity == 0) Py_RETURN_FALSE;
        if (count == 7) {
            const auto made_for = PyLong_AsUnsignedLongLong(args[6]);
            if (PyErr_Occurred()) return nullptr;
            if (made_for != state.generation) Py_RETURN_FALSE;
        }
        require_same_arrays(plan.plan->core, key.call);
        const auto own = [](PyObject* object) { return py::reinterpret_borrow<py::object>(object); };
        Entries removed, added;
        added.push_back({key.hash, {key.signature.begin(), key.signature.end()}, own(query.name),
            frozen(query.attributes), own(query.engine), std::move(plan)});
        const auto old = state.find(key, query);
        if (old != state.entries.end()) state.remove(old, removed);
        state.index.emplace(key.hash, added.begin());
        state.entries.splice(state.entries.begin(), added);
        state.shrink(state.capacity, removed);
        Py_RETURN_TRUE;
    });
}

PyObject* cache_clear(PyObject* self, PyObject*) {
    Entries removed;
    State& state = state_of(self);
    state.index.clear();
    removed.swap(state.entries);
    state.hits = state.misses = 0;
    ++state.generation;
    Py_RETURN_NONE;
}

PyObject* cache_generation(PyObject* self, PyObject*) {
    return PyLong_FromUnsignedLongLong(state_of(self).generation);
}

PyObject* cache_set_capacity(PyObject* self, PyObject* argument) {
    State& state = state_of(self);
    if (!read_size(argument, "the capacity", state.capacity)) return nullptr;
    return translated<PyObject*>(nullptr, [&]() -> PyObject* {
        Entries removed;
        state.shrink(state.capacity, removed);
        Py_RETURN_NONE;
    });
}

PyObject* cache_info(PyObject* self, PyObject*) {
    const State& state = state_of(self);
    return Py_BuildValue("{sKsKsnsn}", "hits", static_cast<unsigned long long>(state.hits), "misses",
        static_cast<unsigned long long>(state.misses), "size", static_cast<Py_ssize_t>(state.entries.size()),
        "capacity", static_cast<Py_ssize_t>(state.capacity));
}

PyObject* cache_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* keywords[] = {"capacity", nullptr};
    PyObject* argument;
    std::size_t capacity;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:PlanCache", const_cast<char**>(keywords), &argument) ||
        !read_size(argument, "the capacity", capacity))
        return nullptr;
    PyObject* const self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    State* const state = new (std::nothrow) State;
    reinterpret_cast<Cache*>(self)->state = state;
    if (!state) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    state->capacity = capacity;
    return self;
}

int cache_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!reinterpret_cast<Cache*>(self)->state) return 0;
    for (const Entry& entry : state_of(self).entries) {
        Py_VISIT(entry.attributes.ptr());
        Py_VISIT(entry.engine.ptr());
        Py_VISIT(entry.plan.executor.ptr());
    }
    return 0;
}

int cache_tp_clear(PyObject* self) {
    if (reinterpret_cast<Cache*>(self)->state) Py_XDECREF(cache_clear(self, nullptr));
    return 0;
}

void cache_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    cache_tp_clear(self);
    delete reinterpret_cast<Cache*>(self)->state;
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"call", as_method(&cache_call), METH_FASTCALL,
        "call(name, arrays, attrs, out, engine, slow): runs the plan inserted for this, else slow(arrays, attrs, out, "
        "engine)."},
    {"insert", as_method(&cache_insert), METH_FASTCALL,
        "insert(name, arrays, attrs, out, engine, executor[, generation]): False if such a call is never looked up, or "
        "if the cache was cleared since that generation."},
    {"clear", &cache_clear, METH_NOARGS, "Forget all plans and counts; begins a new generation."},
    {"generation", &cache_generation, METH_NOARGS, "The generation; to be read before what a plan is made for."},
    {"set_capacity", &cache_set_capacity, METH_O, "Keep so many plans, those used last."},
    {"info", &cache_info, METH_NOARGS, "hits, misses, size and capacity."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Plans of one-shot functions, the least recently used dropped first.")},
    {Py_tp_new, reinterpret_cast<void*>(&cache_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&cache_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&cache_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&cache_tp_clear)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {
    "dnnl_graph_ops._core.PlanCache", sizeof(Cache), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

PyObject* make_plan_cache_type() {
    PyObject* const type = PyType_FromSpec(&spec);
    if (!type) throw py::error_already_set();
    return type;
}

}  // namespace dgo
