// The vector code of attention: a table of functions for each instruction set.
#pragma once

#include <cstdint>

namespace dgo {

constexpr int64_t kMostMasks = 2;

// Rows of shares that become zeros: none, those of NaN, those of scores that all are -Inf.
enum class ZeroRows { none, nan, unseen };

// Added to the scaled products. Steps count elements, and are 0 where it is the same for all.
struct AttentionMask {
    const float* at;
    int64_t row, key;  // key: 0 or 1
};

// Rows of queries of one item; steps count elements. Elements of a query, of a value and of a result are neighbours.
struct AttentionBlock {
    const float *q, *k, *v;
    float* dst;
    int64_t q_row, k_key, k_depth, v_key, dst_row;
    AttentionMask masks[kMostMasks];
    int64_t mask_count;
    int64_t rows, keys, depth, width;
    const int64_t* seen;  // [row]: it sees this many keys, from the first on; null: all
    float scale;
    ZeroRows zeros;
    bool packed;  // scratch holds what pack() left there
    float* scratch;
};

struct AttentionCode {
    int64_t rows;  // rows of a block, at most
    int64_t (*scratch)(int64_t keys, int64_t depth, int64_t width);
    // Keys and values of an item, for blocks of many rows.
    void (*pack)(const AttentionBlock& block);
    void (*run)(const AttentionBlock& block);
};

}  // namespace dgo
