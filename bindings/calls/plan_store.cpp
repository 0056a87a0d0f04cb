#include "calls/plan_store.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <unordered_map>
#include <utility>

#include "border/gil.hpp"
#include "calls/give_back.hpp"
#include "plan/call_scope.hpp"

namespace dgo {
namespace {

void mix(std::uint64_t& hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
}

int threads_now = 0;
void (*forget_plan)(const ExecutorObject&) = nullptr;

constexpr int kMaxDepth = 8;  // of tuples inside attributes

// Tuples of any class, such as torch.Size: their elements are read where they lie.
bool is_sequence(PyObject* object) { return PyTuple_Check(object) || PyList_CheckExact(object); }

// Attributes are None, bool, int, float, str, bytes, types, and tuples or lists of these, of exactly these types but for
// tuples: comparing them runs no Python code. False for anything else.
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

// Whether two such attributes are equal: 2 differs from 2.0 and True, 0.0 from -0.0; a list equals its tuple.
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

// An immutable copy: lists become tuples.
py::object frozen(py::handle object) {
    if (!object || !is_sequence(object.ptr())) return py::reinterpret_borrow<py::object>(object);
    py::tuple copy(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object.ptr())));
    for (std::size_t i = 0; i < copy.size(); ++i)
        copy[i] = frozen(PySequence_Fast_GET_ITEM(object.ptr(), static_cast<Py_ssize_t>(i)));
    return copy;
}

std::uint64_t array_word(int dtype, int rank) {
    return static_cast<std::uint64_t>(dtype) << 8 | static_cast<std::uint64_t>(rank);
}

// Totals of all stores.
class All {
public:
    // Before an entry is added, which throws where memory is short, or is removed.
    void count(const PlanStore::Entry& entry, bool added) {
        const auto& constants = entry.plan.plan->core.constants();
        for (const Executor::Constant& constant : constants)
            if (added) shared_.try_emplace(constant.data, constant.bytes, 0);
        const auto change = [&](std::size_t& sum, std::size_t by) { sum += added ? by : std::size_t{0} - by; };
        change(net_plans, !entry.name);
        change(held.constants, entry.held.constants);
        change(held.library, entry.held.library);
        change(held.objects, entry.held.objects);
        for (const Executor::Constant& constant : constants) {
            auto& [bytes, users] = shared_.at(constant.data);
            if (added ? users++ : --users) continue;
            change(held.constants, bytes);
            if (!added) shared_.erase(constant.data);
        }
    }

    // Bytes that evicting this entry frees.
    std::size_t alone(const PlanStore::Entry& entry) const {
        std::size_t total = entry.held.total();
        for (const Executor::Constant& constant : entry.plan.plan->core.constants())
            if (const auto& [bytes, users] = shared_.at(constant.data); users == 1) total += bytes;
        return total;
    }

    // The score: seconds saved per byte, divided by the number of uses of plans since the plan's last use.
    double worth(PlanStore::Entry& entry) {
        if (entry.plan.plan->ran.exchange(false, std::memory_order_relaxed)) entry.used = ++uses;
        const auto age = static_cast<double>(uses - entry.used + 1);
        return std::max(entry.seconds, 1e-6) / static_cast<double>(alone(entry) + 1) / age;
    }

    std::vector<PlanStore*> stores;
    std::size_t net_plans = 0;
    Executor::Held held;
    std::size_t limit = std::numeric_limits<std::size_t>::max();
    std::uint64_t uses = 0;  // so far, of any plan

private:
    // constants by their data: bytes, and how many plans read them
    std::unordered_map<const char*, std::pair<std::size_t, std::size_t>> shared_;
};

All& all() {
    static All* const all = new All;  // never destroyed: stores may live longer
    return *all;
}

}  // namespace

int plan_threads() {
    const int here = call_scope::bounds().threads;
    return here ? here : threads_now;
}

bool Key::add(PyObject* object) {
    const Array* const array = exact_array(object);
    if (!array) return false;
    const int code = dtype_code(*array);
    if (!code || array->nd > kMaxRank || !is_aligned(array->data, dtype_table::itemsize_of[code])) return false;
    const int rank = array->nd;
    std::uint64_t* const words = add_words(1 + 2 * static_cast<std::size_t>(rank));
    words[0] = array_word(code, rank);
    bool empty = false;
    for (int i = 0; i < rank; ++i) {
        const auto size = static_cast<std::uint64_t>(array->dimensions[i]);
        words[1 + i] = size;
        words[1 + rank + i] = size < 2 ? 0 : static_cast<std::uint64_t>(array->strides[i]);
        empty |= size == 0;
    }
    if (empty) std::fill_n(words + 1 + rank, rank, 0);
    return true;
}

void Key::add(const Layout& layout) {
    const auto rank = static_cast<std::size_t>(layout.rank);
    std::uint64_t* const words = add_words(1 + 2 * rank);
    words[0] = array_word(layout.dtype, layout.rank);
    std::copy_n(layout.dims.begin(), rank, words + 1);
    std::copy_n(layout.strides.begin(), rank, words + 1 + rank);
}

bool Key::add(const Call& call) {
    for (std::size_t i = 0; i < call.inputs; ++i)
        if (!add(call.in[i])) return false;
    if (name) *add_words(1) = call.absent;
    bool dense = true;
    for (std::size_t o = 0; call.out_given && o < call.outputs; ++o) dense &= is_row_major(call.output(o));
    *add_words(1) = dense ? 0 : call.outputs;
    for (std::size_t o = 0; !dense && o < call.outputs; ++o)
        if (!add(call.out[o])) return false;
    return true;
}

void Key::add_results(const std::vector<Layout>& results) {
    const bool dense = std::all_of(results.begin(), results.end(), [](const Layout& one) { return one.row_major(); });
    *add_words(1) = dense ? 0 : results.size();
    if (dense) return;
    for (const Layout& one : results) add(one);
}

void Key::grow() {
    more_.resize(2 * room_);
    if (words_ == first_.data()) std::copy(first_.begin(), first_.end(), more_.begin());
    words_ = more_.data();
    room_ = more_.size();
}

bool Key::hash(std::uint64_t& hash) const {
    std::uint64_t mixed = 0;  // in a register
    for (const std::uint64_t word : *this) mix(mixed, word);
    hash = mixed;
    if (!name) return true;
    mix(hash, static_cast<std::uint64_t>(PyObject_Hash(name)));
    mix(hash, reinterpret_cast<std::uintptr_t>(engine));
    return hash_attribute(attributes, hash);
}

inline bool PlanStore::Entry::is_for(const Key& key) const {
    const std::size_t size = words.size();
    if (engine.ptr() != key.engine || threads != key.threads) return false;
    if (size != static_cast<std::size_t>(key.end() - key.begin())) return false;
    // word by word: wide reads would wait for the stores of these words
    for (std::size_t i = 0; i < size; ++i)
        if (words[i] != key.begin()[i]) return false;
    return !key.name || (same_attribute(name.ptr(), key.name) && same_attribute(attributes.ptr(), key.attributes));
}

// Removed entries; much freed memory goes back to the system.
class PlanStore::Removed {
public:
    Removed() = default;
    ~Removed() {
        for (const Entry& entry : entries)
            if (forget_plan) forget_plan(*entry.plan.plan);
        for (Entry& entry : entries) {
            gil::drop(entry.payload);
            gil::drop(entry.plan.executor);
        }
        entries.clear();
        freed(bytes);
    }
    Removed(const Removed&) = delete;
    Removed& operator=(const Removed&) = delete;

    Entries entries;
    std::size_t bytes = 0;
};

PlanStore::PlanStore() { all().stores.push_back(this); }

PlanStore::~PlanStore() {
    clear();
    auto& stores = all().stores;
    stores.erase(std::find(stores.begin(), stores.end(), this));
}

PlanStore::Entries::iterator PlanStore::lookup(const Key& key) {
    if (!entries_.empty() && entries_.front().is_for(key)) return entries_.begin();
    std::uint64_t hash;
    if (!key.hash(hash)) return entries_.end();
    const auto [first, last] = index_.equal_range(hash);
    for (auto it = first; it != last; ++it)
        if (it->second->is_for(key)) return it->second;
    return entries_.end();
}

void PlanStore::use(Entries::iterator entry) {
    entry->used = ++all().uses;
    if (entry != entries_.begin()) entries_.splice(entries_.begin(), entries_, entry);
}

const PlanStore::Entry* PlanStore::find(const Key& key) {
    const auto entry = lookup(key);
    if (entry == entries_.end()) return nullptr;
    use(entry);
    return &*entry;
}

const PlanRef* PlanStore::serve(const Callee& callee, Call& call) noexcept {
    if (!callee.name)
        if (const PlanRef* const plan = serve_again(call)) return plan;
    return serve_by_key(callee, call);
}

const PlanRef* PlanStore::serve_by_key(const Callee& callee, Call& call) noexcept {
    Key key(callee);
    try {
        if (!key.add(call)) return nullptr;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
    const auto entry = lookup(key);
    if (entry == entries_.end()) return nullptr;
    const Executor& core = entry->plan.plan->core;
    if (!call.fits_results(core)) return nullptr;
    call.outputs = core.outputs().size();
    ++hits;
    use(entry);
    return &entry->plan;
}

const PlanRef* PlanStore::serve_again(const Call& call) {
    if (entries_.empty()) return nullptr;
    Entry& last = entries_.front();
    const auto &inputs = last.plan.plan->core.inputs(), &results = last.plan.plan->core.outputs();
    if (last.threads != plan_threads() || last.name || inputs.size() != call.inputs || results.size() != call.outputs)
        return nullptr;
    for (std::size_t i = 0; i < call.inputs; ++i)
        if (!matches(inputs[i].layout, call.input(i))) return nullptr;
    for (std::size_t o = 0; !call.out_given && o < call.outputs; ++o)
        if (!results[o].layout.row_major()) return nullptr;
    if (!call.fits_results(last.plan.plan->core)) return nullptr;
    ++hits;
    last.used = ++all().uses;
    return &last.plan;
}

bool PlanStore::insert(const Key& key, PlanRef plan, py::object payload, double seconds) {
    std::uint64_t hash;
    if (!key.hash(hash)) return false;
    const auto own = [](PyObject* object) { return py::reinterpret_borrow<py::object>(object); };
    const Executor::Held held = plan.plan->core.held();
    Removed removed;
    Entries added;
    added.push_back({hash,
                     key.threads,
                     {key.begin(), key.end()},
                     own(key.name),
                     frozen(key.attributes),
                     own(key.engine),
                     std::move(plan),
                     std::move(payload),
                     seconds,
                     held});
    const auto old = lookup(key);
    if (old != entries_.end()) remove(old, removed);
    py::object outdated = described_ ? std::exchange(described_->payload, py::none()) : py::none();
    all().count(added.front(), true);
    index_.emplace(hash, added.begin());
    entries_.splice(entries_.begin(), added);
    described_ = &entries_.front();
    use(entries_.begin());
    // frees some room at once, so that many small plans do not score all others each time
    shrink(removed, all().limit - all().limit / 16);
    gil::drop(outdated);
    return true;
}

py::object PlanStore::payload_of(PyObject* executor) const {
    return described_ && described_->plan.executor.ptr() == executor ? described_->payload : py::none();
}

void PlanStore::remove(Entries::iterator entry, Removed& removed) {
    const auto [first, last] = index_.equal_range(entry->hash);
    index_.erase(std::find_if(first, last, [&](const auto& item) { return item.second == entry; }));
    const std::size_t before = all().held.total();
    all().count(*entry, false);
    removed.bytes += before - all().held.total();
    if (described_ == &*entry) described_ = nullptr;
    removed.entries.splice(removed.entries.end(), entries_, entry);
}

void PlanStore::shrink(Removed& removed, std::size_t enough) {
    All& all = dgo::all();
    if (all.held.total() <= all.limit) return;
    struct Candidate {
        double worth;
        PlanStore* store;
        Entries::iterator entry;
    };
    std::vector<Candidate> candidates;
    for (PlanStore* const store : all.stores)
        for (auto entry = store->entries_.begin(); entry != store->entries_.end(); ++entry)
            if (entry != store->entries_.begin()) candidates.push_back({all.worth(*entry), store, entry});
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.worth < b.worth; });
    for (const Candidate& one : candidates) {
        if (all.held.total() <= enough) return;
        one.store->remove(one.entry, removed);
    }
}

void PlanStore::on_removed(void (*forget)(const ExecutorObject&)) { forget_plan = forget; }

void PlanStore::clear(Removed& removed) {
    while (!entries_.empty()) remove(entries_.begin(), removed);
    hits = misses = 0;
    ++generation_;
}

void PlanStore::clear() {
    Removed removed;
    clear(removed);
}

void PlanStore::clear_all() {
    Removed removed;
    for (PlanStore* store : all().stores) store->clear(removed);
}

void PlanStore::set_limit(std::size_t bytes) {
    Removed removed;
    all().limit = bytes;
    shrink(removed, bytes);
}

void bind_plan_store(py::module_& m) {
    m.def("clear_plans", &PlanStore::clear_all,
          "Forget the plans and counts of every PlanCache; begins a new generation of each.");
    m.def("set_plan_limit", &PlanStore::set_limit, py::arg("bytes"), "For every PlanCache together.");
    m.def(
        "plan_totals",
        [] {
            const All& now = all();
            py::dict totals;
            totals["net_plans"] = now.net_plans;
            totals["constants"] = now.held.constants;
            totals["library"] = now.held.library;
            totals["objects"] = now.held.objects;
            totals["limit"] = now.limit;
            return totals;
        },
        "Over every PlanCache: net_plans; bytes that plans hold: constants, library, objects; and their limit.");
    m.def(
        "set_plan_threads", [](int n) { threads_now = n; }, py::arg("n"),
        "Calls find plans for so many threads, where the calling thread or the net has no number.");
    m.def("plan_threads", &plan_threads, "The number of threads that calls of this thread find plans for.");
}

}  // namespace dgo
