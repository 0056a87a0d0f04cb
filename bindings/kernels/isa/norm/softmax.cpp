#include "kernels/isa/norm/softmax.hpp"

#include "kernels/isa/norm/cells_of_rows.hpp"
#include "kernels/isa/tail/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kTogether = 4;

// A NaN wins.
DGO_INLINE float largest_across(Lanes v) {
    return across(v, [](auto a, auto b) __attribute__((always_inline)) { return a > b || a != a ? a : b; });
}

// Along neighbours.
template <class C, class D>
DGO_INLINE void softmax_row(const SoftmaxBlock& block) {
    const auto* from = reinterpret_cast<const typename C::T*>(block.src);
    auto* to = reinterpret_cast<typename D::T*>(block.dst);
    const int64_t length = block.length, whole = length / kLanes * kLanes, rest = length - whole;
    const Lanes nothing = lanes_of(-__builtin_inff());
    // lanes behind the end are smaller than anything, and their powers zero
    const auto load_rest = [&]() __attribute__((always_inline)) {
        Lanes v = load_lanes<C>(from + whole, rest);
        for (int64_t i = rest; i < kLanes; ++i) v[i] = nothing[0];
        return v;
    };
    Lanes top = nothing;
    for (int64_t j = 0; j < whole; j += kLanes) top = larger_of(top, load_float<C, kLanes>(from + j));
    if (rest > 0) top = larger_of(top, load_rest());
    const float most = largest_across(top);
    Lanes sum = {};
    for (int64_t j = 0; j < whole; j += kLanes) {
        const Lanes power = exponential_down(load_float<C, kLanes>(from + j) - most);
        if (!block.log) *reinterpret_cast<LanesAt*>(block.scratch + j) = power;
        sum += power;
    }
    if (rest > 0) {
        const Lanes power = exponential_down(load_rest() - most);
        if (!block.log) store_part(block.scratch + whole, power, rest);
        for (int64_t i = 0; i < rest; ++i) sum[i] += power[i];
    }
    const float total = sum_across(sum);
    const float shift = block.log ? logarithm(lanes_of(total))[0] : 0;
    const float scale = 1 / total;
    for (int64_t j = 0; j < length; j += kLanes) {
        const int64_t some = smaller(length - j, kLanes);
        const Lanes v =
            block.log ? load_lanes<C>(from + j, some) - most - shift : load_some(block.scratch + j, some) * scale;
        store_lanes<D>(to + j, v, some);
    }
}

// So many vectors of columns, the last of `count`, each by itself.
template <class C, class D, int kVectors>
DGO_INLINE void softmax_columns(const SoftmaxBlock& block, int64_t column, int64_t count) {
    const auto* from = reinterpret_cast<const typename C::T*>(block.src) + column;
    auto* to = reinterpret_cast<typename D::T*>(block.dst) + column;
    const auto some = [&](int k) __attribute__((always_inline)) { return k < kVectors - 1 ? kLanes : count; };
    Lanes top[kVectors], sum[kVectors] = {};
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) top[k] = lanes_of(-__builtin_inff());
    for (int64_t i = 0; i < block.length; ++i) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            top[k] = larger_of(top[k], load_lanes<C>(from + i * block.src_step + k * kLanes, some(k)));
        }
    }
    float* powers = block.scratch;
    for (int64_t i = 0; i < block.length; ++i, powers += kVectors * kLanes) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            const Lanes power = exponential(load_lanes<C>(from + i * block.src_step + k * kLanes, some(k)) - top[k]);
            sum[k] += power;
            if (!block.log) *reinterpret_cast<LanesAt*>(powers + k * kLanes) = power;
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) sum[k] = block.log ? logarithm(sum[k]) : 1 / sum[k];
    powers = block.scratch;
    for (int64_t i = 0; i < block.length; ++i, powers += kVectors * kLanes) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            const Lanes v = block.log ? load_lanes<C>(from + i * block.src_step + k * kLanes, some(k)) - top[k] - sum[k]
                                      : load_bytes<Lanes>(powers + k * kLanes) * sum[k];
            store_lanes<D>(to + i * block.dst_step + k * kLanes, v, some(k));
        }
    }
}

template <class C, class D>
DGO_INLINE void run(const SoftmaxBlock& block) {
    if (block.columns == 0) return softmax_row<C, D>(block);
    int64_t j = 0;
    for (; j + kTogether * kLanes <= block.columns; j += kTogether * kLanes) {
        softmax_columns<C, D, kTogether>(block, j, kLanes);
    }
    for (; j < block.columns; j += kLanes) softmax_columns<C, D, 1>(block, j, smaller(block.columns - j, kLanes));
}

}  // namespace

void softmax(const SoftmaxBlock& block) {
    with_cell(block.src_cell, [&](auto from) __attribute__((always_inline)) {
        with_cell(block.dst_cell,
                  [&](auto to) __attribute__((always_inline)) { run<decltype(from), decltype(to)>(block); });
    });
}

}  // namespace dgo::DGO_ISA
