// The OpenMP settings of the calling thread: shared by builtin kernels and an OpenMP build of the library.
#pragma once

#include <atomic>

#include "library/fork_guard.hpp"

namespace dgo::threads {

// The most threads that have started so far.
inline std::atomic<int> startable{1};

// Starts `n` threads, or throws if they cannot start.
void probe(int n);

// Throws if `n` threads cannot start: a parallel region would end the process instead. Called before such a region.
inline void require(int n) {
    if (n > 1 && fork_guard::has_one_thread()) fork_guard::raise_threads(n);
    if (n > startable.load(std::memory_order_relaxed)) probe(n);
}

}  // namespace dgo::threads
