// Vectors of any width down to one lane, and how they are folded.
#pragma once

#include "kernels/isa/vector/elements.hpp"
#include "kernels/isa/vector/functions.hpp"
#include "kernels/window/vtable.hpp"

namespace dgo::DGO_ISA {

// Loads K of L lanes; the others are not defined.
template <class C, int L, int K = L>
DGO_INLINE Floats<L> load_lanes(const typename C::T* at) {
    if constexpr (L == 1) {
        return Floats<1>{C::get(at)};
    } else if constexpr (K < L) {
        return bits<Floats<L>>(load_few<C, K>(at));
    } else {
        return load_float<C, L>(at);
    }
}

template <class C, int L, int K = L>
DGO_INLINE void store_lanes(typename C::T* at, Floats<L> v) {
    if constexpr (L == 1) {
        C::put(at, v[0]);
    } else if constexpr (K < L) {
        store_few<C, K>(at, bits<typename Vec<L>::u32>(v));
    } else {
        store_float<C, L>(at, v);
    }
}

template <int L>
using Wholes = typename Vec<L>::s32;

// Loads K of L lanes of integers; the others are not defined.
template <class C, int L, int K = L>
DGO_INLINE Wholes<L> load_wholes(const typename C::T* at) {
    constexpr int kSize = kSame<C, S32> ? 4 : 1;
    if constexpr (L == 1) {
        return Wholes<1>{C::get(at)};
    } else {
        Wholes<L> v;
        if constexpr (K < L) {
            v = bits<Wholes<L>>(load_few_words<kSize, K>(at));
        } else {
            v = bits<Wholes<L>>(load_words<kSize, L>(at));
        }
        return kSame<C, S8> ? (v << 24) >> 24 : v;
    }
}

// The vector instructions give their second operand where either is NaN: what is NaN already has to be kept by hand.
template <Fold F>
DGO_INLINE float folded(float a, float v) {
    if constexpr (F == Fold::sum) {
        return a + v;
    } else if constexpr (F == Fold::product) {
        return a * v;
    } else {
        // a branch would be mispredicted
        const __m128 x = _mm_set_ss(a), y = _mm_set_ss(v);
        const __m128 most = F == Fold::max ? _mm_max_ss(x, y) : _mm_min_ss(x, y);
        return _mm_cvtss_f32(_mm_blendv_ps(most, x, _mm_cmpunord_ss(x, x)));
    }
}

template <Fold F, int L>
DGO_INLINE Floats<L> folded(Floats<L> a, Floats<L> v) {
    using V = Floats<L>;
    constexpr bool kMax = F == Fold::max;
    if constexpr (F == Fold::sum) {
        return a + v;
    } else if constexpr (F == Fold::product) {
        return a * v;
    } else if constexpr (L == 16 && kWide) {
        const __m512 x = bits<__m512>(a), y = bits<__m512>(v);
        const __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
        return bits<V>(kMax ? _mm512_mask_max_ps(x, numbers, x, y) : _mm512_mask_min_ps(x, numbers, x, y));
    } else if constexpr (L == 8) {
        const __m256 x = bits<__m256>(a), y = bits<__m256>(v);
        return bits<V>(
            _mm256_blendv_ps(kMax ? _mm256_max_ps(x, y) : _mm256_min_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    } else if constexpr (L == 1) {
        return V{folded<F>(a[0], v[0])};
    } else {
        return ((kMax ? a > v : a < v) | (a != a)) ? a : v;
    }
}

// Folds one more number of the source, v, into a.
template <Fold F, int L>
DGO_INLINE Floats<L> taken(Floats<L> a, Floats<L> v) {
    if constexpr (F == Fold::squares) v *= v;
    if constexpr (F == Fold::magnitudes) v = bits<Floats<L>>(bits<typename Vec<L>::u32>(v) & 0x7fffffffu);
    return folded<joining(F), L>(a, v);
}

template <int L>
DGO_INLINE Floats<L> square_root(Floats<L> v) {
    if constexpr (L == kLanes) return root(v);
    if constexpr (L == 8) return bits<Floats<L>>(_mm256_sqrt_ps(bits<__m256>(v)));
    if constexpr (L == 4) return bits<Floats<L>>(_mm_sqrt_ps(bits<__m128>(v)));
    if constexpr (L == 1) return Floats<L>{_mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v[0])))};
}

template <Fold F>
constexpr float kFirst = F == Fold::max       ? -__builtin_inff()
                         : F == Fold::min     ? __builtin_inff()
                         : F == Fold::product ? 1.0f
                                              : 0.0f;

// Calls piece.at<L, V, K>(c) for V vectors of channels from c on, until all channels are done. K < L: a vector has only
// K channels. The last vector may overlap the one before: its results are computed twice, alike.
template <int L, int K, class Piece>
DGO_INLINE void pieces(int64_t channels, const Piece& piece) {
    if constexpr (K < L) return piece.template at<L, 1, K>(0);
    int64_t c = 0;
    if constexpr (L == kLanes) {  // by_width leaves fewer than two narrower vectors
        for (; c + 4 * L <= channels; c += 4 * L) piece.template at<L, 4, L>(c);
        if (c + 2 * L <= channels) {
            piece.template at<L, 2, L>(c);
            c += 2 * L;
        }
    }
    for (; c < channels; c += L) piece.template at<L, 1, L>(smaller(c, channels - L));
}

// Calls body.template with<L, K>() with the widest vectors that `channels` channels fill; K < L: with the part of one
// that they fill.
template <class Body>
DGO_INLINE void by_width(int64_t channels, const Body& body) {
    if (channels >= kLanes) return body.template with<kLanes, kLanes>();
    if (channels >= 8) return body.template with<8, 8>();
    if (channels >= 4) return body.template with<4, 4>();
    if (channels == 3) return body.template with<4, 3>();
    if (channels == 2) return body.template with<4, 2>();
    body.template with<1, 1>();
}

}  // namespace dgo::DGO_ISA
