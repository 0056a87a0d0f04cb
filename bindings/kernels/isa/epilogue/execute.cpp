#include "kernels/isa/epilogue/execute.hpp"

#include <cmath>

#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

struct Rows {
    const EpilogueSource &left, &right;
    float* const* to;
    int64_t rows, columns;

    template <class Function>
    DGO_INLINE void unary(Function&& function) const {
        for (int64_t r = 0; r < rows; ++r) {
            const float* x = left.rows[r * left.row_step];
            float* at = to[r];
            int64_t c = 0;
            for (; c + kLanes <= columns; c += kLanes) {
                *reinterpret_cast<LanesAt*>(at + c) = function(load_bytes<Lanes>(x + c * left.lane_step));
            }
            if (c < columns) {
                const int64_t rest = columns - c;
                store_part(at + c, function(load_part(x + c * left.lane_step, rest)), rest);
            }
        }
    }

    template <class Function>
    DGO_INLINE void binary(Function&& function) const {
        for (int64_t r = 0; r < rows; ++r) {
            const float *x = left.rows[r * left.row_step], *y = right.rows[r * right.row_step];
            float* at = to[r];
            int64_t c = 0;
            for (; c + kLanes <= columns; c += kLanes) {
                *reinterpret_cast<LanesAt*>(at + c) =
                    function(load_bytes<Lanes>(x + c * left.lane_step), load_bytes<Lanes>(y + c * right.lane_step));
            }
            if (c < columns) {
                const int64_t rest = columns - c;
                const Lanes result =
                    function(load_part(x + c * left.lane_step, rest), load_part(y + c * right.lane_step, rest));
                store_part(at + c, result, rest);
            }
        }
    }

    void power(float exponent) const;
};

// x^exponent for a whole exponent of a few multiplications
Lanes whole_power(Lanes x, int exponent) {
    Lanes all = lanes_of(1.0f), square = x;
    for (int left = exponent < 0 ? -exponent : exponent; left > 0; left >>= 1) {
        if ((left & 1) != 0) all *= square;
        square *= square;
    }
    return exponent < 0 ? 1.0f / all : all;
}

// x^(quarters / 4), with the limits of pow
Lanes quarter_power(Lanes x, int quarters) {
    const int size = quarters < 0 ? -quarters : quarters;
    // minus zero and minus infinity count as the positive ones
    const Lanes src = x == lanes_of(-__builtin_inff()) ? -x : x + 0.0f, half = root(src);
    Lanes all = whole_power(src, size / 4);
    if ((size & 2) != 0) all *= half;
    if ((size & 1) != 0) all *= root(half);
    return quarters < 0 ? 1.0f / all : all;
}

void Rows::power(float exponent) const {
    constexpr float kMostMultiplied = 4;
    if (exponent == 0.5f) return unary([](Lanes x) { return root(x); });
    if (std::fabs(exponent) <= kMostMultiplied && exponent == static_cast<float>(static_cast<int>(exponent))) {
        return unary([&](Lanes x) { return whole_power(x, static_cast<int>(exponent)); });
    }
    if (std::fabs(exponent) <= kMostMultiplied && exponent * 4 == static_cast<float>(static_cast<int>(exponent * 4))) {
        return unary([&](Lanes x) { return quarter_power(x, static_cast<int>(exponent * 4)); });
    }
    for (int64_t r = 0; r < rows; ++r) {
        const float* x = left.rows[r * left.row_step];
        for (int64_t c = 0; c < columns; ++c) to[r][c] = powf(x[c * left.lane_step], exponent);
    }
}

}  // namespace

void execute(const EpilogueStep& step, const EpilogueSource& left, const EpilogueSource& right, float* const* to,
             int64_t rows, int64_t columns) {
    const Rows all{left, right, to, rows, columns};
    const float alpha = step.alpha, beta = step.beta;
    switch (step.op) {
#define UNARY(name, ...) \
    case EpilogueOp::name: return all.unary([=](Lanes x) { return __VA_ARGS__; });
#define BINARY(name, ...) \
    case EpilogueOp::name: return all.binary([=](Lanes x, Lanes y) { return __VA_ARGS__; });
#define OTHER(name, call) \
    case EpilogueOp::name: return all.call;
#include "kernels/epilogue/ops.inc"
#undef UNARY
#undef BINARY
#undef OTHER
    }
}

}  // namespace dgo::DGO_ISA
