// Every transform of Winograd as a template, and tables of them by the shapes of the axes.
#pragma once

#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/product/transforms.hpp"

namespace dgo::DGO_ISA {
namespace {

enum class Transform { window, filter, output };

// The finite points of so many; the last one is infinity. Up to three of them differ by powers of two, so that every
// coefficient is a dyadic fraction; of four and five those that round least, with few bits (docs/accuracy.md).
constexpr double kPoints[][5] = {
    {0, 1},
    {0, 1, -1},
    {0, 0.75, -0.75, 1.75},
    {0, 0.625, -0.625, 1.5, -1.5},
};

constexpr double point(int points, int i) { return kPoints[points - 3][i]; }

constexpr double power(double base, int exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }

// Coefficient j of the product of (x - p) over the finite points p without point i, from i on.
constexpr double factors(int points, int i, int j, int from = 0) {
    if (j < 0) return 0;
    if (from == points - 1) return j == 0 ? 1 : 0;
    if (from == i) return factors(points, i, j, from + 1);
    return factors(points, i, j - 1, from + 1) - point(points, from) * factors(points, i, j, from + 1);
}

// Returns the divisor of the filter's transform at a finite point: the product of its differences from the others.
constexpr double divisor(int points, int i) {
    double product = 1;
    for (int k = 0; k < points - 1; ++k) product *= k == i ? 1 : point(points, i) - point(points, k);
    return product;
}

// Coefficient of output i and input j; `length` is the filter's length or the count of outputs.
constexpr double coefficient(Transform kind, int points, int length, int i, int j) {
    if (points == 1) return 1;
    const int infinity = points - 1;
    if (kind == Transform::output) {
        return j == infinity ? (i == length - 1 ? 1 : 0) : power(point(points, j), i);
    }
    if (kind == Transform::filter) {
        if (i == infinity) return j == length - 1 ? 1 : 0;
        const double by = divisor(points, i);
        return power(point(points, i), j) / (by < 0 ? -by : by);
    }
    return factors(points, i, j) * (i != infinity && divisor(points, i) < 0 ? -1 : 1);
}

template <Transform kKind, int kPointCount, int kLength>
struct Matrix {
    static constexpr int rows = kKind == Transform::output ? kLength : kPointCount;
    static constexpr int columns = kKind == Transform::filter ? kLength : kPointCount;
    static constexpr bool by_columns = kKind == Transform::output;

    static constexpr double at(int i, int j) { return coefficient(kKind, kPointCount, kLength, i, j); }
    // Whether `i` and the next are points that differ in sign alone.
    static constexpr bool paired(int i) {
        if (kPointCount < 4 || i < 1 || i + 1 >= kPointCount - 1) return false;
        return point(kPointCount, i) > 0 && point(kPointCount, i + 1) == -point(kPointCount, i);
    }
};

// Half the sum (kSign 1) or the difference (-1) of rows I and I + 1; of columns, where an output is made of the sums
// and differences of its inputs; 0: row I as it is.
template <class M, int I, int kSign>
struct Row {
    static constexpr int columns = M::columns;

    static constexpr double at(int j) {
        if (kSign != 0) return (M::at(I, j) + kSign * M::at(I + 1, j)) / 2;
        if (M::by_columns && M::paired(j)) return (M::at(I, j) + M::at(I, j + 1)) / 2;
        if (M::by_columns && j > 0 && M::paired(j - 1)) return (M::at(I, j - 1) - M::at(I, j)) / 2;
        return M::at(I, j);
    }
    static constexpr int count() {
        int found = 0;
        for (int j = 0; j < columns; ++j) found += at(j) != 0 ? 1 : 0;
        return found;
    }
    // Returns the index of the last coefficient that is not zero.
    static constexpr double lead() {
        double last = 1;
        for (int j = 0; j < columns; ++j) last = at(j) != 0 ? at(j) : last;
        return last;
    }
};

template <class M, int I>
constexpr bool halved() {
    return !M::by_columns && M::paired(I) &&
           Row<M, I, 1>::count() + Row<M, I, -1>::count() < Row<M, I, 0>::count() + Row<M, I + 1, 0>::count();
}

template <class V>
DGO_INLINE V multiple(double by, V x) {
    auto factor = x[0];
    factor = static_cast<decltype(factor)>(by);
    return factor * x;
}

// sum + by * x, without the multiplication where there is none. V: floats, or integers where all coefficients are.
template <class V>
DGO_INLINE V add(V sum, double by, V x) {
    return by == 1 ? sum + x : by == -1 ? sum - x : sum + multiple(by, x);
}

template <class V>
DGO_INLINE V times(double by, V x) {
    return by == 1 ? x : by == -1 ? -x : multiple(by, x);
}

// The sum over j of R[j] * from[j * From], divided by R::lead() if so asked.
template <class R, int From, bool kDivided, int J = 0, bool kSome = false, class V>
DGO_INLINE V dot(const V* from, V sum = V{}) {
    if constexpr (J == R::columns) {
        return sum;
    } else if constexpr (R::at(J) == 0) {
        return dot<R, From, kDivided, J + 1, kSome>(from, sum);
    } else {
        constexpr double c = R::at(J) / (kDivided ? R::lead() : 1);
        const V x = from[J * From];
        return dot<R, From, kDivided, J + 1, true>(from, kSome ? add(sum, c, x) : times(c, x));
    }
}

// to[i * To] = sum over j of M[i][j] * from[j * From], unrolled.
template <class M, int From, int To, int I = 0, class V>
DGO_INLINE void apply_rows(const V* from, V* to) {
    if constexpr (I < M::rows) {
        if constexpr (halved<M, I>()) {
            using Even = Row<M, I, 1>;
            using Odd = Row<M, I, -1>;
            constexpr double by = Odd::lead();
            const V even = dot<Even, From, false>(from), odd = dot<Odd, From, true>(from);
            to[I * To] = add(even, by, odd);
            to[(I + 1) * To] = add(even, -by, odd);
            apply_rows<M, From, To, I + 2>(from, to);
        } else {
            to[I * To] = dot<Row<M, I, 0>, From, false>(from);
            apply_rows<M, From, To, I + 1>(from, to);
        }
    }
}

template <class M, int From, int To, class V>
DGO_INLINE void apply(const V* from, V* to) {
    if constexpr (M::by_columns) {
        V in[M::columns];
#pragma GCC unroll 8
        for (int j = 0; j < M::columns; ++j) {
            in[j] = M::paired(j)       ? from[j * From] + from[(j + 1) * From]
                    : M::paired(j - 1) ? from[(j - 1) * From] - from[j * From]
                                       : from[j * From];
        }
        apply_rows<M, 1, To>(in, to);
    } else {
        apply_rows<M, From, To>(from, to);
    }
}

template <class M0, class M1, class M2>
struct Transform3 {
    static constexpr int in0 = M0::columns, in1 = M1::columns, in2 = M2::columns;
    static constexpr int out0 = M0::rows, out1 = M1::rows, out2 = M2::rows;

    // load(i) gives value i of the tile, store(i, value) takes value i of its transform.
    template <class Load, class Store>
    static DGO_INLINE void run(Load&& load, Store&& store) {
        using V = decltype(load(0));
        V first[in0 * in1 * out2];
        V second[in0 * out1 * out2];
#pragma GCC unroll 16
        for (int i = 0; i < in0 * in1; ++i) {
            V row[in2];
#pragma GCC unroll 8
            for (int c = 0; c < in2; ++c) row[c] = load(i * in2 + c);
            apply<M2, 1, 1>(row, first + i * out2);
        }
#pragma GCC unroll 4
        for (int i = 0; i < in0; ++i) {
#pragma GCC unroll 8
            for (int c = 0; c < out2; ++c) {
                apply<M1, out2, out2>(first + i * in1 * out2 + c, second + i * out1 * out2 + c);
            }
        }
#pragma GCC unroll 64
        for (int c = 0; c < out1 * out2; ++c) {
            V column[out0];
            apply<M0, out1 * out2, 1>(second + c, column);
#pragma GCC unroll 4
            for (int i = 0; i < out0; ++i) store(i * out1 * out2 + c, column[i]);
        }
    }
};

// Loads of whole vectors of elements and of their first lanes.
DGO_INLINE Lanes load_lanes(const float* at) { return load_bytes<Lanes>(at); }
DGO_INLINE Lanes load_lanes(const float* at, int64_t count) { return load_part(at, count); }
DGO_INLINE Lanes load_lanes(const uint16_t* at) {
    return load_float<Bf16, kLanes>(reinterpret_cast<const Bf16::T*>(at));
}
DGO_INLINE Lanes load_lanes(const uint16_t* at, int64_t count) {
    uint16_t some[kLanes] = {};
    __builtin_memcpy(some, at, static_cast<size_t>(count) * 2);
    return load_lanes(some);
}
// Words: the rows that they belong to may be read as far as a vector goes.
typedef int16_t WordLanes __attribute__((vector_size(4 * kLanes)));
DGO_INLINE WordLanes load_lanes(const int16_t* at) { return load_bytes<WordLanes>(at); }
DGO_INLINE WordLanes load_lanes(const int16_t* at, int64_t) { return load_lanes(at); }

// The elements that a transform reads at once.
template <class From>
constexpr int64_t kAtOnce = kLanes;
template <>
constexpr int64_t kAtOnce<int16_t> = 2 * kLanes;

struct PutFloats {
    static DGO_INLINE void put(float* at, Lanes value) { *reinterpret_cast<LanesAt*>(at) = value; }
};

template <class T, class Scatter, class From, class To>
void spread_tile(const From* const* from, int64_t channels, To* to, const Spread& spread) {
    for (int64_t begin = 0; begin < channels; begin += spread.width, to += spread.strip) {
        const int64_t width = smaller(spread.width, channels - begin);
        const auto store = [&](int64_t c) {
            return [&spread, at = to + c](int p, auto value)
                       __attribute__((always_inline)) { Scatter::put(at + p * spread.plane, value); };
        };
        int64_t c = 0;
        for (; c + kAtOnce<From> <= width; c += kAtOnce<From>) {
            T::run([&](int i) __attribute__((always_inline)) { return load_lanes(from[i] + begin + c); }, store(c));
        }
        if (c == width) continue;
        T::run([&](int i) __attribute__((always_inline)) { return load_lanes(from[i] + begin + c, width - c); },
               store(c));
    }
}

template <class T>
void gather_tile(const float* from, int64_t plane, int64_t channels, const float* bias, float* const* to) {
    const auto load = [&](int64_t c) {
        return [plane, at = from + c](int p) __attribute__((always_inline)) -> Lanes {
            return *reinterpret_cast<const LanesAt*>(at + p * plane);
        };
    };
    int64_t c = 0;
    for (; c + kLanes <= channels; c += kLanes) {
        const Lanes b = load_bytes<Lanes>(bias + c);
        T::run(load(c), [&](int i, Lanes value) __attribute__((always_inline)) { store_bytes(to[i] + c, value + b); });
    }
    if (c == channels) return;
    const Lanes b = load_part(bias + c, channels - c);
    T::run(load(c),
           [&](int i, Lanes value) __attribute__((always_inline)) { store_part(to[i] + c, value + b, channels - c); });
}

template <Transform kKind, ShapeIndex kCode>
using MatrixOf = Matrix<kKind, kShapeSizes[kCode].points, kShapeSizes[kCode].length>;

constexpr bool is_large(ShapeIndex code) { return kShapeSizes[code].points > 4; }

// Returns the shape by its points alone: windows of equally many points have one transform, whatever the filter's
// length.
constexpr ShapeIndex window_shape(ShapeIndex code) {
    return code > 0 && kShapeSizes[code - 1].points == kShapeSizes[code].points ? code - 1 : code;
}

// In three transformed axes all are alike, and so are two of larger tiles: more combinations only cost code.
constexpr bool supported(Transform kind, int a, int b, int c) {
    const bool names = window_shape(a) == a && window_shape(b) == b && window_shape(c) == c;
    if (kind == Transform::window && !names) return false;
    if (is_large(a)) return false;
    if (is_large(b) || is_large(c)) return a == 0 && (b == 0 || c == 0 || b == c);
    if (a == 0) return true;
    return (b == 0 || b == a) && (c == 0 || c == a);
}

template <class Fn, class Scatter>
struct Entry {
    template <class T>
    static constexpr Fn of = &gather_tile<T>;
};
template <class From, class To, class Scatter>
struct Entry<SpreadFn<From, To>, Scatter> {
    template <class T>
    static constexpr SpreadFn<From, To> of = &spread_tile<T, Scatter, From, To>;
};

template <Transform kKind, class Fn, class Scatter, int kA, int kB, int kC>
constexpr Fn entry() {
    using T = Transform3<MatrixOf<kKind, kA>, MatrixOf<kKind, kB>, MatrixOf<kKind, kC>>;
    return Entry<Fn, Scatter>::template of<T>;
}

// Scatter: how vectors are stored; kLarge: with tiles of more than 3 results.
template <Transform kKind, class Fn, class Scatter = PutFloats, bool kLarge = true>
struct Table {
    Fn at[kShapes * kShapes * kShapes] = {};

    constexpr Table() { fill<0, kShapes * kShapes * kShapes>(); }

    template <int kBegin, int kEnd>
    constexpr void fill() {
        if constexpr (kEnd - kBegin > 1) {
            fill<kBegin, (kBegin + kEnd) / 2>();
            fill<(kBegin + kEnd) / 2, kEnd>();
        } else {
            constexpr int a = kBegin / (kShapes * kShapes), b = kBegin / kShapes % kShapes, c = kBegin % kShapes;
            constexpr bool of_size = kLarge || !(is_large(a) || is_large(b) || is_large(c));
            if constexpr (of_size && supported(kKind, a, b, c)) at[kBegin] = entry<kKind, Fn, Scatter, a, b, c>();
        }
    }
    Fn find(ShapeIndex a, ShapeIndex b, ShapeIndex c) const { return at[(a * kShapes + b) * kShapes + c]; }
};

}  // namespace
}  // namespace dgo::DGO_ISA
