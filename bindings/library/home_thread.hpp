// One thread for what the library ties to a thread: some of its primitives (3.2: the gradients of convolutions) have
// their scratch memory in a variable of the thread that makes them, and count there who uses it. Run in another thread
// they write to that one's, which is too small or null; destroyed in another one they take it from those that use it.
#pragma once

#include <functional>

namespace dgo::home_thread {

// Runs the job there, by as many OpenMP threads as the caller may use, and waits; what it throws is thrown here. Jobs
// come in turn and start no others. Needs no GIL, and must not have it where the job may want it.
void run(const std::function<void()>& job);

// The thread that this one works for: itself, or who waits for the job.
long caller();

}  // namespace dgo::home_thread
