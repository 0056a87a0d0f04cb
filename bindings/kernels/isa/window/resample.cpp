// Weighted sums of rows and of neighbours, and pixels that are repeated.
#include "kernels/isa/vector/quotient.hpp"
#include "kernels/isa/window/code.hpp"
#include "kernels/isa/window/lane.hpp"

namespace dgo::DGO_ISA {
namespace {

// Loads elements as floats; integers as a Dequantize has them.
template <class C, int L, int K, class Run>
DGO_INLINE Floats<L> load_scaled(const Run& run, const typename C::T* at) {
    if constexpr (kSame<C, U8> || kSame<C, S8>) {
        return (__builtin_convertvector(load_wholes<C, L, K>(at), Floats<L>) - run.zero) * run.scale;
    } else {
        return load_lanes<C, L, K>(at);
    }
}

// Calls code(C()) for a type known at run time.
template <class Code>
DGO_INLINE void with_source(ElementType type, const Code& code) {
    if (type == ElementType::u8) return code(U8());
    if (type == ElementType::s8) return code(S8());
    with_type(type, code);
}

template <class In>
struct MixPixel {
    const MixRun& run;
    int64_t q;

    template <int L, int V, int K>
    DGO_INLINE void at(int64_t c) const {
        Floats<L> sum[V] = {};
        for (int64_t r = 0; r < run.row_count; ++r) {
            const auto* src = reinterpret_cast<const typename In::T*>(run.rows[r]) + q * run.step + c;
            const float weight = run.weights[r];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sum[v] += load_scaled<In, L, K>(run, src + v * L) * weight;
        }
        auto* dst = reinterpret_cast<F32::T*>(run.dst) + q * run.dst_step + c;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) store_lanes<F32, L, K>(dst + v * L, sum[v]);
    }
};

template <class In>
struct MixPixels {
    const MixRun& run;

    template <int L, int K>
    DGO_INLINE void with() const {
        for (int64_t q = 0; q < run.outputs; ++q) pieces<L, K>(run.channels, MixPixel<In>{run, q});
    }
};

}  // namespace

void mix(const MixRun& run) {
    with_source(run.from, [&](auto from) { by_width(run.channels, MixPixels<decltype(from)>{run}); });
}

namespace {

template <class In, class Out, bool Two>
struct LinearPixel {
    const LinearRun& run;
    const typename In::T *left, *right;
    float part;
    typename Out::T* dst;

    template <int L, int V, int K>
    DGO_INLINE void at(int64_t c) const {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            Floats<L> sum = load_scaled<In, L, K>(run, left + c + v * L);
            if (Two) sum = sum * (1.0f - part) + load_scaled<In, L, K>(run, right + c + v * L) * part;
            store_lanes<Out, L, K>(dst + c + v * L, sum);
        }
    }
};

template <class In, class Out>
struct LinearPixels {
    const LinearRun& run;

    template <int L, int K>
    DGO_INLINE void with() const {
        const auto* src = reinterpret_cast<const typename In::T*>(run.src);
        auto* dst = reinterpret_cast<typename Out::T*>(run.dst);
        for (int64_t q = 0; q < run.outputs; ++q, dst += run.dst_step) {
            const LinearTap& tap = run.taps[q];
            if (tap.part != 0.0f) {
                pieces<L, K>(run.channels,
                             LinearPixel<In, Out, true>{run, src + tap.left, src + tap.right, tap.part, dst});
            } else {
                pieces<L, K>(run.channels, LinearPixel<In, Out, false>{run, src + tap.left, nullptr, 0.0f, dst});
            }
        }
    }
};

template <class In, class Out>
void linear_elements(const LinearRun& run) {
    by_width(run.channels, LinearPixels<In, Out>{run});
}

}  // namespace

void linear(const LinearRun& run) {
    if (run.from == ElementType::f32)
        return with_type(run.to, [&](auto to) { linear_elements<F32, decltype(to)>(run); });
    if (run.from == ElementType::bf16) return linear_elements<Bf16, Bf16>(run);
    if (run.from == ElementType::f16) return linear_elements<F16, F16>(run);
    run.from == ElementType::u8 ? linear_elements<U8, F32>(run) : linear_elements<S8, F32>(run);
}

void round(const RoundRun& run) {
    char* to = run.dst;
    const float* from = run.src;
    for (int64_t row = 0; row < run.rows; ++row, from += run.src_step, to += run.dst_step) {
        const auto values = [=](int64_t c, int64_t)
                                __attribute__((always_inline)) { return load_bytes<Lanes>(from + c); };
        store_quotients<false, false>(run.by, run.to == ElementType::s8, run.count, to, values);
    }
}

// ---- pixels as they are -------------------------------------------------------------------------------------------

namespace {

template <int Size>
struct Bytes {
    typedef uint8_t V __attribute__((vector_size(Size)));
};

// Copies from Size to 2 * Size bytes.
template <int Size>
DGO_INLINE void move_ends(const char* src, char* dst, int64_t bytes) {
    using V = typename Bytes<Size>::V;
    const V first = load_bytes<V>(src), last = load_bytes<V>(src + bytes - Size);
    store_bytes(dst, first);
    store_bytes(dst + bytes - Size, last);
}

DGO_INLINE void move_bytes(const char* src, char* dst, int64_t bytes) {
    using V = Bytes<4 * kLanes>::V;
    constexpr int64_t kSize = 4 * kLanes;
    if (bytes >= kSize) {
        int64_t i = 0;
        for (; i + 4 * kSize <= bytes; i += 4 * kSize) {
#pragma GCC unroll 4
            for (int v = 0; v < 4; ++v) store_bytes(dst + i + v * kSize, load_bytes<V>(src + i + v * kSize));
        }
        for (; i + kSize <= bytes; i += kSize) store_bytes(dst + i, load_bytes<V>(src + i));
        if (i < bytes) store_bytes(dst + bytes - kSize, load_bytes<V>(src + bytes - kSize));
    } else if (bytes >= 32) {
        move_ends<32>(src, dst, bytes);
    } else if (bytes >= 16) {
        move_ends<16>(src, dst, bytes);
    } else if (bytes >= 8) {
        move_ends<8>(src, dst, bytes);
    } else if (bytes >= 4) {
        move_ends<4>(src, dst, bytes);
    } else {
        store_bytes(dst, load_bytes<uint16_t>(src));
    }
}

}  // namespace

void move(const MoveRun& run) {
    char* dst = run.dst;
    for (int64_t q = 0; q < run.outputs; ++q, dst += run.dst_step) move_bytes(run.src + run.offsets[q], dst, run.bytes);
}

}  // namespace dgo::DGO_ISA
