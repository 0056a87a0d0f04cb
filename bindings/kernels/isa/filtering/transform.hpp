// The transforms of minimal filtering on vectors of channels, for up to three axes.
//
// Points 0, 1, -1 and infinity: every coefficient is 0, 1, -1 or, in the filter's transform, one half.
#pragma once

#include <utility>

#include "kernels/filtering/vtable.hpp"
#include "kernels/isa/gemm_tile.hpp"

namespace dgo::DGO_ISA {

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

// Of `count` < kLanes floats, without touching what follows them; zeros in the other lanes.
DGO_INLINE Lanes load_part(const float* at, int64_t count) {
#ifdef DGO_WIDE
    return bits<Lanes>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), at));
#else
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return bits<Lanes>(_mm256_maskload_ps(at, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index)));
#endif
}

DGO_INLINE void store_part(float* at, Lanes v, int64_t count) {
#ifdef DGO_WIDE
    _mm512_mask_storeu_ps(at, static_cast<__mmask16>((1u << count) - 1), bits<__m512>(v));
#else
    // Masked stores take tens of cycles on some processors.
    const __m256 all = bits<__m256>(v);
    __m128 part = _mm256_castps256_ps128(all);
    if ((count & 4) != 0) {
        store_bytes(at, part);
        at += 4;
        part = _mm256_extractf128_ps(all, 1);
    }
    if ((count & 2) != 0) {
        store_bytes(at, _mm_cvtsi128_si64(_mm_castps_si128(part)));
        at += 2;
        part = _mm_movehl_ps(part, part);
    }
    if ((count & 1) != 0) *at = _mm_cvtss_f32(part);
#endif
}

DGO_INLINE Lanes load_some(const float* at, int64_t count) {
    return count >= kLanes ? load_bytes<Lanes>(at) : load_part(at, count);
}

DGO_INLINE void store_some(float* at, Lanes v, int64_t count) {
    if (count >= kLanes) {
        *reinterpret_cast<LanesAt*>(at) = v;
    } else {
        store_part(at, v, count);
    }
}

// Where the transform of one tile goes: channel c of plane p at p * plane + c / width * strip + c % width.
struct Spread {
    int64_t plane, width, strip;
};
using SpreadFn = void (*)(const float* const* from, int64_t channels, float* to, const Spread& spread);

// to[i][c] = bias[c] + the transform of from[p * plane + c].
using GatherFn = void (*)(const float* from, int64_t plane, int64_t channels, const float* bias, float* const* to);

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

constexpr int points_of(ShapeCode code) { return code == 0 ? 1 : code == 1 ? 3 : 4; }
constexpr int length_of(ShapeCode code) { return code == 0 ? 1 : code == 3 ? 3 : 2; }

template <Transform kKind, ShapeCode kCode>
using MatrixOf = Matrix<kKind, points_of(kCode), length_of(kCode)>;

// In three transformed axes all are alike: more combinations only cost code.
constexpr bool supported(int a, int b, int c) {
    if (a == 0) return true;
    return (b == 0 || b == a) && (c == 0 || c == a);
}

template <Transform kKind>
struct TransformFn {
    using type = SpreadFn;
};
template <>
struct TransformFn<Transform::output> {
    using type = GatherFn;
};

template <Transform kKind, int kIndex>
constexpr typename TransformFn<kKind>::type entry() {
    constexpr int a = kIndex / 16, b = kIndex / 4 % 4, c = kIndex % 4;
    using T = Transform3<MatrixOf<kKind, a>, MatrixOf<kKind, b>, MatrixOf<kKind, c>>;
    if constexpr (!supported(a, b, c)) {
        return nullptr;
    } else if constexpr (kKind == Transform::output) {
        return &gather_tile<T>;
    } else {
        return &spread_tile<T>;
    }
}

template <Transform kKind, int... kIndex>
typename TransformFn<kKind>::type find(int index, std::integer_sequence<int, kIndex...>) {
    static constexpr typename TransformFn<kKind>::type table[] = {entry<kKind, kIndex>()...};
    return table[index];
}

// Null for a combination that is not compiled; minimal_filter.cpp refuses it beforehand.
template <Transform kKind>
typename TransformFn<kKind>::type find(const ShapeCode* code) {
    return find<kKind>(code[0] * 16 + code[1] * 4 + code[2],
                     std::make_integer_sequence<int, kShapeCodes * kShapeCodes * kShapeCodes>{});
}

}  // namespace dgo::DGO_ISA
