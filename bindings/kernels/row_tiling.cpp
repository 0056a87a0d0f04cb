// Kernels that run one after the other on parts of their tensors, so that what lies between them stays in near caches.
#include <algorithm>
#include <string>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

// A run of a kernel: for each of its operands the number of one of the bands' own, and an offset there in bytes.
struct BandCall {
    size_t kernel;
    std::vector<std::pair<int, int64_t>> operands;
};

// Calls that one thread runs in order; tasks may run concurrently.
using BandTask = std::vector<BandCall>;

constexpr int kMostOperands = 64;  // operands of a kernel in a list

class RowTilingKernel final : public Kernel {
public:
    RowTilingKernel(std::vector<std::shared_ptr<Kernel>> kernels, std::vector<BandTask> tasks, int operands,
                    int64_t scratch_bytes, int threads)
        : kernels_(std::move(kernels)), tasks_(std::move(tasks)), scratch_bytes_(scratch_bytes), threads_(threads) {
        name = "row_tiling";
        check_number(name, "operands", operands, 2, INT16_MAX);
        check_number(name, "threads", threads, 1, INT16_MAX);
        check_number(name, "scratch_bytes", scratch_bytes, 0, INT64_MAX / threads);
        arity = operands;
        for (const auto& kernel : kernels_) check_number(name, "operands of a kernel", kernel->arity, 1, kMostOperands);
        for (const BandTask& task : tasks_) {
            for (const BandCall& call : task) check(call);
        }
        threads_ = static_cast<int>(std::clamp<int64_t>(static_cast<int64_t>(tasks_.size()), 1, threads));
    }

    void run(char* const* operands) const override {
        parallel_parts(threads_, static_cast<int64_t>(tasks_.size()), [&](int64_t begin, int64_t end, int rank) {
            char* given[kMostOperands];
            for (; begin < end; ++begin) {
                for (const BandCall& call : tasks_[static_cast<size_t>(begin)]) {
                    for (size_t i = 0; i < call.operands.size(); ++i) {
                        const auto& [number, offset] = call.operands[i];
                        given[i] = operands[number] + offset + (number == scratch() ? scratch_bytes_ * rank : 0);
                    }
                    kernels_[call.kernel]->run(given);
                }
            }
        });
    }

    std::size_t held_bytes() const override {
        std::size_t total = Kernel::held_bytes();
        for (const auto& kernel : kernels_) total += kernel->held_bytes();
        for (const BandTask& task : tasks_) {
            total += sizeof task + task.capacity() * sizeof(BandCall);
            for (const BandCall& call : task) total += call.operands.capacity() * sizeof call.operands[0];
        }
        return total;
    }

private:
    int scratch() const { return arity - 2; }

    void check(const BandCall& call) const {
        if (call.kernel >= kernels_.size()) {
            fail(ErrorKind::invalid_argument, name + ": there is no kernel " + std::to_string(call.kernel) + " of " +
                                                  std::to_string(kernels_.size()));
        }
        const Kernel& kernel = *kernels_[call.kernel];
        if (call.operands.size() != static_cast<size_t>(kernel.arity)) {
            fail(ErrorKind::invalid_argument, name + ": kernel '" + kernel.name + "' takes " +
                                                  std::to_string(kernel.arity) + " operands, got " +
                                                  std::to_string(call.operands.size()));
        }
        for (const auto& [number, offset] : call.operands) {
            check_number(name, "the number of an operand", number, 0, arity - 1);
            check_number(name, "the offset of an operand", offset, 0, kMostElements);
        }
    }

    std::vector<std::shared_ptr<Kernel>> kernels_;
    std::vector<BandTask> tasks_;
    int64_t scratch_bytes_;
    int threads_;
};

using TaskTuples = std::vector<std::pair<int, std::vector<std::pair<int, int64_t>>>>;

std::shared_ptr<Kernel> make_row_tiling(const std::vector<std::shared_ptr<Kernel>>& kernels,
                                        const std::vector<TaskTuples>& tasks, int operands, int64_t scratch_bytes,
                                        int threads) {
    std::vector<BandTask> calls;
    for (const TaskTuples& task : tasks) {
        calls.emplace_back();
        for (const auto& [kernel, places] : task) calls.back().push_back({static_cast<size_t>(kernel), places});
    }
    return std::make_shared<RowTilingKernel>(kernels, std::move(calls), operands, scratch_bytes, threads);
}

}  // namespace

const Declaration kRowTiling{
    "row_tiling(kernels, tasks, operands, scratch_bytes, threads)", make_row_tiling, "sources..., scratch, dst",
    "Each task is a list of (number of a kernel, its operands as (number of one of the `operands` here, offset in "
    "bytes)), which a thread runs in order, with scratch_bytes of scratch memory."};

}  // namespace dgo
