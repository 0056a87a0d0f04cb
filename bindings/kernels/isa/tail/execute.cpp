#include "kernels/isa/tail/execute.hpp"

#include <cmath>

#include "kernels/isa/tail/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

struct Rows {
    const TailSource &left, &right;
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

void execute(const TailStep& step, const TailSource& left, const TailSource& right, float* const* to, int64_t rows,
             int64_t columns) {
    const Rows all{left, right, to, rows, columns};
    const float alpha = step.alpha, beta = step.beta;
    switch (step.op) {
        case TailOp::abs: return all.unary([](Lanes x) { return absolute(x); });
        case TailOp::add: return all.binary([](Lanes x, Lanes y) { return x + y; });
        case TailOp::clamp: return all.unary([=](Lanes x) { return at_most(at_least(x, alpha), beta); });
        case TailOp::divide: return all.binary([](Lanes x, Lanes y) { return x / y; });
        case TailOp::elu:
            return all.unary([=](Lanes x) { return x > 0.0f ? x : alpha * exponential_less_one(at_most(x, 0.0f)); });
        case TailOp::erf: return all.unary([](Lanes x) { return error_function(x); });
        case TailOp::exp: return all.unary([](Lanes x) { return exponential(x); });
        case TailOp::gelu_erf: return all.unary([](Lanes x) { return gelu_with_erf(x); });
        case TailOp::gelu_tanh: return all.unary([](Lanes x) { return gelu_with_tanh(x); });
        case TailOp::hardsigmoid:
            return all.unary([=](Lanes x) { return at_most(at_least(alpha * x + beta, 0.0f), 1.0f); });
        case TailOp::hardswish:
            return all.unary([](Lanes x) { return x * at_most(at_least(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f); });
        case TailOp::leaky_relu: return all.unary([=](Lanes x) { return x > 0.0f ? x : alpha * x; });
        case TailOp::linear: return all.unary([=](Lanes x) { return alpha * x + beta; });
        case TailOp::log: return all.unary([](Lanes x) { return logarithm(x); });
        case TailOp::maximum: return all.binary([](Lanes x, Lanes y) { return larger_of(x, y); });
        case TailOp::minimum: return all.binary([](Lanes x, Lanes y) { return smaller_of(x, y); });
        case TailOp::mish: return all.unary([](Lanes x) { return mish_of(x); });
        case TailOp::move: return all.unary([](Lanes x) { return x; });
        case TailOp::multiply: return all.binary([](Lanes x, Lanes y) { return x * y; });
        case TailOp::power: return all.power(alpha);
        case TailOp::prelu: return all.binary([](Lanes x, Lanes y) { return x > 0.0f ? x : x * y; });
        case TailOp::reciprocal: return all.unary([](Lanes x) { return 1.0f / x; });
        case TailOp::relu: return all.unary([](Lanes x) { return x <= 0.0f ? Lanes{} : x; });
        case TailOp::round: return all.unary([](Lanes x) { return rounded(x); });
        case TailOp::sigmoid: return all.unary([](Lanes x) { return logistic(x); });
        case TailOp::softplus: return all.unary([=](Lanes x) { return soft_plus(alpha * x) / alpha; });
        case TailOp::sqrt: return all.unary([](Lanes x) { return root(x); });
        case TailOp::square: return all.unary([](Lanes x) { return x * x; });
        case TailOp::squared_difference: return all.binary([](Lanes x, Lanes y) { return (x - y) * (x - y); });
        case TailOp::subtract: return all.binary([](Lanes x, Lanes y) { return x - y; });
        case TailOp::swish: return all.unary([=](Lanes x) { return times_logistic(x, alpha * x); });
        case TailOp::tanh: return all.unary([](Lanes x) { return hyperbolic_tangent(x); });
    }
}

}  // namespace dgo::DGO_ISA
