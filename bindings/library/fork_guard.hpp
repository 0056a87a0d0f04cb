// A child of fork() has none of the threads that the library and OpenMP started in its parent: it would wait for
// them for ever, and for locks that one of them held. Where no thread was inside native code it computes with one
// thread, for which OpenMP wakes no others.
#pragma once

#include <atomic>

namespace dgo {

namespace fork_guard {
inline std::atomic<bool> used{false};         // native code has run in this process
inline std::atomic<bool> foreign{false};      // threads that others started, as PyTorch does, are in this process
inline std::atomic<bool> has_threads{false};  // a library with threads of its own is in use
inline std::atomic<int> busy{0};              // threads that may hold locks of the library
inline std::atomic<bool> broken{false};       // nothing may be computed here
inline std::atomic<bool> one_thread{false};   // computed with one thread alone

void install();
[[noreturn]] void raise();
[[noreturn]] void raise_threads(int n);

inline bool has_one_thread() { return one_thread.load(std::memory_order_relaxed); }

inline bool is_broken() { return broken.load(std::memory_order_relaxed); }

inline void check() {
    if (is_broken()) raise();
}

// Call before anything that may start or need worker threads.
inline void enter() {
    check();
    used.store(true, std::memory_order_relaxed);
}

inline void begin() { busy.fetch_add(1, std::memory_order_relaxed); }
inline void end() { busy.fetch_sub(1, std::memory_order_relaxed); }

// While the library is asked for what needs no workers: only a fork in the meantime is harmful.
class Busy {
public:
    Busy() {
        check();
        begin();
    }
    ~Busy() { end(); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
};

// Frees an object of the library, if any; where that may wait for ever, the object stays.
template <typename Function, typename Handle>
void destroy(Function function, Handle handle) {
    if (handle && !is_broken()) function(handle);
}
}  // namespace fork_guard

}  // namespace dgo
