// Threads for what the library ties to a thread: some of its primitives (3.2: the gradients of convolutions) have their
// scratch memory in a variable of the thread that makes them, and count there who uses it. Run in another thread they
// write to that one's, which is too small or null; destroyed in another one they take it from those that use it.
//
// The process's first thread, which lives as long as the process, runs its own. All others share one of the package's:
// its OpenMP team is one more, and where teams have more threads than there are CPUs none of them waits awake.
#pragma once

#include <functional>

namespace dgo::home_thread {

enum class Home { first, ours };

// Where what the calling thread makes is at home.
Home of_caller();

// Runs the job in that thread and waits; what it throws is thrown here. `first` is possible in the first thread alone.
// In the other one jobs come in turn, by as many OpenMP threads as the caller may use, and start no others. Needs no
// GIL, and must not have it where the job may want it.
void run(Home home, const std::function<void()>& job);

// Runs the job, which cannot fail: at once where that is possible, else when the first thread next runs one.
void run_some_time(Home home, std::function<void()> job);

// In a forked child, which has no such thread yet.
void renew();

// The thread that this one works for: itself, or who waits for the job.
long caller();

}  // namespace dgo::home_thread
