// The OpenMP settings of the calling thread: shared by builtin kernels and an OpenMP build of the library.
#pragma once

#include <atomic>

#include "library/fork_guard.hpp"

namespace dgo::threads {

// A number of threads that was seen to start.
inline std::atomic<int> startable{1};

void probe(int n);

// Call before the first parallel region of `n` threads: throws where they cannot start, which would end the process.
inline void require(int n) {
    if (n > 1 && fork_guard::has_one_thread()) fork_guard::raise_threads(n);
    if (n > startable.load(std::memory_order_relaxed)) probe(n);
}

}  // namespace dgo::threads
