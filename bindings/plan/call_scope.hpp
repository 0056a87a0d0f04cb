// Bounds of the calls that a thread makes: a number of threads, and a time at which a call ends unfinished.
#pragma once

#include <limits>
#include <string>

namespace dgo::call_scope {

struct Bounds {
    int threads = 0;  // 0: the number of the net, or the default
    double deadline = std::numeric_limits<double>::infinity();  // in seconds of the steady clock
};

// The bounds of the calling thread.
Bounds& bounds();

// Throws if the deadline of the calling thread has passed.
void check_deadline(const std::string& what);

// A number of threads for calls of this thread, unless it has one.
class Threads {
public:
    explicit Threads(int wanted) {
        if (!wanted) return;
        Bounds& here = bounds();
        if (!here.threads) set_ = &here;
        if (set_) set_->threads = wanted;
    }
    ~Threads() {
        if (set_) set_->threads = 0;
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

private:
    Bounds* set_ = nullptr;
};

}  // namespace dgo::call_scope
