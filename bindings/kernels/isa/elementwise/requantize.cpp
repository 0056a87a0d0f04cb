// Compiled without contraction: each operation is rounded.
#include "kernels/isa/elementwise/requantize.hpp"

#include "kernels/isa/quotient.hpp"

namespace dgo::DGO_ISA {
namespace {

// A signed integer is read as one without a sign that is 128 more.
struct Lane8 {
    const char* at;
    uint32_t flip;
    float zero, scale;

    explicit Lane8(const Dequantized& of)
        : at(of.at), flip(of.is_signed ? 0x80 : 0), zero(of.is_signed ? of.zero + 128 : of.zero), scale(of.scale) {}

    DGO_INLINE Lanes of(int64_t c) const {
        const auto whole = bits<Integers>(load_words<1, kLanes>(at + c) ^ flip);
        return (to_floats(whole) - zero) * scale;
    }
};

// In whole vectors: what follows the last element is read elsewhere.
template <class Combine>
DGO_INLINE void run(const Dequantized& a, const Dequantized& b, const Quotient& by, bool signs, int64_t count, char* to,
                    Combine&& combine) {
    const auto store = [&](const Dequantized& left, const Dequantized& right, int64_t number, char* dst) {
        const Lane8 x(left), y(right);
        store_quotients(by, signs, number, dst,
                        [=](int64_t c) __attribute__((always_inline)) { return combine(x.of(c), y.of(c)); });
    };
    const int64_t rest = count % kBytesAtOnce, whole = count - rest;
    store(a, b, whole, to);
    if (rest == 0) return;
    char last[2][kBytesAtOnce] = {};
    __builtin_memcpy(last[0], a.at + whole, static_cast<size_t>(rest));
    __builtin_memcpy(last[1], b.at + whole, static_cast<size_t>(rest));
    store({last[0], a.is_signed, a.zero, a.scale}, {last[1], b.is_signed, b.zero, b.scale}, rest, to + whole);
}

}  // namespace

void requantize(EpilogueOp op, const Dequantized& left, const Dequantized& right, const Quotient& by, bool signs,
                int64_t count, char* to) {
    switch (op) {
        case EpilogueOp::add:
            return run(left, right, by, signs, count, to,
                       [](Lanes x, Lanes y) __attribute__((always_inline)) { return x + y; });
        case EpilogueOp::multiply:
            return run(left, right, by, signs, count, to,
                       [](Lanes x, Lanes y) __attribute__((always_inline)) { return x * y; });
        default:
            return run(left, left, by, signs, count, to,
                       [](Lanes x, Lanes) __attribute__((always_inline)) { return x; });
    }
}

}  // namespace dgo::DGO_ISA
