#include "library/host_task.hpp"

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <mutex>

#include "library/fork_guard.hpp"

namespace dgo::host_task {
namespace {

constexpr int kAnywhere = -1;

std::atomic<pid_t> thread{0};  // 0: nothing follows
std::atomic<int> where{kAnywhere};
std::atomic<int> callers{0};
std::mutex moving;
cpu_set_t everywhere;  // where the thread may run when it follows nobody; written before `thread`

// A refusal by the kernel (a changed cpuset, say) ends the following, without an error of the call.
void move_to(int cpu) {
    const std::lock_guard lock(moving);
    const pid_t id = thread.load(std::memory_order_acquire);
    if (!id || where.load(std::memory_order_relaxed) == cpu) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (cpu != kAnywhere) CPU_SET(cpu, &one);
    const bool allowed = cpu == kAnywhere || (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &everywhere));
    if (allowed && sched_setaffinity(id, sizeof one, cpu == kAnywhere ? &everywhere : &one) == 0) {
        where.store(cpu, std::memory_order_relaxed);
        return;
    }
    sched_setaffinity(id, sizeof everywhere, &everywhere);
    where.store(kAnywhere, std::memory_order_relaxed);
    if (allowed) thread.store(0, std::memory_order_release);
}

}  // namespace

bool follow(int id) {
    fork_guard::check();
    const std::lock_guard lock(moving);
    cpu_set_t found;
    if (sched_getaffinity(id, sizeof found, &found) != 0) return false;
    everywhere = found;
    where.store(kAnywhere, std::memory_order_relaxed);
    thread.store(id, std::memory_order_release);
    return true;
}

void stop() {
    fork_guard::check();
    move_to(kAnywhere);
    thread.store(0, std::memory_order_release);
}

int following() { return thread.load(std::memory_order_acquire); }

Call::Call() {
    const bool alone = callers.fetch_add(1, std::memory_order_relaxed) == 0;
    if (!thread.load(std::memory_order_relaxed)) return;
    const int cpu = alone ? sched_getcpu() : kAnywhere;
    if (where.load(std::memory_order_relaxed) != cpu) move_to(cpu);
}

Call::~Call() { callers.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace dgo::host_task
