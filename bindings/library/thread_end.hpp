// Threads that end while compiled partitions are destroyed. The library has a table in each thread of what its executions
// need; taking an entry down, it looks it up and erases it in two steps, and a destruction in between makes it erase what
// is not there (3.2 to 3.13): memory is corrupted.
//
// A thread destroys its objects in the reverse order of their construction. So an object constructed after the table waits
// for other threads' destructions, and an object constructed before it lets them continue.
#pragma once

#include <shared_mutex>

#include "library/fork_guard.hpp"

namespace dgo::thread_end {

// Threads that end share this lock; a destroying thread holds it exclusively.
inline std::shared_mutex& ending() {
    static auto* const mutex = new std::shared_mutex;  // never destroyed: threads may end later than main
    return *mutex;
}

// Held during an execution; the first execution of a thread makes the table.
class Execution {
public:
    Execution() {
        struct Last {
            ~Last() {
                if (!fork_guard::is_broken()) ending().unlock_shared();
                fork_guard::end();
            }
        };
        thread_local Last last;
        (void)last;
    }
    ~Execution() {
        struct First {
            ~First() {
                fork_guard::begin();
                if (!fork_guard::is_broken()) ending().lock_shared();
            }
        };
        thread_local First first;
        (void)first;
    }
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;
};

}  // namespace dgo::thread_end
