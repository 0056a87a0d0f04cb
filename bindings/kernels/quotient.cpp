#include "kernels/quotient.hpp"

#include <initializer_list>

namespace dgo {

// A sum is off x / scale by less than 2^-45 of it. Floats round apart at the middle of two of them, so the nearest integer
// may differ only where x / scale lies that near to one of the middles beside k + 0.5.
Quotient with_rest(Quotient quotient) {
    constexpr double kError = 0x1p-45;
    constexpr int kMost = 512;
    const double scale = quotient.scale;
    // a rest of the inverse's sign, as infinite x have products of both
    if (quotient.inverse > 1 / scale) quotient.inverse = std::nextafter(quotient.inverse, 0.0f);
    const auto rest = static_cast<float>(1 / scale - quotient.inverse);
    if (!std::isnormal(quotient.scale) || !std::isnormal(quotient.inverse) || !std::isnormal(rest)) return quotient;
    bool sure = true;
    for (int k = 0; k < kMost; ++k) {
        const float tie = static_cast<float>(k) + 0.5f;
        for (const float beside : {std::nextafter(tie, 0.0f), std::nextafter(tie, 1e3f)}) {
            // of 25 bits, and its product with 24 bits: exact
            const double middle = (static_cast<double>(tie) + beside) / 2 * scale;
            sure &= std::fabs(static_cast<float>(middle) - middle) > kError * middle;
        }
    }
    if (sure) quotient.rest = rest;
    return quotient;
}

}  // namespace dgo
