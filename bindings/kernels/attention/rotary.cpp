// Pairs of elements turned by angles of their place, of which cosines and sines are given.
#include <algorithm>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

// f32. Strides of src, cos, sin and dst in this order, in elements: of the axes of `shape`; elements after these are
// neighbours, 2 * half in src and dst. The pairs are i and half + i, or, where `interleaved`, 2 i and 2 i + 1. `whole`:
// cos and sin have numbers of their own for the second of a pair, half further.
struct RotaryProblem {
    Dims shape;
    int64_t half;
    std::vector<Dims> strides;
    bool interleaved, whole;
};

constexpr const char* kName = "rotary";
constexpr size_t kOperands = 4;
constexpr const char* kNames[kOperands] = {"src", "cos", "sin", "dst"};

constexpr int64_t kRows = 16;  // positions of a task on the last axis

struct Table {
    const float *cos, *sin;
};

void turn_halves(const float* __restrict from, const Table& first, const Table& second, float* __restrict to,
                 int64_t half) {
    const float *const other = from + half, *const cos = first.cos, *const sin = first.sin;
    const float *const other_cos = second.cos, *const other_sin = second.sin;
    float* __restrict const behind = to + half;
    for (int64_t i = 0; i < half; ++i) {
        const float a = from[i], b = other[i];
        to[i] = a * cos[i] - b * sin[i];
        behind[i] = b * other_cos[i] + a * other_sin[i];
    }
}

void turn_neighbours(const float* __restrict from, const Table& table, float* __restrict to, int64_t half) {
    const float *const cos = table.cos, *const sin = table.sin;
    for (int64_t i = 0; i < half; ++i) {
        const float a = from[2 * i], b = from[2 * i + 1];
        to[2 * i] = a * cos[i] - b * sin[i];
        to[2 * i + 1] = b * cos[i] + a * sin[i];
    }
}

struct Rotary : Kernel {
    RotaryProblem p;
    int64_t outer = 1;
    double bytes;

    explicit Rotary(const RotaryProblem& problem) : p(problem) {
        name = kName;
        arity = kOperands;
        check_number(kName, "half", p.half, 0, kMostSize);
        if (p.interleaved && p.whole) fail(ErrorKind::invalid_argument, "rotary: tables of neighbours are not whole");
        if (p.strides.size() != kOperands)
            fail(ErrorKind::invalid_argument, "rotary: strides of 4 operands are needed");
        if (p.shape.empty()) fail(ErrorKind::invalid_argument, "rotary: shape must have an axis");
        for (const int64_t size : p.shape) check_number(kName, "shape", size, 0, kMostSize);
        for (size_t axis = 0; axis + 1 < p.shape.size(); ++axis) outer = checked_product(kName, {outer, p.shape[axis]});
        std::vector<int64_t> sizes = p.shape;
        sizes.push_back(2 * p.half);
        for (size_t i = 0; i < kOperands; ++i) {
            check_list(kName, kNames[i], p.strides[i], p.shape.size(), INT64_MIN, INT64_MAX);
            std::vector<int64_t> steps = p.strides[i];
            steps.push_back(1);
            check_extent(kName, kNames[i], sizes, steps);
        }
        bytes = 16.0 * static_cast<double>(checked_product(kName, {outer, p.shape.back(), p.half, 2}));
    }

    void run(char* const* operands) const override {
        const size_t last = p.shape.size() - 1;
        const int64_t length = p.shape[last], blocks = ceil_div(length, kRows), more = p.whole ? p.half : 0;
        parallel_for(p.half == 0 ? 0 : outer * blocks, bytes, [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                float* at[kOperands];
                const int64_t first = task % blocks * kRows;
                for (size_t i = 0; i < kOperands; ++i) {
                    at[i] = reinterpret_cast<float*>(operands[i]) + first * p.strides[i][last];
                }
                int64_t rest = task / blocks;
                for (size_t axis = last; axis-- > 0; rest /= p.shape[axis]) {
                    const int64_t place = rest % p.shape[axis];
                    for (size_t i = 0; i < kOperands; ++i) at[i] += place * p.strides[i][axis];
                }
                for (int64_t row = first; row < std::min(first + kRows, length); ++row) {
                    const Table table{at[1], at[2]};
                    if (p.interleaved)
                        turn_neighbours(at[0], table, at[3], p.half);
                    else
                        turn_halves(at[0], table, {at[1] + more, at[2] + more}, at[3], p.half);
                    for (size_t i = 0; i < kOperands; ++i) at[i] += p.strides[i][last];
                }
            }
        });
    }
};

}  // namespace

const Declaration kRotary{
    "rotary(shape, half, strides, interleaved=False, whole=False)",
    kernel_of<Rotary, RotaryProblem, Dims, int64_t, std::vector<Dims>, bool, bool>,
    "src (shape, 2 half), cos (shape, half), sin (shape, half), dst (shape, 2 half)",
    "dst = (a cos - b sin, b cos + a sin) for pairs (a, b) of 2 * half neighbours, in f32. Pairs are elements i and "
    "half + i or, if interleaved, 2 i and 2 i + 1. whole: cos and sin have further numbers for the second of each "
    "pair. Strides of each operand are those of the axes of shape."};

}  // namespace dgo
