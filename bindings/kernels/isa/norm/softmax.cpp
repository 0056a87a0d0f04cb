#include "kernels/isa/norm/softmax.hpp"

#include "kernels/isa/vector/cascade.hpp"
#include "kernels/isa/vector/elements_of_rows.hpp"
#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kTogether = 4;
// Powers in a partial sum along a row, and along a column.
constexpr int64_t kSummed = 256 * kTogether * kLanes, kSummedRows = 64;

DGO_INLINE float largest_across(Lanes v) {
    return across(v, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
}

// Softmax along neighbours. The largest value is taken of the numbers: a NaN reaches every result by the sum of powers.
template <class C, class D>
DGO_INLINE void softmax_row(const SoftmaxBlock& block) {
    constexpr int64_t kSide = 4;  // vectors side by side, as one waits for the one before it
    const auto* from = reinterpret_cast<const typename C::T*>(block.src);
    auto* to = reinterpret_cast<typename D::T*>(block.dst);
    const int64_t length = block.length, whole = length / kLanes * kLanes, rest = length - whole;
    const int64_t together = length / (kSide * kLanes) * (kSide * kLanes);
    const Lanes last =
        rest > 0 ? lanes_before(load_lanes<C>(from + whole, rest), rest, lanes_of(-__builtin_inff())) : Lanes{};
    Lanes top[kSide], sum[kSide] = {}, before = {};
#pragma GCC unroll 4
    for (int k = 0; k < kSide; ++k) top[k] = lanes_of(-__builtin_inff());
    for (int64_t j = 0; j < together; j += kSide * kLanes) {
#pragma GCC unroll 4
        for (int k = 0; k < kSide; ++k) top[k] = larger_number(top[k], load_float<C, kLanes>(from + j + k * kLanes));
    }
    for (int64_t j = together; j < whole; j += kLanes) top[0] = larger_number(top[0], load_float<C, kLanes>(from + j));
    if (rest > 0) top[0] = larger_number(top[0], last);
    const float most = largest_across(larger_number(larger_number(top[0], top[1]), larger_number(top[2], top[3])));
    const auto add = [&](Lanes& all, Lanes v, int64_t j) __attribute__((always_inline)) {
        const Lanes power = exponential_down(v - most);
        if (!block.log) *reinterpret_cast<LanesAt*>(block.scratch + j) = power;
        all += power;
    };
    for (int64_t j = 0; j < together;) {
        for (const int64_t end = smaller(together, j + kSummed); j < end; j += kSide * kLanes) {
#pragma GCC unroll 4
            for (int k = 0; k < kSide; ++k) add(sum[k], load_float<C, kLanes>(from + j + k * kLanes), j + k * kLanes);
        }
        before += (sum[0] + sum[1]) + (sum[2] + sum[3]);
#pragma GCC unroll 4
        for (int k = 0; k < kSide; ++k) sum[k] = Lanes{};
    }
    for (int64_t j = together; j < whole; j += kLanes) add(sum[0], load_float<C, kLanes>(from + j), j);
    if (rest > 0) add(sum[0], last, whole);
    const float total = sum_across(before + sum[0]);
    const float shift = block.log ? logarithm(lanes_of(total))[0] : 0, scale = 1 / total;
    const auto result = [&](Lanes v, int64_t j) __attribute__((always_inline)) {
        return block.log ? v - most - shift : load_bytes<Lanes>(block.scratch + j) * scale;
    };
    for (int64_t j = 0; j < whole; j += kLanes)
        store_float<D, kLanes>(to + j, result(load_float<C, kLanes>(from + j), j));
    if (rest > 0) store_lanes<D>(to + whole, result(last, whole), rest);
}

// Softmax of V vectors of columns, each column by itself. count: columns of the last vector.
template <class C, class D, int kVectors>
DGO_INLINE void softmax_columns(const SoftmaxBlock& block, int64_t column, int64_t count) {
    const auto* from = reinterpret_cast<const typename C::T*>(block.src) + column;
    auto* to = reinterpret_cast<typename D::T*>(block.dst) + column;
    const auto some = [&](int k) __attribute__((always_inline)) { return k < kVectors - 1 ? kLanes : count; };
    Lanes top[kVectors], sum[kVectors] = {};
    Cascade<kLanes, kVectors> before;
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
        if ((i + 1) % kSummedRows != 0) continue;
        before.add(sum);
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) sum[k] = Lanes{};
    }
    before.add_to(sum);
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

// Softmax of columns that are not contiguous, computed on contiguous copies.
template <class C, class D>
DGO_INLINE void softmax_turned(const SoftmaxBlock& block) {
    float* const tile = block.scratch + block.length * kLanes;
    SoftmaxBlock part = block;
    part.src = part.dst = reinterpret_cast<char*>(tile);
    part.src_step = part.dst_step = kLanes;
    for (int64_t j = 0; j < block.columns; j += kLanes) {
        const int64_t count = smaller(block.columns - j, kLanes);
        const auto* from = reinterpret_cast<const typename C::T*>(block.src) + j * block.src_column;
        auto* to = reinterpret_cast<typename D::T*>(block.dst) + j * block.dst_column;
        for (int64_t c = 0; c < count; ++c) {
            for (int64_t i = 0; i < block.length; ++i) {
                tile[i * kLanes + c] = C::get(from + c * block.src_column + i * block.src_step);
            }
        }
        softmax_columns<F32, F32, 1>(part, 0, count);
        for (int64_t c = 0; c < count; ++c) {
            for (int64_t i = 0; i < block.length; ++i) {
                D::put(to + c * block.dst_column + i * block.dst_step, tile[i * kLanes + c]);
            }
        }
    }
}

template <class C, class D>
DGO_INLINE void run(const SoftmaxBlock& block) {
    if (block.columns == 0) return softmax_row<C, D>(block);
    if (block.src_column != 1 || block.dst_column != 1) return softmax_turned<C, D>(block);
    int64_t j = 0;
    for (; j + kTogether * kLanes <= block.columns; j += kTogether * kLanes) {
        softmax_columns<C, D, kTogether>(block, j, kLanes);
    }
    for (; j < block.columns; j += kLanes) softmax_columns<C, D, 1>(block, j, smaller(block.columns - j, kLanes));
}

}  // namespace

void softmax(const SoftmaxBlock& block) {
    with_type(block.src_type, [&](auto from) __attribute__((always_inline)) {
        with_type(block.dst_type,
                  [&](auto to) __attribute__((always_inline)) { run<decltype(from), decltype(to)>(block); });
    });
}

}  // namespace dgo::DGO_ISA
