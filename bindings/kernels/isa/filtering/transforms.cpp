// Every transform of minimal filtering, in three tables: this is the only unit that compiles them.
//
// Points 0, 1, -1 and infinity: every coefficient is 0, 1, -1 or, in the filter's transform, one half.
#include "kernels/isa/filtering/transforms.hpp"

namespace dgo::DGO_ISA {
namespace {

enum class Transform { window, filter, output };

// Twice the coefficient of output i and input j of a transform with `points` points; `length` is the filter's
// length or the count of outputs.
constexpr int twice(Transform kind, int points, int length, int i, int j) {
    constexpr int window3[3][3] = {{2, -2, 0}, {0, 2, 0}, {0, 2, -2}};
    constexpr int window4[4][4] = {{2, 0, -2, 0}, {0, 2, 2, 0}, {0, -2, 2, 0}, {0, 2, 0, -2}};
    constexpr int filter32[3][2] = {{2, 0}, {2, 2}, {0, 2}};
    constexpr int filter42[4][2] = {{2, 0}, {1, 1}, {1, -1}, {0, 2}};
    constexpr int filter43[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
    constexpr int output32[2][3] = {{2, 2, 0}, {0, 2, -2}};
    constexpr int output42[2][4] = {{2, 2, 2, 0}, {0, 2, -2, -2}};
    constexpr int output43[3][4] = {{2, 2, 2, 0}, {0, 2, -2, 0}, {0, 2, 2, -2}};
    if (points == 1) return 2;
    if (kind == Transform::window) return points == 3 ? window3[i][j] : window4[i][j];
    if (kind == Transform::filter) {
        return points == 3 ? filter32[i][j] : length == 2 ? filter42[i][j] : filter43[i][j];
    }
    return points == 3 ? output32[i][j] : length == 2 ? output42[i][j] : output43[i][j];
}

template <Transform kKind, int kPoints, int kLength>
struct Matrix {
    static constexpr int rows = kKind == Transform::output ? kLength : kPoints;
    static constexpr int columns = kKind == Transform::filter ? kLength : kPoints;
    static constexpr int at(int i, int j) { return twice(kKind, kPoints, kLength, i, j); }
};

// to[i * To] = sum over j of M[i][j] * from[j * From], unrolled and without the multiplications.
template <class M, int From, int To, int I = 0, int J = 0, bool Some = false>
DGO_INLINE void apply(const Lanes* from, Lanes* to, Lanes sum = Lanes{}) {
    if constexpr (I < M::rows) {
        if constexpr (J < M::columns) {
            constexpr int c = M::at(I, J);
            if constexpr (c == 0) {
                apply<M, From, To, I, J + 1, Some>(from, to, sum);
            } else {
                const Lanes x = from[J * From];
                const Lanes term = c == 1 || c == -1 ? 0.5f * x : x;
                const Lanes next = Some ? (c < 0 ? sum - term : sum + term) : (c < 0 ? -term : term);
                apply<M, From, To, I, J + 1, true>(from, to, next);
            }
        } else {
            to[I * To] = sum;
            apply<M, From, To, I + 1>(from, to);
        }
    }
}

template <class M0, class M1, class M2>
struct Transform3 {
    static constexpr int in0 = M0::columns, in1 = M1::columns, in2 = M2::columns;
    static constexpr int out0 = M0::rows, out1 = M1::rows, out2 = M2::rows;
    static constexpr int in = in0 * in1 * in2, out = out0 * out1 * out2;

    static DGO_INLINE void run(const Lanes* from, Lanes* to) {
        Lanes first[in0 * in1 * out2];
        Lanes second[in0 * out1 * out2];
#pragma GCC unroll 16
        for (int i = 0; i < in0 * in1; ++i) apply<M2, 1, 1>(from + i * in2, first + i * out2);
#pragma GCC unroll 4
        for (int i = 0; i < in0; ++i) {
#pragma GCC unroll 4
            for (int c = 0; c < out2; ++c) {
                apply<M1, out2, out2>(first + i * in1 * out2 + c, second + i * out1 * out2 + c);
            }
        }
#pragma GCC unroll 16
        for (int c = 0; c < out1 * out2; ++c) apply<M0, out1 * out2, out1 * out2>(second + c, to + c);
    }
};

template <class T>
void spread_tile(const float* const* from, int64_t channels, float* to, const Spread& spread) {
    for (int64_t begin = 0; begin < channels; begin += spread.width, to += spread.strip) {
        const int64_t width = smaller(spread.width, channels - begin);
        for (int64_t c = 0; c < width; c += kLanes) {
            Lanes in[T::in], out[T::out];
#pragma GCC unroll 64
            for (int i = 0; i < T::in; ++i) in[i] = load_some(from[i] + begin + c, width - c);
            T::run(in, out);
#pragma GCC unroll 64
            for (int p = 0; p < T::out; ++p) *reinterpret_cast<LanesAt*>(to + p * spread.plane + c) = out[p];
        }
    }
}

template <class T>
void gather_tile(const float* from, int64_t plane, int64_t channels, const float* bias, float* const* to) {
    for (int64_t c = 0; c < channels; c += kLanes) {
        Lanes in[T::in], out[T::out];
#pragma GCC unroll 64
        for (int p = 0; p < T::in; ++p) in[p] = *reinterpret_cast<const LanesAt*>(from + p * plane + c);
        T::run(in, out);
        const Lanes b = load_some(bias + c, channels - c);
#pragma GCC unroll 64
        for (int i = 0; i < T::out; ++i) store_some(to[i] + c, out[i] + b, channels - c);
    }
}

constexpr int points_of(ShapeIndex code) { return code == 0 ? 1 : code == 1 ? 3 : 4; }
constexpr int length_of(ShapeIndex code) { return code == 0 ? 1 : code == 3 ? 3 : 2; }

template <Transform kKind, ShapeIndex kCode>
using MatrixOf = Matrix<kKind, points_of(kCode), length_of(kCode)>;

// In three transformed axes all are alike: more combinations only cost code.
constexpr bool supported(Transform kind, int a, int b, int c) {
    if (kind == Transform::window && (a == 3 || b == 3 || c == 3)) return false;  // see window_index
    if (a == 0) return true;
    return (b == 0 || b == a) && (c == 0 || c == a);
}

template <Transform kKind, int kIndex>
constexpr auto entry() {
    constexpr int a = kIndex / 16, b = kIndex / 4 % 4, c = kIndex % 4;
    using T = Transform3<MatrixOf<kKind, a>, MatrixOf<kKind, b>, MatrixOf<kKind, c>>;
    if constexpr (kKind == Transform::output) {
        return &gather_tile<T>;
    } else {
        return &spread_tile<T>;
    }
}

template <Transform kKind, class Fn>
struct Table {
    Fn at[kShapes * kShapes * kShapes] = {};

    constexpr Table() { fill<0>(); }

    template <int kIndex>
    constexpr void fill() {
        if constexpr (kIndex < kShapes * kShapes * kShapes) {
            constexpr bool known = supported(kKind, kIndex / 16, kIndex / 4 % 4, kIndex % 4);
            if constexpr (known) at[kIndex] = entry<kKind, kIndex>();
            fill<kIndex + 1>();
        }
    }
    Fn find(ShapeIndex a, ShapeIndex b, ShapeIndex c) const { return at[a * 16 + b * 4 + c]; }
};

constexpr Table<Transform::window, SpreadFn> kWindows;
constexpr Table<Transform::filter, SpreadFn> kFilters;
constexpr Table<Transform::output, GatherFn> kOutputs;

// Windows of four points have one transform, whatever the filter's length.
ShapeIndex window_index(ShapeIndex shape) { return shape == 3 ? 2 : shape; }

}  // namespace

SpreadFn window_transform(const ShapeIndex* shape) {
    return kWindows.find(window_index(shape[0]), window_index(shape[1]), window_index(shape[2]));
}

SpreadFn filter_transform(const ShapeIndex* shape) { return kFilters.find(shape[0], shape[1], shape[2]); }

GatherFn output_transform(const ShapeIndex* shape) { return kOutputs.find(shape[0], shape[1], shape[2]); }

}  // namespace dgo::DGO_ISA
