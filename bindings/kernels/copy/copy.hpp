// A strided copy with conversion, planned once and run many times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/copy/vtable.hpp"
#include "kernels/kernel.hpp"

namespace dgo {

constexpr int kMaxAxes = 12;

class StridedCopy {
public:
    // Strides in elements, one for each axis. A stride of the source may be 0 (broadcast) or negative (backwards from
    // the address that run is given); destination elements must not share an address.
    StridedCopy(const std::vector<int64_t>& shape, int src_dtype, const std::vector<int64_t>& src_strides,
                int dst_dtype, const std::vector<int64_t>& dst_strides);

    void run(const char* src, char* dst) const;
    // Runs a part of the tasks [0, tasks()) on the calling thread.
    void run_part(const char* src, char* dst, int64_t begin, int64_t end) const;

    int64_t tasks() const { return tasks_; }
    double bytes() const { return bytes_; }

private:
    struct Axis {
        int64_t size, src, dst;
    };
    static std::vector<Axis> coalesce(const std::vector<int64_t>& shape, const std::vector<int64_t>& src_strides,
                                      const std::vector<int64_t>& dst_strides);
    static int64_t widen_elements(std::vector<Axis>& axes, int64_t size);
    BlockKind choose_block(std::vector<Axis>& axes);
    void cut(const std::vector<Axis>& outer, int64_t src_size, int64_t dst_size);

    BlockFn block_fn_ = nullptr;
    CopyBlock block_{};  // the block of a task that no edge cuts off
    int64_t n0_ = 0, n1_ = 0;  // the whole two-dimensional copy
    int axes_ = 0;             // the last two count blocks along n0 and n1
    int64_t size_[kMaxAxes + 2], src_[kMaxAxes + 2], dst_[kMaxAxes + 2];  // strides in bytes
    int64_t tasks_ = 0;
    double bytes_ = 0;
};

// src, dst
std::shared_ptr<Kernel> make_copy(const Dims& shape, int src_dtype, const Dims& src_strides, int dst_dtype,
                                  const Dims& dst_strides);

}  // namespace dgo
