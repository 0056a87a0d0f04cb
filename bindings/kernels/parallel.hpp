// How kernels share work between OpenMP threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace dgo {

// Waking a team costs a few microseconds: less work than this per thread is done faster by fewer threads.
constexpr int64_t kBytesPerThread = 32 * 1024;

inline int threads_for(int64_t tasks, int64_t bytes) {
    const int64_t useful = std::min(tasks, bytes / kBytesPerThread);
    if (useful < 2) return 1;
    return static_cast<int>(std::min<int64_t>(useful, omp_get_max_threads()));
}

// Calls run(begin, end) on contiguous, nearly equal parts of [0, tasks).
template <class Run>
void parallel_for(int64_t tasks, int64_t bytes, Run&& run) {
    const int threads = threads_for(tasks, bytes);
    if (threads == 1) {
        run(int64_t{0}, tasks);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        const int64_t team = omp_get_num_threads();
        const int64_t rank = omp_get_thread_num();
        run(tasks * rank / team, tasks * (rank + 1) / team);
    }
}

}  // namespace dgo
