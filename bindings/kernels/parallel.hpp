// How kernels share work between OpenMP threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#include "kernels/team.hpp"

namespace dgo {

// Waking a team costs a few microseconds: less work than this for two is done faster by one thread, and less work for each
// of more threads by fewer.
constexpr double kBytesOfTwo = 64 * 1024, kBytesPerThread = 16 * 1024;

// From so many threads on tasks are made for the number of threads: fewer share what there is evenly enough.
constexpr int kManyThreads = 5;

// Returns the threads for some work. bytes: the bytes that all tasks move, or arithmetic worth as many; a floating
// number, as it may be past all bounds. Within a team each thread goes on alone.
inline int threads_for(int64_t tasks, double bytes) {
    if (team::busy()) return 1;
    if (tasks < 2 || bytes < kBytesOfTwo) return 1;
    const double useful = std::min(static_cast<double>(tasks), bytes / kBytesPerThread);
    return static_cast<int>(std::min<double>(useful, omp_get_max_threads()));
}

// Calls run(begin, end, rank) on contiguous, nearly equal parts of [0, tasks) with ranks below `threads`. What a part
// throws is thrown here, when all have ended: nothing may leave the region itself.
template <class Run>
void parallel_parts(int threads, int64_t tasks, Run&& run) {
    if (threads == 1) {
        run(int64_t{0}, tasks, 0);
        return;
    }
    std::exception_ptr error;
    std::atomic<bool> failed{false};
    run_team(threads, [&](int rank, int size) {
        try {
            run(tasks * rank / size, tasks * (rank + 1) / size, rank);
        } catch (...) {
            if (!failed.exchange(true)) error = std::current_exception();
        }
    });
    if (error) std::rethrow_exception(error);
}

// Calls run(begin, end) on parts of [0, tasks) with threads_for(bytes) threads.
template <class Run>
void parallel_for(int64_t tasks, double bytes, Run&& run) {
    parallel_parts(threads_for(tasks, bytes), tasks, [&](int64_t begin, int64_t end, int) { run(begin, end); });
}

// parts[0] += parts[1] + parts[2] + ..., each of `size` floats, one after the other and in order.
inline void add_up_parts(float* parts, int64_t size, int64_t count) {
    constexpr int64_t kChunk = 1024;
    parallel_for((size + kChunk - 1) / kChunk, static_cast<double>(size * (count - 1) * 4),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t part = 1; part < count; ++part) {
                         const float* more = parts + part * size;
                         for (int64_t i = begin * kChunk; i < std::min(end * kChunk, size); ++i) parts[i] += more[i];
                     }
                 });
}

}  // namespace dgo
