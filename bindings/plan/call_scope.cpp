#include "plan/call_scope.hpp"

#include <chrono>

#include "common/error.hpp"

namespace dgo::call_scope {

Bounds& bounds() {
    static thread_local Bounds here;
    return here;
}

void check_deadline(const std::string& what) {
    const double deadline = bounds().deadline;
    if (deadline == std::numeric_limits<double>::infinity()) return;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    if (std::chrono::duration<double>(now).count() < deadline) return;
    fail(ErrorKind::timeout, what + ": the call's time is over; its outputs are unfinished");
}

}  // namespace dgo::call_scope
