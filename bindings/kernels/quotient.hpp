// How floats become integers of 8 bits: round(x / scale) + zero, bounded.
#pragma once

#include <cmath>

namespace dgo {

struct Quotient {
    float scale = 1;
    float inverse = 1;  // 1 / scale
    // 1 / scale - inverse, where x * inverse + x * rest, rounded once, has the nearest integer of x / scale; 0: unknown
    float rest = 0;
    // distance of x * inverse and its nearest integer above which x / scale may have another one; -1: any
    float doubtful = 2;
    int zero = 0;
    int low = 0, high = 0;  // the least and the greatest result
};

// Within 512, beyond which every result is the lowest or the highest, quotients and products by the inverse differ by
// three halves of an ulp, less than 1e-4.
inline Quotient quotient_by(float scale, int zero, int low = 0, int high = 0) {
    constexpr float kDoubtful = 0.5f - 1e-4f;
    int exponent;
    const float inverse = 1 / scale;
    const bool normal = std::isnormal(inverse), exact = std::frexp(scale, &exponent) == 0.5f;
    return {scale, normal ? inverse : 0, 0, !normal ? -1 : exact ? 2 : kDoubtful, zero, low, high};
}

// Returns a quotient with its `rest`, which takes the time of some 10,000 quotients to prove.
Quotient with_rest(Quotient quotient);

}  // namespace dgo
