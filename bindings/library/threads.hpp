// The OpenMP settings of the calling thread: shared by own kernels and an OpenMP build of the library.
#pragma once

#include <atomic>

namespace dgo::threads {

// A number of threads that was seen to start.
inline std::atomic<int> startable{1};

void probe(int n);

// Call before the first parallel region of `n` threads: throws where they cannot start, which would end the process.
inline void require(int n) {
    if (n > startable.load(std::memory_order_relaxed)) probe(n);
}

}  // namespace dgo::threads
