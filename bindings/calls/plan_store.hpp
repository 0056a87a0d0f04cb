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

// How many threads calls use from here on: what is looked up are plans for so many.
int plan_threads();

// A one-shot function with its attributes on an engine, all borrowed; all null: a net.
struct Callee {
    PyObject *name = nullptr, *attributes = nullptr, *engine = nullptr;
};

// What a call is looked up by: data type, shape and strides of every array, and what one-shot functions add to it.
// Row-major results count as none: arrays for them are allocated that way.
class Key : public Callee {
public:
    explicit Key(const Callee& callee = {}) : Callee(callee) {}
    Key(const Key&) = delete;
    Key& operator=(const Key&) = delete;

    // All arrays of a call; false where plans cannot read one of them as it is.
    bool add(const Call& call);
    void add(const Layout& layout);
    void add_results(const std::vector<Layout>& results);

    // False where attributes are of types that a plan cannot be found by.
    bool hash(std::uint64_t& hash) const;
    const std::uint64_t* begin() const { return words_; }
    const std::uint64_t* end() const { return words_ + size_; }

    // Plans for other numbers of threads are other plans.
    int threads = plan_threads();

private:
    // Where so many more words go.
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

// Plans, up to a number of bytes for all stores together. Where these are not enough, those go first that took the
// least time to make for the bytes which they alone hold, the longer ago they were used the sooner. The plan that a
// store used last stays whatever it takes.
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

    // Both make the plan the one used last; null where there is none.
    const Entry* find(const Key& key);
    // The plan that runs the arrays of a call as they are. A call that grew out of memory is served by Python like any
    // other unusual one: there is none for it.
    const PlanRef* serve(const Callee& callee, Call& call) noexcept;
    // In place of an older plan of that key; false if plans of such a key are never found.
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
    // Of an executor that it has, if that is the one it got last; none otherwise.
    py::object payload_of(PyObject* executor) const;
    std::uint64_t generation() const { return generation_; }  // how often it was cleared

    std::uint64_t hits = 0, misses = 0;

    // Over all stores.
    static void clear_all();
    static void set_limit(std::size_t bytes);

private:
    class Removed;

    Entries::iterator lookup(const Key& key);
    // For a net, if that is the plan used last: no key is written down for it.
    const PlanRef* serve_again(const Call& call);
    // Apart, as the memory of a key is not to be laid out for calls that need none.
    [[gnu::noinline]] const PlanRef* serve_by_key(const Callee& callee, Call& call) noexcept;
    void use(Entries::iterator entry);
    // Moves an entry out; whoever calls drops it when the store is consistent again: that may run any Python code.
    void remove(Entries::iterator entry, Removed& removed);
    void clear(Removed& removed);
    // Down to so many bytes where all plans together hold more than the limit.
    static void shrink(Removed& removed, std::size_t enough);

    Entries entries_;
    std::unordered_multimap<std::uint64_t, Entries::iterator> index_;
    Entry* described_ = nullptr;  // the one with a payload
    std::uint64_t generation_ = 0;
};

void bind_plan_store(py::module_& m);

}  // namespace dgo
