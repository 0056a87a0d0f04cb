#include "library/fork_guard.hpp"

#include <omp.h>
#include <pthread.h>

#include <string>

#include "common/error.hpp"
#include "library/home_thread.hpp"

namespace dgo::fork_guard {

void install() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] {
        const bool computed = used.load(std::memory_order_relaxed);
        if (busy.load(std::memory_order_relaxed) || (computed && has_threads.load(std::memory_order_relaxed))) {
            broken.store(true, std::memory_order_relaxed);
        } else if (computed || foreign.load(std::memory_order_relaxed)) {
            one_thread.store(true, std::memory_order_relaxed);
            omp_set_num_threads(1);
            home_thread::renew();
        }
    });
    if (registered != 0) fail(ErrorKind::error, "pthread_atfork failed: out of memory");
}

void raise() {
    fail(ErrorKind::error,
         "this process was forked while threads of its parent computed, or from one that used a library with threads "
         "of its own; these stayed in the parent, so computing here would wait for ever. Start processes with "
         "multiprocessing's \"spawn\" method (multiprocessing.set_start_method(\"spawn\")), or fork before the first "
         "computation");
}

void raise_threads(int n) {
    fail(ErrorKind::error,
         "this process was forked from one with threads: it computes with one thread, not " + std::to_string(n) +
             ", as the others stayed in the parent. Start processes that need more with multiprocessing's \"spawn\" "
             "method");
}

}  // namespace dgo::fork_guard
