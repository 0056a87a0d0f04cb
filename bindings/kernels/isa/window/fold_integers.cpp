// Sums and maxima of integers, exact in 32 bits, and their results, rounded once.
#include "kernels/isa/table.hpp"
#include "kernels/isa/window/code.hpp"
#include "kernels/isa/window/lane.hpp"

namespace dgo::DGO_ISA {
namespace {

// A float beyond all integers of 8 bits.
template <Fold F>
constexpr int32_t kFirstWhole = F == Fold::max ? -(1 << 30) : 0;

template <Fold F, class V>
DGO_INLINE V folded_wholes(V a, V v) {
    if constexpr (F == Fold::sum) return a + v;
    return a > v ? a : v;
}

// Vectors of 4 lanes that one of L lanes is made of. In memory, as the compiler puts them, a load would wait for them.
template <int L>
struct Quarters {
    __m128i part[L / 4];

    explicit DGO_INLINE Quarters(Wholes<L> v) {
        if constexpr (L == 4) part[0] = bits<__m128i>(v);
        if constexpr (L == 8) halves(bits<__m256i>(v), part);
        if constexpr (L == 16 && kWide) {
            halves(_mm512_castsi512_si256(bits<__m512i>(v)), part);
            halves(_mm512_extracti64x4_epi64(bits<__m512i>(v), 1), part + 2);
        } else if constexpr (L == 16) {
            __builtin_memcpy(part, &v, sizeof(v));
        }
    }
    static DGO_INLINE void halves(__m256i v, __m128i* to) {
        to[0] = _mm256_castsi256_si128(v);
        to[1] = _mm256_extracti128_si256(v, 1);
    }
    DGO_INLINE __m256i half(int i) const {
        return _mm256_inserti128_si256(_mm256_castsi128_si256(part[2 * i]), part[2 * i + 1], 1);
    }
    DGO_INLINE Wholes<L> joined() const {
        if constexpr (L == 4) return bits<Wholes<L>>(part[0]);
        if constexpr (L == 8) return bits<Wholes<L>>(half(0));
        if constexpr (L == 16 && kWide) {
            return bits<Wholes<L>>(_mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1));
        } else if constexpr (L == 16) {
            return load_bytes<Wholes<L>>(part);
        }
    }
};

// Rescales in f64, for any number of lanes.
struct Rescaled {
    __m256d zero, scale, divisor, low, high;
    __m128i to_zero;

    explicit DGO_INLINE Rescaled(const FoldRun& run) {
        const Rescale& by = run.rescale;
        const double least = run.to == ElementType::s8 ? -128 : 0, to = static_cast<double>(by.to_zero);
        zero = _mm256_set1_pd(static_cast<double>(by.zero));
        scale = _mm256_set1_pd(by.scale);
        divisor = _mm256_set1_pd(by.divisor);
        low = _mm256_set1_pd(least - to);
        high = _mm256_set1_pd(least + 255 - to);
        to_zero = _mm_set1_epi32(static_cast<int>(by.to_zero));
    }
    DGO_INLINE __m256d of(__m128i x) const {
        return _mm256_div_pd(_mm256_mul_pd(_mm256_sub_pd(_mm256_cvtepi32_pd(x), zero), scale), divisor);
    }
    template <int L>
    DGO_INLINE Floats<L> floats(Wholes<L> v) const {
        if constexpr (L == 1) {
            return Floats<1>{_mm_cvtss_f32(_mm256_cvtpd_ps(of(_mm_set1_epi32(v[0]))))};
        } else {
            Quarters<L> all(v);
#pragma GCC unroll 4
            for (__m128i& part : all.part) part = _mm_castps_si128(_mm256_cvtpd_ps(of(part)));
            return bits<Floats<L>>(all.joined());
        }
    }
    DGO_INLINE __m128i nearest(__m128i x) const {
        return _mm_add_epi32(_mm256_cvtpd_epi32(_mm256_min_pd(_mm256_max_pd(of(x), low), high)), to_zero);
    }
    template <int L>
    DGO_INLINE Wholes<L> wholes(Wholes<L> v) const {
        if constexpr (L == 1) {
            return Wholes<1>{_mm_cvtsi128_si32(nearest(_mm_set1_epi32(v[0])))};
        } else {
            Quarters<L> all(v);
#pragma GCC unroll 4
            for (__m128i& part : all.part) part = nearest(part);
            return all.joined();
        }
    }
};

// Rescales in f32, for whole vectors.
struct Multiplied {
    int32_t zero, to_zero;
    float factor, low, high;

    explicit DGO_INLINE Multiplied(const FoldRun& run)
        : zero(static_cast<int32_t>(run.rescale.zero)), to_zero(static_cast<int32_t>(run.rescale.to_zero)),
          factor(run.rescale.factor), low((run.to == ElementType::s8 ? -128.0f : 0.0f) - static_cast<float>(to_zero)),
          high(low + 255) {}
    template <int L>
    DGO_INLINE Lanes floats(Integers v) const {
        return to_floats(v - zero) * factor;
    }
    template <int L>
    DGO_INLINE Integers wholes(Integers v) const {
        Lanes x = floats<L>(v);
        x = x > low ? x : low - Lanes{};
        x = x < high ? x : high - Lanes{};
        return to_integers(x) + to_zero;
    }
};

template <Fold F, class In, class By>
struct WholePixel {
    const FoldRun& run;
    const By& rescaled;
    int64_t q;

    template <int L, int V, int K>
    DGO_INLINE void at(int64_t c) const {
        Wholes<L> sum[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[v] = Wholes<L>{} + kFirstWhole<F>;
        const int64_t offset = q * run.advance + c, step = run.tap_step;
        for (int64_t r = 0; r < run.row_count; ++r) {
            const auto* at = reinterpret_cast<const typename In::T*>(run.rows[r]) + offset;
            for (int64_t left = run.taps; left > 0; --left, at += step) {
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) sum[v] = folded_wholes<F>(sum[v], load_wholes<In, L, K>(at + v * L));
            }
        }
        const int64_t to = q * run.dst_step + c;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) put<L, K>(sum[v], to + v * L);
    }

    template <int L, int K>
    DGO_INLINE void put(Wholes<L> v, int64_t to) const {
        if (run.to == ElementType::s32) {
            store_lanes<F32, L, K>(reinterpret_cast<F32::T*>(run.dst) + to, bits<Floats<L>>(v));
        } else if (run.to == ElementType::f32) {
            store_lanes<F32, L, K>(reinterpret_cast<F32::T*>(run.dst) + to, rescaled.template floats<L>(v));
        } else {
            const auto bytes = bits<typename Vec<L>::u32>(rescaled.template wholes<L>(v)) & 0xffu;
            char* const dst = run.dst + to;
            if constexpr (L == 1) {
                *dst = static_cast<char>(bytes[0]);
            } else if constexpr (K < L) {
                store_few_words<1, K>(dst, bytes);
            } else {
                store_words<1, L>(dst, bytes);
            }
        }
    }
};

template <Fold F, class In>
struct WholePixels {
    const FoldRun& run;

    template <int L, int K>
    __attribute__((noinline)) void with() const {
        if constexpr (L == kLanes) {
            if (run.rescale.factor != 0) return by<L, K>(Multiplied(run));
        }
        by<L, K>(Rescaled(run));
    }
    template <int L, int K, class By>
    DGO_INLINE void by(const By& rescaled) const {
        for (int64_t q = 0; q < run.outputs; ++q) pieces<L, K>(run.channels, WholePixel<F, In, By>{run, rescaled, q});
    }
};

template <Fold F, class In>
int32_t neighbours_folded(const typename In::T* at, int64_t count) {
    Wholes<kLanes> all = Wholes<kLanes>{} + kFirstWhole<F>;
    for (; count >= kLanes; count -= kLanes, at += kLanes) all = folded_wholes<F>(all, load_wholes<In, kLanes>(at));
    const Quarters<kLanes> quarters(all);
    auto few = bits<Wholes<4>>(quarters.part[0]);
#pragma GCC unroll 4
    for (int i = 1; i < kLanes / 4; ++i) few = folded_wholes<F>(few, bits<Wholes<4>>(quarters.part[i]));
    few = folded_wholes<F>(few, __builtin_shuffle(few, Wholes<4>{2, 3, 0, 1}));
    int32_t one = folded_wholes<F>(few[0], few[1]);
    for (; count > 0; --count, ++at) one = folded_wholes<F>(one, In::get(at));
    return one;
}

template <Fold F, class In>
struct WholeFolds {
    using T = typename In::T;

    static void fold(const FoldRun& run) { by_width(run.channels, WholePixels<F, In>{run}); }

    static int32_t fold_row(const char* const* rows, int64_t row_count, int64_t count) {
        int32_t all = kFirstWhole<F>;
        for (int64_t r = 0; r < row_count; ++r) {
            all = folded_wholes<F>(all, neighbours_folded<F, In>(reinterpret_cast<const T*>(rows[r]), count));
        }
        return all;
    }

    static void fold_rows(const RowFold& run) {
        const auto* at = reinterpret_cast<const T*>(run.src);
        auto* to = reinterpret_cast<S32::T*>(run.dst);
        for (int64_t r = 0; r < run.rows; ++r, at += run.pitch) to[r] = neighbours_folded<F, In>(at, run.count);
    }
};

// Loads and stores bytes as they are.
struct Kept {};

// The largest of 8 bits, in vectors of bytes; there is at least one vector of channels, and windows have taps.
template <class In>
struct ByteMaxima {
    static constexpr int64_t kBytes = 4 * kLanes;
    typedef typename In::T Bytes __attribute__((vector_size(kBytes)));

    template <class By>
    static void fold(const FoldRun& run, const By& rescaled) {
        for (int64_t q = 0; q < run.outputs; ++q) {
            for (int64_t c = 0; c < run.channels; c += kBytes) {
                const int64_t from = smaller(c, run.channels - kBytes);
                put(run, rescaled, q, from, largest(run, q * run.advance + from));
            }
        }
    }

    static DGO_INLINE Bytes largest(const FoldRun& run, int64_t offset) {
        auto most = load_bytes<Bytes>(run.rows[0] + offset);
        for (int64_t r = 0; r < run.row_count; ++r) {
            const char* at = run.rows[r] + offset;
            for (int64_t left = run.taps; left > 0; --left, at += run.tap_step) {
                const auto bytes = load_bytes<Bytes>(at);
                most = most > bytes ? most : bytes;
            }
        }
        return most;
    }

    template <class By>
    static DGO_INLINE void put(const FoldRun& run, const By& rescaled, int64_t q, int64_t c, Bytes most) {
        if constexpr (kSame<By, Kept>) {
            store_bytes(run.dst + q * run.dst_step + c, most);
        } else {
            typename In::T bytes[kBytes];
            store_bytes(bytes, most);
            const WholePixel<Fold::max, In, By> pixel{run, rescaled, q};
#pragma GCC unroll 4
            for (int64_t i = 0; i < kBytes; i += kLanes) {
                pixel.template put<kLanes, kLanes>(load_wholes<In, kLanes>(bytes + i), q * run.dst_step + c + i);
            }
        }
    }
};

template <class In>
void fold_largest(const FoldRun& run) {
    const Rescale& by = run.rescale;
    const bool empty = run.row_count == 0 || run.taps == 0;
    if (empty || run.channels < ByteMaxima<In>::kBytes || run.to == ElementType::s32) {
        return WholeFolds<Fold::max, In>::fold(run);
    }
    if (run.to == run.from && by.factor == 1 && by.zero == by.to_zero) return ByteMaxima<In>::fold(run, Kept());
    if (by.factor != 0) return ByteMaxima<In>::fold(run, Multiplied(run));
    ByteMaxima<In>::fold(run, Rescaled(run));
}

// Calls code(WholeFolds<F, In>()) for a fold and a type of 8 bits known at run time.
template <class Code>
DGO_INLINE auto with_folds(Fold fold, ElementType from, const Code& code) {
    const bool largest = fold == Fold::max;
    if (from == ElementType::u8) return largest ? code(WholeFolds<Fold::max, U8>()) : code(WholeFolds<Fold::sum, U8>());
    return largest ? code(WholeFolds<Fold::max, S8>()) : code(WholeFolds<Fold::sum, S8>());
}

}  // namespace

void fold_integers(const FoldRun& run) {
    if (run.from == ElementType::s32) {
        return run.fold == Fold::max ? WholeFolds<Fold::max, S32>::fold(run) : WholeFolds<Fold::sum, S32>::fold(run);
    }
    if (run.fold == Fold::max) {
        return run.from == ElementType::u8 ? fold_largest<U8>(run) : fold_largest<S8>(run);
    }
    with_folds(run.fold, run.from, [&](auto folds) { folds.fold(run); });
}

int32_t fold_row_of_integers(Fold fold, ElementType from, const char* const* rows, int64_t row_count, int64_t count) {
    return with_folds(fold, from, [&](auto folds) { return folds.fold_row(rows, row_count, count); });
}

void fold_rows_of_integers(const RowFold& rows) {
    with_folds(rows.fold, rows.from, [&](auto folds) { folds.fold_rows(rows); });
}

}  // namespace dgo::DGO_ISA
