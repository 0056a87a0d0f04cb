// Attention: softmax of scaled products of queries and keys, and masks, times values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.hpp"

namespace dgo {

// f32. Strides count elements, and may be 0: those of the batch's axes, then row and depth of q, key and depth of k, key
// and width of v, row and key of each mask, row and width of dst. Those of depth of q and of width are 1, of key in masks
// 1 or 0.
struct AttentionProblem {
    std::vector<int64_t> batch;
    int64_t rows, keys, depth, width;
    std::vector<int64_t> q, k, v;
    std::vector<std::vector<int64_t>> masks;
    std::vector<int64_t> dst;
    double scale;
    bool zeros;                 // rows of NaN, as those have that see nothing, become zeros
    std::vector<int64_t> seen;  // of each row, the keys from the first on that count at all; empty: all do
};

// q, k, v, the masks, dst
std::shared_ptr<Kernel> make_attention(const AttentionProblem& problem);

}  // namespace dgo
