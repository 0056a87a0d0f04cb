// A child of fork() has none of the threads that the library and OpenMP started in its parent: it would wait for
// them for ever.
#pragma once

#include <atomic>

namespace dgo {

namespace fork_guard {
inline std::atomic<bool> used{false};    // native code has run in this process
inline std::atomic<bool> broken{false};  // ... before this process was forked off

void install();
[[noreturn]] void raise();

inline void check() {
    if (broken.load(std::memory_order_relaxed)) raise();
}

// Call before anything that may start or need worker threads.
inline void enter() {
    check();
    used.store(true, std::memory_order_relaxed);
}
}  // namespace fork_guard

}  // namespace dgo
