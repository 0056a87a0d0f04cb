// The one thread on which libsycl runs host tasks, and with them every primitive of a SYCL CPU engine.
#pragma once

namespace dgo::host_task {

// Around the execution of a partition: while one thread computes at a time, the host-task thread runs on the CPU of
// the caller, who sleeps meanwhile. Waking a thread on another, idle CPU takes longer than a small layer does.
// Callers that overlap take away each other's CPU: then the thread runs wherever it could before.
class Call {
public:
    Call();
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
};

// Whether the thread of this number, as the kernel counts, follows from now on.
bool follow(int thread);
void stop();
int following();  // 0: none

}  // namespace dgo::host_task
