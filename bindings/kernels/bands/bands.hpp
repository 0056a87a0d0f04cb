// Kernels that run one after the other on parts of their tensors, so that what lies between them stays in near caches.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// A run of a kernel: for each of its operands the number of one of the bands' own, and an offset there in bytes.
struct BandCall {
    size_t kernel;
    std::vector<std::pair<int, int64_t>> operands;
};

// What one thread does in order. Tasks may run at the same time.
using BandTask = std::vector<BandCall>;

// sources, scratch, dst. Each thread works in `scratch_bytes` of scratch of its own, where its offsets begin; operands are
// `operands` many, those two included.
std::shared_ptr<Kernel> make_bands(std::vector<std::shared_ptr<Kernel>> kernels, std::vector<BandTask> tasks,
                                   int operands, int64_t scratch_bytes, int threads);

}  // namespace dgo
