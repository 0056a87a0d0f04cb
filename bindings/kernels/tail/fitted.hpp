// A tail that belongs to a kernel.
#pragma once

#include <vector>

#include "kernels/tail/call.hpp"
#include "kernels/tail/tail.hpp"

namespace dgo {

class FittedTail {
public:
    // As Tail::params, of which nothing is asked where there are no post-ops.
    FittedTail(const Tail& tail, int64_t channels, const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& strides)
        : tail_(tail) {
        if (!tail_.empty()) params_ = tail_.params(channels, sizes, strides);
    }
    FittedTail(const FittedTail&) = delete;
    FittedTail& operator=(const FittedTail&) = delete;

    // Whether there are post-ops.
    explicit operator bool() const { return !tail_.empty(); }
    int operands() const { return tail_.operands(); }
    // All of them, where the registers of sums can take them.
    Finish finish() const { return tail_.empty() ? Finish{} : finish_of(params_); }
    // With the addresses of its operands.
    TailCall call(const char* const* operands) const { return {tail_.empty() ? nullptr : &params_, operands}; }

private:
    const Tail tail_;
    TailParams params_{};
};

}  // namespace dgo
