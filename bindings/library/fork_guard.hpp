// A child of fork() has none of the threads that the library and OpenMP started in its parent: it would wait for
// them for ever, and for locks that one of them held.
#pragma once

#include <atomic>

namespace dgo {

namespace fork_guard {
inline std::atomic<bool> used{false};    // native code has run in this process
inline std::atomic<int> busy{0};         // threads that may hold locks of the library
inline std::atomic<bool> broken{false};  // one of them, before this process was forked off

void install();
[[noreturn]] void raise();

inline bool is_broken() { return broken.load(std::memory_order_relaxed); }

inline void check() {
    if (is_broken()) raise();
}

// Call before anything that may start or need worker threads.
inline void enter() {
    check();
    used.store(true, std::memory_order_relaxed);
}

// While the library is asked for what needs no workers: only a fork in the meantime is harmful.
class Busy {
public:
    Busy() {
        check();
        busy.fetch_add(1, std::memory_order_relaxed);
    }
    ~Busy() { busy.fetch_sub(1, std::memory_order_relaxed); }
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
