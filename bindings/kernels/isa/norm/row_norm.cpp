#include "kernels/isa/norm/row_norm.hpp"

#include "kernels/isa/vector/cascade.hpp"
#include "kernels/isa/vector/elements_of_rows.hpp"
#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kTogether = 4;  // vectors of sums, whose additions overlap in time
// Numbers of a partial sum; a cascade adds partial sums up, so that errors grow with the logarithm of the width.
constexpr int64_t kSummed = 64 * kTogether * kLanes;

// Returns the mean of term(x) over the numbers x of a row.
template <class C, class Term>
DGO_INLINE float mean_of(const typename C::T* from, int64_t width, const Term& term) {
    constexpr int64_t kStep = kTogether * kLanes;
    Lanes sums[kTogether] = {};
    Cascade<kLanes, 1> before;
    int64_t j = 0;
    while (j + kStep <= width) {
        for (const int64_t end = smaller(width, j + kSummed); j + kStep <= end; j += kStep) {
#pragma GCC unroll 4
            for (int u = 0; u < kTogether; ++u) sums[u] += term(load_float<C, kLanes>(from + j + u * kLanes));
        }
        if (j % kSummed != 0) break;
        before.add({(sums[0] + sums[1]) + (sums[2] + sums[3])});
#pragma GCC unroll 4
        for (int u = 0; u < kTogether; ++u) sums[u] = Lanes{};
    }
    Lanes all[1] = {(sums[0] + sums[1]) + (sums[2] + sums[3])};
    before.add_to(all);
    for (; j + kLanes <= width; j += kLanes) all[0] += term(load_float<C, kLanes>(from + j));
    if (j < width) all[0] += lanes_before(term(load_lanes<C>(from + j, width - j)), width - j, Lanes{});
    return sum_across(all[0]) / static_cast<float>(width);
}

template <class C, class D, bool Centered>
DGO_INLINE void run(const RowNorm& block) {
    const auto* from = reinterpret_cast<const typename C::T*>(block.from.at);
    auto* to = reinterpret_cast<typename D::T*>(block.to);
    const int64_t width = block.from.width;
    for (int64_t i = 0; i < block.from.rows; ++i, from += block.from.pitch, to += block.pitch) {
        // The mean is summed as distances from an element, so that a common part of all takes no digits.
        Lanes near = {}, mean = {};
        if constexpr (Centered) {
            near = lanes_of(C::get(from));
            mean = lanes_of(mean_of<C>(from, width, [=](Lanes v) __attribute__((always_inline)) { return v - near; }));
        }
        const auto distance = [=](Lanes v) __attribute__((always_inline)) { return Centered ? v - near - mean : v; };
        const float squares = mean_of<C>(from, width, [=](Lanes v) __attribute__((always_inline)) {
            const Lanes d = distance(v);
            return d * d;
        });
        const Lanes factor = 1.0f / root(lanes_of(squares + block.epsilon));
        for (int64_t j = 0; j < width; j += kLanes) {
            const int64_t some = smaller(width - j, kLanes);
            Lanes v = distance(load_lanes<C>(from + j, some)) * factor;
            if (block.scale != nullptr) v *= load_some(block.scale + j, some);
            if (Centered && block.shift != nullptr) v += load_some(block.shift + j, some);
            store_lanes<D>(to + j, v, some);
        }
    }
}

}  // namespace

void row_norm(const RowNorm& block) {
    with_type(block.from.type, [&](auto from) __attribute__((always_inline)) {
        with_type(block.type, [&](auto to) __attribute__((always_inline)) {
            using C = decltype(from);
            using D = decltype(to);
            block.centered ? run<C, D, true>(block) : run<C, D, false>(block);
        });
    });
}

}  // namespace dgo::DGO_ISA
