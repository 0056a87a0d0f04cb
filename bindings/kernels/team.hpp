// Teams of OpenMP's threads. libgomp ends the threads that a smaller region leaves over, and a larger one starts them
// anew: a region has all threads of the region before, and those that a body does not need leave it at once.
#pragma once

#include <cstdint>
#include <type_traits>

// benchmarks/cores.c replaces these.
extern "C" {
using DgoTeamBody = void (*)(void* data, int rank, int size);
__attribute__((visibility("default"))) void dgo_team_run(int threads, DgoTeamBody body, void* data);
// Waits until all threads of a body have called it.
__attribute__((visibility("default"))) void dgo_team_barrier();
// Returns *next and adds one; `end`: of the loop.
__attribute__((visibility("default"))) int64_t dgo_team_next(int64_t* next, int64_t end);
}

namespace dgo {
namespace team {

// Whether a body, or a region of somebody else, runs in this thread: a body within it has one thread.
bool busy();
void run(int threads, DgoTeamBody body, void* data);

}  // namespace team

// Calls body(rank, size) in `threads` threads, or as many as there are; within another body in one. A body throws nothing.
template <class Body>
static inline void run_team(int threads, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    const auto call = [](void* data, int rank, int size) { (*static_cast<Plain*>(data))(rank, size); };
    team::run(threads, call, const_cast<void*>(static_cast<const void*>(&body)));
}

// Calls each(task, rank) for the tasks of contiguous, nearly equal parts of [0, tasks).
template <class Each>
static inline void run_evenly(int threads, int64_t tasks, Each&& each) {
    run_team(threads, [&](int rank, int size) {
        for (int64_t task = tasks * rank / size; task < tasks * (rank + 1) / size; ++task) each(task, rank);
    });
}

// The turns that the threads of a body take in loops.
struct alignas(64) Turns {
    int64_t next = 0;
};

// A thread's part of loops whose tasks go to the thread that asks first. All threads of a body run the same loops, with a
// barrier between two loops of the same turns.
class Loops {
public:
    __attribute__((always_inline)) Loops(Turns& turns, int size) : turns_(turns), size_(size) {}

    template <class Each>
    void run(int64_t tasks, Each&& each) {
        const int64_t end = begin_ + tasks;
        for (int64_t turn; (turn = dgo_team_next(&turns_.next, end)) < end;) each(turn - begin_);
        begin_ = end + size_;  // each thread has taken one turn too many
    }

private:
    Turns& turns_;
    int size_;
    int64_t begin_ = 0;
};

}  // namespace dgo
