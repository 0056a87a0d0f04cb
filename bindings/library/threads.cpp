#include "library/threads.hpp"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "library/fork_guard.hpp"

namespace dgo::threads {
namespace {

// The bytes of OMP_STACKSIZE, a number with an optional unit B, K, M or G; 0 if it cannot be parsed.
std::size_t stack_bytes(const char* text) {
    if (!text) return 0;
    char* end = nullptr;
    const unsigned long long number = std::strtoull(text, &end, 10);
    if (end == text) return 0;
    while (std::isspace(static_cast<unsigned char>(*end))) ++end;
    const char* const units = "BKMG";
    const char* const unit = *end ? std::strchr(units, std::toupper(static_cast<unsigned char>(*end))) : units + 1;
    if (!unit) return 0;
    const auto shift = static_cast<unsigned>(10 * (unit - units));
    return number > (ULLONG_MAX >> shift) ? 0 : static_cast<std::size_t>(number << shift);
}

// Threads with stacks of OpenMP's size, all alive until the object is destroyed.
class Crowd {
public:
    Crowd() {
        pthread_attr_init(&attributes_);
        for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"})
            if (const std::size_t bytes = stack_bytes(std::getenv(name))) {
                pthread_attr_setstacksize(&attributes_, bytes);
                break;
            }
    }
    ~Crowd() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        end_.notify_all();
        for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
        pthread_attr_destroy(&attributes_);
    }
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    // 0, or the error of the first thread that failed.
    int start(int count) {
        for (int i = 0; i < count; ++i) {
            threads_.emplace_back();
            if (const int error = pthread_create(&threads_.back(), &attributes_, &wait, this)) {
                threads_.pop_back();
                return error;
            }
        }
        return 0;
    }
    std::size_t size() const { return threads_.size(); }

private:
    static void* wait(void* self) {
        auto& crowd = *static_cast<Crowd*>(self);
        std::unique_lock lock(crowd.mutex_);
        crowd.end_.wait(lock, [&] { return crowd.over_; });
        return nullptr;
    }

    pthread_attr_t attributes_;
    std::vector<pthread_t> threads_;
    std::mutex mutex_;
    std::condition_variable end_;
    bool over_ = false;
};

}  // namespace

void probe(int n) {
    static auto* const probing = new std::mutex;
    if (fork_guard::is_broken()) return;  // nothing will run here
    n = std::min(n, omp_get_thread_limit());
    const std::lock_guard lock(*probing);
    if (n <= startable.load(std::memory_order_relaxed)) return;
    Crowd crowd;
    if (const int error = crowd.start(n - 1))
        fail(ErrorKind::error,
             std::to_string(n) + " threads cannot run in this process: only " + std::to_string(crowd.size() + 1) +
                 " could be started (" + std::strerror(error) +
                 "). Ask for fewer with set_num_threads or OMP_NUM_THREADS, for smaller stacks with OMP_STACKSIZE, or "
                 "raise the limits on processes and memory (ulimit -u, ulimit -v, those of the container)");
    startable.store(n, std::memory_order_relaxed);
}

}  // namespace dgo::threads
