#include "library/fork_guard.hpp"

#include <pthread.h>

#include "common/error.hpp"

namespace dgo::fork_guard {

void install() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] {
        if (used.load(std::memory_order_relaxed) || busy.load(std::memory_order_relaxed))
            broken.store(true, std::memory_order_relaxed);
    });
    if (registered != 0) fail(ErrorKind::error, "pthread_atfork failed: out of memory");
}

void raise() {
    fail(ErrorKind::error,
         "this process was forked from one that had already computed; the worker threads stayed in the parent, so "
         "computing here would wait for ever. Start processes with multiprocessing's \"spawn\" method "
         "(multiprocessing.set_start_method(\"spawn\")), or fork before the first computation");
}

}  // namespace dgo::fork_guard
