// A kernel that runs a list of copies in order.
#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "kernels/copy/copy.hpp"
#include "kernels/kernel.hpp"

namespace dgo {

class CopyListKernel : public Kernel {
public:
    // In place of a source offset: the source is a single zero, the copy's source strides are 0.
    static constexpr int64_t kZeros = -1;

    // Operands src, dst; the first zero_bytes of dst become 0 before the copies.
    CopyListKernel(const char* kernel_name, int64_t zero_bytes);
    // Offsets in bytes. Tasks of different copies may run at the same time, so they must not write the same
    // place.
    void add(StridedCopy copy, int64_t src, int64_t dst);
    void run(char* const* operands) const override;

private:
    struct Item {
        StridedCopy copy;
        int64_t src, dst;
    };
    std::vector<Item> items_;
    std::vector<int64_t> first_task_ = {0};  // the first task of each item; last, the number of all tasks
    int64_t zero_bytes_;
    double bytes_ = 0;
};

// shape, source offset, source strides, destination offset, destination strides
using CopyItem = std::tuple<Dims, int64_t, Dims, int64_t, Dims>;

// src, dst: dst[0:zero_elements] = 0, then every item in order
std::shared_ptr<Kernel> make_copy_list(const std::vector<CopyItem>& items, int src_dtype, int dst_dtype,
                                       int64_t zero_elements);

}  // namespace dgo
