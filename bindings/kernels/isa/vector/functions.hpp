// Transcendental functions of lanes, to about 2 units in the last place, with the limits that they have at infinity,
// subnormal results and NaN for NaN. The polynomials are fitted to the functions on the ranges that the comments name.
#pragma once

#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {

using Integers = Vec<kLanes>::s32;

DGO_INLINE Lanes lanes_of(float value) { return value - Lanes{}; }

// Returns the smaller, and the larger, of x and y; NaN where either is NaN.
DGO_INLINE Lanes smaller_of(Lanes x, Lanes y) { return x != x ? x : (x > y ? y : (y != y ? y : x)); }
DGO_INLINE Lanes larger_of(Lanes x, Lanes y) { return x != x ? x : (x < y ? y : (y != y ? y : x)); }
DGO_INLINE Lanes absolute(Lanes x) { return bits<Lanes>(bits<Integers>(x) & 0x7fffffff); }
DGO_INLINE Lanes with_sign(Lanes magnitude, Lanes sign) {
    return bits<Lanes>(bits<Integers>(magnitude) | (bits<Integers>(sign) & INT32_MIN));
}

// Calls function(half) for every 8 lanes.
template <class To, class From, class Function>
DGO_INLINE To by_eights(const From& from, Function&& function) {
    To to;
    for (int at = 0; at < kLanes; at += 8) {
        __m256 half;
        __builtin_memcpy(&half, reinterpret_cast<const char*>(&from) + at * 4, sizeof(half));
        const auto result = function(half);
        __builtin_memcpy(reinterpret_cast<char*>(&to) + at * 4, &result, sizeof(result));
    }
    return to;
}

// Instructions for vectors of one width each: kNative is the kind that there is.
template <bool kNative = kWide>
DGO_INLINE Lanes root(Lanes x) {
    if constexpr (kNative) return bits<Lanes>(_mm512_sqrt_ps(bits<__m512>(x)));
    return by_eights<Lanes>(x, [](__m256 v) { return _mm256_sqrt_ps(v); });
}
template <bool kNative = kWide>
DGO_INLINE Lanes rounded(Lanes x) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    if constexpr (kNative) return bits<Lanes>(_mm512_roundscale_ps(bits<__m512>(x), kNearest));
    return by_eights<Lanes>(x, [](__m256 v) { return _mm256_round_ps(v, kNearest); });
}
template <bool kNative = kWide>
DGO_INLINE Lanes to_floats(Integers x) {
    if constexpr (kNative) return bits<Lanes>(_mm512_cvtepi32_ps(bits<__m512i>(x)));
    return by_eights<Lanes>(x, [](__m256 v) { return _mm256_cvtepi32_ps(_mm256_castps_si256(v)); });
}
// Rounds to nearest, ties to even.
template <bool kNative = kWide>
DGO_INLINE Integers to_integers(Lanes x) {
    if constexpr (kNative) return bits<Integers>(_mm512_cvtps_epi32(bits<__m512>(x)));
    return by_eights<Integers>(x, [](__m256 v) { return _mm256_cvtps_epi32(v); });
}
// Returns x * y + z, rounded once.
template <bool kNative = kWide>
DGO_INLINE Lanes multiply_add(Lanes x, Lanes y, Lanes z) {
    if constexpr (kNative) return bits<Lanes>(_mm512_fmadd_ps(bits<__m512>(x), bits<__m512>(y), bits<__m512>(z)));
    Lanes sum;
    for (int at = 0; at < kLanes; at += 8) {
        const auto half = [at](const Lanes& of) {
            return load_bytes<__m256>(reinterpret_cast<const char*>(&of) + at * 4);
        };
        store_bytes(reinterpret_cast<char*>(&sum) + at * 4, _mm256_fmadd_ps(half(x), half(y), half(z)));
    }
    return sum;
}
// min(x, most), NaN where x is NaN; `most` is a number.
template <bool kNative = kWide>
DGO_INLINE Lanes at_most(Lanes x, float most) {
    if constexpr (kNative) return bits<Lanes>(_mm512_min_ps(_mm512_set1_ps(most), bits<__m512>(x)));
    return by_eights<Lanes>(x, [=](__m256 v) { return _mm256_min_ps(_mm256_set1_ps(most), v); });
}
template <bool kNative = kWide>
DGO_INLINE Lanes at_least(Lanes x, float least) {
    if constexpr (kNative) return bits<Lanes>(_mm512_max_ps(_mm512_set1_ps(least), bits<__m512>(x)));
    return by_eights<Lanes>(x, [=](__m256 v) { return _mm256_max_ps(_mm256_set1_ps(least), v); });
}
// max(most, v); `most` where v is NaN.
template <int L = kLanes>
DGO_INLINE Lanes larger_number(Lanes most, Lanes v) {
    if constexpr (kWide && L == 16) return bits<Lanes>(_mm512_max_ps(bits<__m512>(v), bits<__m512>(most)));
    if constexpr (L == 8) return bits<Lanes>(_mm256_max_ps(bits<__m256>(v), bits<__m256>(most)));
    return v > most ? v : most;
}
// Whether a lane is below a bound.
template <bool kNative = kWide>
DGO_INLINE bool any_below(Lanes x, float bound) {
    if constexpr (kNative) return _mm512_cmp_ps_mask(bits<__m512>(x), _mm512_set1_ps(bound), _CMP_LT_OQ) != 0;
    const auto below =
        by_eights<Lanes>(x, [=](__m256 v) { return _mm256_cmp_ps(v, _mm256_set1_ps(bound), _CMP_LT_OQ); });
    int signs = 0;
    by_eights<Lanes>(below, [&](__m256 v) { return signs |= _mm256_movemask_ps(v), v; });
    return signs != 0;
}
// x * 2^n for whole n
template <bool kNative = kWide>
DGO_INLINE Lanes scaled(Lanes x, Lanes n) {
    if constexpr (kNative) return bits<Lanes>(_mm512_scalef_ps(bits<__m512>(x), bits<__m512>(n)));
    const Integers power = to_integers(n);
    // in two steps, as the powers of subnormal results have no number
    const Integers first = power >> 1, rest = power - first;
    return x * bits<Lanes>((first + 127) << 23) * bits<Lanes>((rest + 127) << 23);
}

// x * 2^n for whole n from -126 on; of 128 infinity
DGO_INLINE Lanes scaled_once(Lanes x, Lanes n) {
    if constexpr (kWide) return scaled(x, n);
    return x * bits<Lanes>((to_integers(n) + 127) << 23);
}

template <int kCount>
DGO_INLINE Lanes polynomial(const float (&coefficients)[kCount], Lanes x) {
    Lanes sum = lanes_of(coefficients[kCount - 1]);
#pragma GCC unroll 16
    for (int i = kCount - 2; i >= 0; --i) sum = sum * x + coefficients[i];
    return sum;
}

constexpr float kLog2E = 1.44269504f;
// ln 2 as a number with few bits, so that its multiples are exact, and the rest.
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f, kLn2 = 0.693147181f;

// e^x = 2^power * (1 + rest), for x within reach of the powers.
struct Powers {
    Lanes power, rest;

    explicit DGO_INLINE Powers(Lanes x) : Powers(x, rounded(x * kLog2E)) {}
    DGO_INLINE Powers(Lanes x, Lanes nearest) : power(nearest) {
        // (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2
        constexpr float kRest[] = {5.000000066e-01f, 1.666653801e-01f, 4.166626662e-02f, 8.367247109e-03f,
                                   1.394759193e-03f};
        const Lanes r = (x - power * kLn2High) - power * kLn2Low;
        rest = r * r * polynomial(kRest, r) + r;
    }
};

// e^x for |x| < 80; any number where x is NaN
DGO_INLINE Lanes exponential_of_small(Lanes x) {
    constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: sums with it are whole numbers, whose last bits are an integer
    const Lanes sum = x * kLog2E + kWhole;
    const Powers e(x, sum - kWhole);
    return bits<Lanes>(bits<Integers>(e.rest + 1.0f) + (bits<Integers>(sum) << 23));
}

// A NaN passes through all of these steps.
DGO_INLINE Lanes exponential(Lanes x) {
    const Powers e(at_least(at_most(x, 89.0f), -104.0f));
    return scaled(e.rest + 1.0f, e.power);
}

// e^x for x <= 0, of which what would be subnormal is 0
DGO_INLINE Lanes exponential_down(Lanes x) {
    constexpr float kLeast = -87.0f;
    const Powers e(at_least(x, kLeast));
    const Lanes power = scaled_once(e.rest + 1.0f, e.power);
    return x < kLeast ? Lanes{} : power;
}

// e^x - 1 for x <= 0
DGO_INLINE Lanes exponential_less_one(Lanes x) {
    const Powers e(at_least(x, -25.0f));
    const Lanes scale = scaled_once(lanes_of(1.0f), e.power);
    return e.rest * scale + (scale - 1.0f);
}

DGO_INLINE Lanes hyperbolic_tangent(Lanes x) {
    const Lanes less = exponential_less_one(absolute(x) * -2.0f);
    return with_sign(absolute(less / (less + 2.0f)), x);
}

DGO_INLINE Lanes logistic(Lanes x) {
    const Lanes e = exponential(-absolute(x));
    return (x < 0.0f ? e : lanes_of(1.0f)) / (e + 1.0f);
}

// x * logistic(z) where no result is subnormal: below -88.4 it is 0
DGO_INLINE Lanes times_logistic(Lanes x, Lanes z) {
    const Powers e(at_least(at_most(-z, 89.0f), -87.0f));
    return x / (scaled_once(e.rest + 1.0f, e.power) + 1.0f);
}

// log(1 + f) for f in [1 / sqrt 2 - 1, sqrt 2 - 1]
DGO_INLINE Lanes log_near_one(Lanes f) {
    // (log(1 + f) - f + f^2 / 2) / f^3
    constexpr float kRest[] = {3.333331673e-01f, -2.500081046e-01f, 2.000228582e-01f, -1.662455193e-01f,
                               1.418120179e-01f, -1.312878501e-01f, 1.288158826e-01f, -7.859456821e-02f};
    const Lanes square = f * f;
    return f + (square * f * polynomial(kRest, f) - 0.5f * square);
}

DGO_INLINE Lanes logarithm(Lanes x) {
    const auto tiny = x < 1.17549435e-38f;
    const Lanes normal = tiny ? x * 8388608.0f : x;
    // the exponent that leaves a mantissa in [1 / sqrt 2, sqrt 2)
    constexpr int32_t kRoot = 0x3f3504f3;
    const Integers all = bits<Integers>(normal) - kRoot;
    const Integers power = all >> 23;
    const Lanes mantissa = bits<Lanes>((all & 0x7fffff) + kRoot);
    const Lanes n = to_floats(tiny ? power - 23 : power), f = mantissa - 1.0f;
    Lanes log = n * kLn2High + (n * kLn2Low + log_near_one(f));
    const Lanes infinite = lanes_of(__builtin_inff());
    log = x == infinite ? infinite : log;
    log = x == 0.0f ? -infinite : log;
    return x >= 0.0f ? log : (x != x ? x : lanes_of(__builtin_nanf("")));
}

// log(1 + y) for y in [0, 1]
DGO_INLINE Lanes log_of_one_and(Lanes y) {
    const auto large = y > 0.414213562f;
    const Lanes log = log_near_one(large ? (y - 1.0f) * 0.5f : y);
    return large ? log + kLn2 : log;
}

// log(1 + e^(alpha * x)) / alpha, also where alpha * x is infinite
DGO_INLINE Lanes soft_plus(Lanes x, float alpha) {
    const Lanes z = alpha * x, log = log_of_one_and(exponential(-absolute(z))) / alpha;
    return z < 0.0f ? log : x + log;
}

// 1 - erf(x) for x >= 1
DGO_INLINE Lanes error_left(Lanes x) {
    // log(erfc(x)) for x from 1 to 4.2, beyond which it goes on falling
    constexpr float kLog[] = {7.336749963e-05f, -1.129056403e+00f, -6.342162111e-01f, -1.073866804e-01f,
                              2.458289208e-02f, -3.983176810e-03f, 3.990256629e-04f,  -1.832617351e-05f};
    return exponential(polynomial(kLog, at_most(x, 10.0f)));
}

DGO_INLINE Lanes error_near_zero(Lanes x) {
    // erf(x) / x of x^2, for |x| <= 1
    constexpr float kErf[] = {1.128379166e+00f, -3.761262714e-01f, 1.128360017e-01f, -2.685444451e-02f,
                              5.189535191e-03f, -8.020839954e-04f, 7.889115103e-05f};
    return x * polynomial(kErf, x * x);
}

DGO_INLINE Lanes error_function(Lanes x) {
    const Lanes magnitude = absolute(x);
    const Lanes far = with_sign(1.0f - error_left(magnitude), x), near = error_near_zero(x);
    return magnitude < 1.0f ? near : far;
}

// x * (1 + erf(x / sqrt 2)) / 2 for x < -4.5: e^(-x^2 / 2) / sqrt(2 pi) times a polynomial of 2 / x^2
DGO_INLINE Lanes gelu_far_below(Lanes x) {
    constexpr float kFar[] = {9.999999647e-01f,  -4.999843069e-01f, 7.483106864e-01f,
                              -1.799758465e+00f, 4.878429520e+00f,  -8.615701685e+00f};
    // x^2 is the square of the upper half of its bits, which is exact, and a rest
    const Lanes upper = bits<Lanes>(bits<Integers>(x) & ~0xfff);
    const Lanes power = exponential(-0.5f * (upper * upper)) * exponential(-0.5f * ((x - upper) * (x + upper)));
    return -0.398942280f * power * polynomial(kFar, 2.0f / (x * x));
}

DGO_INLINE Lanes gelu_with_erf(Lanes x) {
    constexpr float kFarBelow = -4.5f;
    // log((1 - erf(x / sqrt 2)) / 2) for x from 0 to 4.5, beyond which it goes on falling up to 6
    constexpr float kLog[] = {-6.931471825e-01f, -7.978857160e-01f, -3.182997108e-01f, -3.636923432e-02f,
                              4.836911336e-03f,  -1.049331695e-05f, -1.929414866e-04f, 5.415213673e-05f,
                              -8.085235095e-06f, 6.713759149e-07f,  -2.436898150e-08f};
    const Lanes left = exponential_of_small(polynomial(kLog, at_most(absolute(x), 6.0f)));
    const Lanes gelu = x * (x < 0.0f ? left : 1.0f - left);
    return any_below(x, kFarBelow) ? (x < kFarBelow ? gelu_far_below(x) : gelu) : gelu;
}

DGO_INLINE Lanes gelu_with_tanh(Lanes x) {
    // (1 + tanh z) / 2 is the logistic function of 2 z
    return times_logistic(x, 1.59576912f * (x + 0.044715f * x * x * x));
}

DGO_INLINE Lanes mish_of(Lanes x) {
    const Lanes e = exponential(at_most(x, 30.0f)), n = e * (e + 2.0f);
    return x * (n / (n + 2.0f));
}

}  // namespace dgo::DGO_ISA
