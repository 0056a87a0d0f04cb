// Many small copies in one kernel: the folding of weights.
#include <algorithm>
#include <cstring>

#include "../guard.hpp"
#include "copy.hpp"
#include "factories.hpp"
#include "parallel.hpp"

namespace dgo {
namespace {

struct CopyListKernel : Kernel {
    struct Item {
        CopyPlan plan;
        int64_t src, dst;  // in bytes
    };
    std::vector<Item> items;
    std::vector<int64_t> first_task;  // of each item, and the number of all tasks
    int64_t zero_bytes = 0;
    int64_t bytes = 0;

    void run(char* const* operands) const override {
        const char* src = operands[0];
        char* dst = operands[1];
        constexpr int64_t kChunk = 32 * 1024;
        parallel_for((zero_bytes + kChunk - 1) / kChunk, zero_bytes, [&](int64_t begin, int64_t end) {
            const int64_t from = begin * kChunk, to = std::min(end * kChunk, zero_bytes);
            if (from < to) std::memset(dst + from, 0, static_cast<size_t>(to - from));
        });
        parallel_for(first_task.back(), bytes, [&](int64_t begin, int64_t end) {
            auto next = std::upper_bound(first_task.begin(), first_task.end(), begin);
            for (size_t i = static_cast<size_t>(next - first_task.begin()) - 1; i < items.size(); ++i) {
                if (first_task[i] >= end) break;
                items[i].plan.run_part(src + items[i].src, dst + items[i].dst,
                                       std::max(begin, first_task[i]) - first_task[i],
                                       std::min(end, first_task[i + 1]) - first_task[i]);
            }
        });
    }
};

}  // namespace

std::shared_ptr<Kernel> make_copy_list(const std::vector<CopyItem>& items, int src_dtype, int dst_dtype,
                                       int64_t zero_elements) {
    auto kernel = std::make_shared<CopyListKernel>();
    kernel->arity = 2;
    kernel->name = "copy_list";
    kernel->zero_bytes = zero_elements * item_size(dst_dtype);
    kernel->first_task = {0};
    for (const auto& [shape, src, src_strides, dst, dst_strides] : items) {
        if (src < 0 || dst < 0 || zero_elements < 0) {
            fail(ErrorKind::invalid_argument, "copy_list: negative offset or zero_elements");
        }
        CopyPlan plan(shape, src_dtype, src_strides, dst_dtype, dst_strides);
        kernel->bytes += plan.bytes();
        kernel->first_task.push_back(kernel->first_task.back() + plan.tasks());
        kernel->items.push_back({std::move(plan), src * item_size(src_dtype), dst * item_size(dst_dtype)});
    }
    return kernel;
}

}  // namespace dgo
