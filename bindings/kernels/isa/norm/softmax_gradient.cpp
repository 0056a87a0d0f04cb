#include "kernels/isa/vector/elements_of_rows.hpp"
#include "kernels/isa/norm/softmax.hpp"
#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kTogether = 4;

// Returns the term of a pair of diff and dst in the sum.
template <bool kLog>
DGO_INLINE Lanes share(Lanes diff, Lanes dst) {
    return kLog ? diff : diff * dst;
}
template <bool kLog>
DGO_INLINE Lanes gradient(Lanes diff, Lanes dst, Lanes sum) {
    return kLog ? diff - exponential(dst) * sum : (diff - sum) * dst;
}

// The gradient along neighbours, row by row.
template <class C, bool kLog>
DGO_INLINE void along(const SoftmaxGradientBlock& block) {
    using T = typename C::T;
    const auto *diff = reinterpret_cast<const T*>(block.diff), *dst = reinterpret_cast<const T*>(block.dst);
    auto* to = reinterpret_cast<T*>(block.to);
    const int64_t length = block.length, whole = length / kLanes * kLanes, rest = length - whole;
    for (int64_t row = 0; row < block.rows; ++row, diff += length, dst += length, to += length) {
        Lanes sum[2] = {};
        for (int64_t j = 0; j < whole; j += kLanes) {
            sum[j / kLanes % 2] += share<kLog>(load_float<C, kLanes>(diff + j), load_float<C, kLanes>(dst + j));
        }
        if (rest > 0) sum[0] += share<kLog>(load_lanes<C>(diff + whole, rest), load_lanes<C>(dst + whole, rest));
        const Lanes all = lanes_of(sum_across(sum[0] + sum[1]));
        for (int64_t j = 0; j < length; j += kLanes) {
            const int64_t count = smaller(length - j, kLanes);
            const Lanes v = gradient<kLog>(load_lanes<C>(diff + j, count), load_lanes<C>(dst + j, count), all);
            store_lanes<C>(to + j, v, count);
        }
    }
}

// The gradient of V vectors of columns, each column by itself. count: columns of the last vector.
template <class C, bool kLog, int kVectors>
DGO_INLINE void across_columns(const SoftmaxGradientBlock& block, int64_t column, int64_t count) {
    using T = typename C::T;
    const auto *diff = reinterpret_cast<const T*>(block.diff), *dst = reinterpret_cast<const T*>(block.dst);
    auto* to = reinterpret_cast<T*>(block.to);
    Lanes sum[kVectors] = {};
    for (int64_t i = 0, at = column; i < block.length; ++i, at += block.step) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            const int64_t j = at + k * kLanes;
            sum[k] += share<kLog>(load_lanes<C>(diff + j, count), load_lanes<C>(dst + j, count));
        }
    }
    for (int64_t i = 0, at = column; i < block.length; ++i, at += block.step) {
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) {
            const int64_t j = at + k * kLanes;
            const Lanes v = gradient<kLog>(load_lanes<C>(diff + j, count), load_lanes<C>(dst + j, count), sum[k]);
            store_lanes<C>(to + j, v, count);
        }
    }
}

template <class C, bool kLog>
DGO_INLINE void run(const SoftmaxGradientBlock& block) {
    if (block.step == 1) return along<C, kLog>(block);
    int64_t j = 0;
    for (; j + kTogether * kLanes <= block.columns; j += kTogether * kLanes) {
        across_columns<C, kLog, kTogether>(block, j, kLanes);
    }
    for (; j < block.columns; j += kLanes) across_columns<C, kLog, 1>(block, j, smaller(block.columns - j, kLanes));
}

}  // namespace

void softmax_gradient(const SoftmaxGradientBlock& block) {
    with_type(block.type, [&](auto type) __attribute__((always_inline)) {
        block.log ? run<decltype(type), true>(block) : run<decltype(type), false>(block);
    });
}

}  // namespace dgo::DGO_ISA
