#include "library/home_thread.hpp"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "library/fork_guard.hpp"
#include "library/threads.hpp"

namespace dgo::home_thread {
namespace {

thread_local long working_for = 0;

struct Job {
    const std::function<void()>& work;
    const int threads;
    const long caller;
    std::exception_ptr error{};
    bool done = false;
};

struct Worker {
    std::mutex turn;   // of callers
    std::mutex mutex;  // of what follows
    std::condition_variable asked, answered;
    Job* job = nullptr;
    bool started = false;
};

Worker*& current() {
    static Worker* one = new Worker;  // never destroyed: plans may live longer than main
    return one;
}

Worker& worker() { return *current(); }

void* work(void*) {
    Worker& here = worker();
    std::unique_lock lock(here.mutex);
    while (true) {
        here.asked.wait(lock, [&] { return here.job != nullptr; });
        Job& job = *here.job;
        lock.unlock();
        try {
            working_for = job.caller;
            if (omp_get_max_threads() != job.threads) omp_set_num_threads(job.threads);
            job.work();
        } catch (...) {
            job.error = std::current_exception();
        }
        lock.lock();
        job.done = true;
        here.job = nullptr;
        here.answered.notify_one();
    }
}

// Jobs that other threads leave to the first thread.
class Left {
public:
    void add(std::function<void()> job) {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
        any_.store(true, std::memory_order_release);
    }
    void run() {
        if (!any_.load(std::memory_order_acquire)) return;
        std::vector<std::function<void()>> jobs;
        {
            const std::lock_guard lock(mutex_);
            jobs.swap(jobs_);
            any_.store(false, std::memory_order_release);
        }
        for (const auto& job : jobs) job();
    }

private:
    std::mutex mutex_;
    std::atomic<bool> any_{false};
    std::vector<std::function<void()>> jobs_;
};

Left& left() {
    static auto* const one = new Left;  // never destroyed, as the worker
    return *one;
}

// Signals are handled by other threads.
void start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, nullptr, &work, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error) fail(ErrorKind::error, std::string("no thread can be started for gradients: ") + std::strerror(error));
    pthread_detach(thread);
}

}  // namespace

void renew() { current() = new Worker; }

Home of_caller() {
    thread_local const bool first = syscall(SYS_gettid) == getpid();
    return first ? Home::first : Home::ours;
}

void run(Home home, const std::function<void()>& job) {
    fork_guard::enter();
    if (home == Home::first) {
        left().run();
        return job();
    }
    const int threads = omp_get_max_threads();
    threads::require(threads);
    Worker& there = worker();
    const std::lock_guard turn(there.turn);
    if (!there.started) start();
    there.started = true;
    Job own{job, threads, caller()};
    {
        std::unique_lock lock(there.mutex);
        there.job = &own;
        there.asked.notify_one();
        there.answered.wait(lock, [&] { return own.done; });
    }
    if (own.error) std::rethrow_exception(own.error);
}

void run_some_time(Home home, std::function<void()> job) {
    if (home == Home::first && of_caller() != home) return left().add(std::move(job));
    run(home, job);
}

long caller() { return working_for ? working_for : syscall(SYS_gettid); }

}  // namespace dgo::home_thread
