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

    DGO_INLINE Lanes of(int64_t c) const {
        auto whole = load_words<1, kLanes>(at + c);
        if (kSigned) whole ^= flip;
        return (to_floats(bits<Integers>(whole)) - zero) * scale;
    }
};

struct Call {
    const Dequantized &left, &right;
    const Quotient& by;
    bool signs;
    int64_t count;
    char* to;
};

// Computes whole vectors: elements after the last one are read from a copy.
template <bool kSigned, bool kSmall, class Combine>
void run(const Call& call, Combine&& combine) {
    const Dequantized &left = call.left, &right = call.right;
    const auto some = [&](const char* a, const char* b, int64_t count, char* to) __attribute__((always_inline)) {
        const Lane8<kSigned> x({a, left.is_signed, left.zero, left.scale}),
            y({b, right.is_signed, right.zero, right.scale});
        const auto values = [&](int64_t c) __attribute__((always_inline)) { return combine(x.of(c), y.of(c)); };
        store_quotients<false, kSmall>(call.by, call.signs, count, to, values);
    };
    const int64_t rest = call.count % kBytesAtOnce, whole = call.count - rest;
    some(left.at, right.at, whole, call.to);
    if (rest == 0) return;
    char last[2][kBytesAtOnce] = {};
    __builtin_memcpy(last[0], left.at + whole, static_cast<size_t>(rest));
    __builtin_memcpy(last[1], right.at + whole, static_cast<size_t>(rest));
    some(last[0], last[1], rest, call.to + whole);
}

// Returns the largest magnitude of a dequantized operand.
float reach(const Dequantized& of) { return (256 + __builtin_fabsf(of.zero)) * __builtin_fabsf(of.scale); }

// Whether quotients of values up to `most` are below 2^31.
bool is_small(float most, const Quotient& by) { return most * __builtin_fabsf(by.inverse) < 1e9f; }

// most: the largest magnitude of results.
template <class Combine>
void choose(const Call& call, float most, Combine&& combine) {
    if (!is_small(most, call.by) || call.left.is_signed || call.right.is_signed) return run<true, false>(call, combine);
    run<false, true>(call, combine);
}

}  // namespace

void requantize(EpilogueOp op, const Dequantized& left, const Dequantized& right, const Quotient& by, bool signs,
                int64_t count, char* to) {
    const Call call{left, right, by, signs, count, to};
    const float a = reach(left), b = reach(right);
    switch (op) {
        case EpilogueOp::add:
            return choose(call, a + b, [](Lanes x, Lanes y) __attribute__((always_inline)) { return x + y; });
        case EpilogueOp::multiply:
            return choose(call, a * b, [](Lanes x, Lanes y) __attribute__((always_inline)) { return x * y; });
        default: return choose(call, a, [](Lanes x, Lanes) __attribute__((always_inline)) { return x; });
    }
}

void requantize_prelu(const Dequantized& of, const float* slopes, int64_t step, bool gentle, const Quotient& by,
                      bool signs, int64_t count, char* to) {
    const bool small = gentle && is_small(reach(of), by);
    const auto some = [&](const char* from, const float* y, int64_t number, char* at) {
        const auto run = [&](auto is_signed, auto below) __attribute__((always_inline)) {
            const Lane8<is_signed> lane({from, is_signed, of.zero, of.scale});
            store_quotients<false, below>(by, signs, number, at, [&](int64_t c) __attribute__((always_inline)) {
                const Lanes x = lane.of(c), other = x * load_bytes<Lanes>(y + c * step);
                return below ? larger_number(other, x) : x > 0.0f ? x : other;
            });
        };
        by_flag(of.is_signed, [&](auto is_signed) __attribute__((always_inline)) {
            by_flag(small, [&](auto below) __attribute__((always_inline)) { run(is_signed, below); });
        });
    };
    const int64_t rest = count % kBytesAtOnce, whole = count - rest;
    some(of.at, slopes, whole, to);
    if (rest == 0) return;
    char last[kBytesAtOnce] = {};
    float last_slopes[kBytesAtOnce] = {};
    __builtin_memcpy(last, of.at + whole, static_cast<size_t>(rest));
    __builtin_memcpy(last_slopes, slopes + whole * step, static_cast<size_t>(step == 0 ? kLanes : rest) * 4);
    some(last, last_slopes, rest, to + whole);
}

}  // namespace dgo::DGO_ISA
