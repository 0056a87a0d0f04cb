#include "kernels/isa/norm/root_mean_square.hpp"

#include "kernels/isa/norm/elements_of_rows.hpp"
#include "kernels/isa/epilogue/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kTogether = 4;  // sums side by side

template <class C>
DGO_INLINE float sum_of_squares(const typename C::T* from, int64_t width) {
    Lanes sums[kTogether] = {};
    int64_t j = 0;
    for (; j + kTogether * kLanes <= width; j += kTogether * kLanes) {
#pragma GCC unroll 4
        for (int u = 0; u < kTogether; ++u) {
            const Lanes v = load_float<C, kLanes>(from + j + u * kLanes);
            sums[u] += v * v;
        }
    }
    for (; j < width; j += kLanes) {
        const Lanes v = load_lanes<C>(from + j, smaller(width - j, kLanes));
        sums[0] += v * v;
    }
    return sum_across((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class C, class D>
DGO_INLINE void run(const RootMeanSquare& block) {
    const auto* from = reinterpret_cast<const typename C::T*>(block.from.at);
    auto* to = reinterpret_cast<typename D::T*>(block.to);
    const int64_t width = block.from.width;
    for (int64_t i = 0; i < block.from.rows; ++i, from += block.from.pitch, to += block.pitch) {
        const float mean = sum_of_squares<C>(from, width) / static_cast<float>(width);
        const Lanes factor = 1.0f / root(lanes_of(mean + block.epsilon));
        for (int64_t j = 0; j < width; j += kLanes) {
            const int64_t some = smaller(width - j, kLanes);
            Lanes v = load_lanes<C>(from + j, some) * factor;
            if (block.scale != nullptr) v *= load_some(block.scale + j, some);
            store_lanes<D>(to + j, v, some);
        }
    }
}

}  // namespace

void root_mean_square(const RootMeanSquare& block) {
    with_type(block.from.type, [&](auto from) __attribute__((always_inline)) {
        with_type(block.type,
                  [&](auto to) __attribute__((always_inline)) { run<decltype(from), decltype(to)>(block); });
    });
}

}  // namespace dgo::DGO_ISA
