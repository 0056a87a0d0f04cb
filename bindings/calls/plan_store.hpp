// Plans of nets and of one-shot functions, found by everything that decides what is computed. Needs the GIL throughout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "calls/call.hpp"

namespace dgo {

// The number of threads of calls of this thread, which look up plans for this number.
int plan_threads();

// A one-shot function with its attributes on an engine, all borrowed; all null: a net.
struct Callee {
    PyObject *name = nullptr, *attributes = nullptr, *engine = nullptr;
};

// The key of a call: data type, shape and strides of every array; of one-shot functions also name, attributes, engine.
// Row-major results are left out of the key, since results are allocated row-major.
class Key : public Callee {
public:
    explicit Key(const Callee& callee = {}) : Callee(callee) {}
    Key(const Key&) = delete;
    Key& operator=(const Key&) = delete;

    // Appends all arrays of a call; false if a plan cannot read one of them without a copy.
    bool add(const Call& call);
    void add(const Layout& layout);
    void add_results(const std::vector<Layout>& results);

    // False for attributes of types that keys do not support.
    bool hash(std::uint64_t& hash) const;
    const std::uint64_t* begin() const { return words_; }
    const std::uint64_t* end() const { return words_ + size_; }

    // Plans for other numbers of threads are other plans.
    int threads = plan_threads();

private:
    // The place for `count` more words.
    std::uint64_t* add_words(std::size_t count) {
        if (room_ - size_ < count) grow();
        size_ += count;
        return words_ + size_ - count;
    }
    void grow();  // by more than an array takes
    bool add(PyObject* array);

    std::array<std::uint64_t, 128> first_;  // enough for most calls
    std::vector<std::uint64_t> more_;
    std::uint64_t* words_ = first_.data();
    std::size_t size_ = 0, room_ = first_.size();
};

// Plans, up to a limit of bytes for all stores together. Beyond the limit, plans of the lowest score are evicted first:
// the time to compile a plan, divided by the bytes that only it holds and by the uses since its last use. The plan that
// a store used last is never evicted.
class PlanStore {
public:
    PlanStore();
    ~PlanStore();
    PlanStore(const PlanStore&) = delete;
    PlanStore& operator=(const PlanStore&) = delete;

    struct Entry {
        bool is_for(const Key& key) const;

        std::uint64_t hash;
        int threads;
        std::vector<std::uint64_t> words;
        py::object name, attributes, engine;
        PlanRef plan;
        py::object payload;  // what Python wants to know of the plan that the store got last; none of others
        double seconds;  // that it took to make
        Executor::Held held;
        std::uint64_t used = 0;
    };
    using Entries = std::list<Entry>;

    // Both mark the plan as used last; null if there is none.
    const Entry* find(const Key& key);
    // The plan that runs the arrays of a call without copies. Null, too, when memory is short: Python then handles the
    // call, like other unusual calls.
    const PlanRef* serve(const Callee& callee, Call& call) noexcept;
    // Replaces an older plan of this key; false if such a key is never looked up.
    bool insert(const Key& key, PlanRef plan, py::object payload, double seconds);
    void clear();

    const Entries& entries() const { return entries_; }  // the one used last comes first
    template <typename Visit>
    int each(Visit&& visit) const {
        for (const Entry& entry : entries_)
            for (const py::object* object : {&entry.attributes, &entry.engine, &entry.plan.executor, &entry.payload})
                if (const int stop = visit(object->ptr())) return stop;
        return 0;
    }
    // The entry of an executor, if it was inserted last; else none.
    py::object payload_of(PyObject* executor) const;
    std::uint64_t generation() const { return generation_; }  // how often it was cleared

    std::uint64_t hits = 0, misses = 0;

    // Over all stores.
    static void clear_all();
    static void set_limit(std::size_t bytes);
    // Whoever keeps plans of stores at hand lets go of each that a store has removed: `forget` is called with it.
    static void on_removed(void (*forget)(const ExecutorObject& plan));

private:
    class Removed;

    Entries::iterator lookup(const Key& key);
    // For a net, if the plan used last fits: needs no key.
    const PlanRef* serve_again(const Call& call);
    // A function of its own, so that calls without a key do not set up the key's memory.
    [[gnu::noinline]] const PlanRef* serve_by_key(const Callee& callee, Call& call) noexcept;
    void use(Entries::iterator entry);
    // Moves an entry out. The caller drops it once the store is consistent, since that may run any Python code.
    void remove(Entries::iterator entry, Removed& removed);
    void clear(Removed& removed);
    // Evicts plans down to `bytes` if all plans together hold more than the limit.
    static void shrink(Removed& removed, std::size_t enough);

    Entries entries_;
    std::unordered_multimap<std::uint64_t, Entries::iterator> index_;
    Entry* described_ = nullptr;  // the one with a payload
    std::uint64_t generation_ = 0;
};

}  // namespace dgo
