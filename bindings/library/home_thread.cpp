#include "library/home_thread.hpp"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>

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

struct Home {
    std::mutex turn;   // of callers
    std::mutex mutex;  // of what follows
    std::condition_variable asked, answered;
    Job* job = nullptr;
    bool started = false;
};

Home& home() {
    static auto* const one = new Home;  // never destroyed: plans may live longer than main
    return *one;
}

void* work(void*) {
    Home& here = home();
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

// Signals are for the threads that were there before.
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

void run(const std::function<void()>& job) {
    fork_guard::enter();
    const int threads = omp_get_max_threads();
    threads::require(threads);
    Home& there = home();
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

long caller() { return working_for ? working_for : syscall(SYS_gettid); }

}  // namespace dgo::home_thread
