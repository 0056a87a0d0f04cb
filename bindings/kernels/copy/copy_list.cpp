// Many small copies in one kernel: the folding of weights.
#include "kernels/copy/copy_list.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"

namespace dgo {

CopyListKernel::CopyListKernel(const char* kernel_name, int64_t zero_bytes) : zero_bytes_(zero_bytes) {
    arity = 2;
    name = kernel_name;
}

void CopyListKernel::add(StridedCopy copy, int64_t src, int64_t dst) {
    bytes_ += copy.bytes();
    first_task_.push_back(first_task_.back() + copy.tasks());
    items_.push_back({std::move(copy), src, dst});
}

void CopyListKernel::run(char* const* operands) const {
    static const char kZero[8] = {};
    const char* src = operands[0];
    char* dst = operands[1];
    constexpr int64_t kChunk = 32 * 1024;
    parallel_for(ceil_div(zero_bytes_, kChunk), static_cast<double>(zero_bytes_), [&](int64_t begin, int64_t end) {
        const int64_t from = begin * kChunk, to = std::min(end * kChunk, zero_bytes_);
        if (from < to) std::memset(dst + from, 0, static_cast<size_t>(to - from));
    });
    parallel_for(first_task_.back(), bytes_, [&](int64_t begin, int64_t end) {
        auto next = std::upper_bound(first_task_.begin(), first_task_.end(), begin);
        for (size_t i = static_cast<size_t>(next - first_task_.begin()) - 1; i < items_.size(); ++i) {
            if (first_task_[i] >= end) break;
            const Item& item = items_[i];
            item.copy.run_part(item.src == kZeros ? kZero : src + item.src, dst + item.dst,
                               std::max(begin, first_task_[i]) - first_task_[i],
                               std::min(end, first_task_[i + 1]) - first_task_[i]);
        }
    });
}

std::shared_ptr<Kernel> make_copy_list(const std::vector<CopyItem>& items, int src_dtype, int dst_dtype,
                                       int64_t zero_elements) {
    check_number("copy_list", "zero_elements", zero_elements, 0, kMostElements);
    auto kernel = std::make_shared<CopyListKernel>("copy_list", zero_elements * item_size(dst_dtype));
    for (const auto& [shape, src, src_strides, dst, dst_strides] : items) {
        for (const int64_t offset : {src, dst}) check_number("copy_list", "an offset", offset, 0, kMostElements);
        kernel->add(StridedCopy(shape, src_dtype, src_strides, dst_dtype, dst_strides), src * item_size(src_dtype),
                    dst * item_size(dst_dtype));
    }
    return kernel;
}

const Declaration kCopyList{
    "copy_list(items, src_dtype, dst_dtype, zero_elements=0)", make_copy_list, "src, dst",
    "dst[0:zero_elements] = 0, then each item (shape, src_offset, src_strides, dst_offset, dst_strides) is copied."};

}  // namespace dgo
