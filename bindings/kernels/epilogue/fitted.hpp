// An epilogue that belongs to a kernel.
#pragma once

#include <vector>

#include "kernels/epilogue/call.hpp"
#include "kernels/epilogue/epilogue.hpp"

namespace dgo {

class FittedEpilogue {
public:
    // Takes the arguments of Epilogue::params; calls it only if there are post-ops.
    FittedEpilogue(const Epilogue& epilogue, int64_t channels, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides)
        : epilogue_(epilogue) {
        if (!epilogue_.empty()) params_ = epilogue_.params(channels, sizes, strides);
    }
    FittedEpilogue(const FittedEpilogue&) = delete;
    FittedEpilogue& operator=(const FittedEpilogue&) = delete;

    // Whether there are post-ops.
    explicit operator bool() const { return !epilogue_.empty(); }
    int operands() const { return epilogue_.operands(); }
    // Returns all post-ops as an activation, where registers of sums can take them.
    FusedActivation activation() const { return epilogue_.empty() ? FusedActivation{} : fused_activation_of(params_); }
    // Returns the call with the addresses of its operands.
    EpilogueCall call(const char* const* operands) const { return {epilogue_.empty() ? nullptr : &params_, operands}; }

private:
    const Epilogue epilogue_;
    EpilogueParams params_{};
};

}  // namespace dgo
