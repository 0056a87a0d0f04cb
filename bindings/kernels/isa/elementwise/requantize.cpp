// Compiled without contraction: each operation is rounded.
#include "kernels/isa/elementwise/requantize.hpp"

#include "kernels/isa/vector/quotient.hpp"

namespace dgo::DGO_ISA {
namespace {

// A signed integer is read as one without a sign that is 128 more.
template <bool kSigned>
struct Lane8 {
    const char* at;
    uint32_t flip;
    float zero, scale;

    explicit Lane8(const Dequantized& of)
        : at(of.at), flip(of.is_signed ? 0x80 : 0), zero(of.is_signed ? of.zero + 128 : of.zero), scale(of.scale) {}

    DGO_INLINE Lanes of(int64_t c, int64_t left) const {
        auto whole = load_first(at + c, left);
        if (kSigned) whole ^= flip;
        return (to_floats(bits<Integers>(whole)) - zero) * scale;
    }
};

// Returns the largest magnitude of a dequantized operand.
float reach(const Dequantized& of) { return (256 + __builtin_fabsf(of.zero)) * __builtin_fabsf(of.scale); }

// Whether quotients of values up to `most` are below 2^31.
bool is_small(float most, const Quotient& by) { return most * __builtin_fabsf(by.inverse) < 1e9f; }

}  // namespace

void requantize(EpilogueOp op, const Dequantized& left, const Dequantized& right, const Quotient& by, bool signs,
                int64_t count, char* to) {
    const float a = reach(left), b = reach(right);
    // most: the largest magnitude of results
    const auto run = [&](float most, auto combine) {
        by_flag(!is_small(most, by) || left.is_signed || right.is_signed, [&](auto any) __attribute__((always_inline)) {
            const Lane8<any> x(left), y(right);
            store_quotients<false, !any>(by, signs, count, to,
                                         [&](int64_t c, int64_t rest) __attribute__((always_inline)) {
                                             return combine(x.of(c, rest), y.of(c, rest));
                                         });
        });
    };
    switch (op) {
        case EpilogueOp::add: return run(a + b, [](Lanes x, Lanes y) __attribute__((always_inline)) { return x + y; });
        case EpilogueOp::multiply:
            return run(a * b, [](Lanes x, Lanes y) __attribute__((always_inline)) { return x * y; });
        default: return run(a, [](Lanes x, Lanes) __attribute__((always_inline)) { return x; });
    }
}

void requantize_prelu(const Dequantized& of, const float* slopes, int64_t step, bool gentle, const Quotient& by,
                      bool signs, int64_t count, char* to) {
    by_flag(of.is_signed, [&](auto is_signed) __attribute__((always_inline)) {
        by_flag(gentle && is_small(reach(of), by), [&](auto small) __attribute__((always_inline)) {
            const Lane8<is_signed> lane(of);
            store_quotients<false, small>(
                by, signs, count, to, [&](int64_t c, int64_t left) __attribute__((always_inline)) {
                    const Lanes x = lane.of(c, left), y = load_first(slopes + c * step, step == 0 ? kLanes : left);
                    return small ? larger_number(x * y, x) : x > 0.0f ? x : x * y;
                });
        });
    });
}

}  // namespace dgo::DGO_ISA
