// Weighted sums of rows and of neighbours, and pixels that are repeated.
#include "kernels/isa/window/code.hpp"
#include "kernels/isa/window/lane.hpp"

namespace dgo::DGO_ISA {
namespace {

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
            for (int v = 0; v < V; ++v) sum[v] += load_lanes<In, L, K>(src + v * L) * weight;
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
    if (run.from == ElementType::f32) return by_width(run.channels, MixPixels<F32>{run});
    if (run.from == ElementType::bf16) return by_width(run.channels, MixPixels<Bf16>{run});
    by_width(run.channels, MixPixels<F16>{run});
}

namespace {

template <class In, class Out, bool Two>
struct LinearPixel {
    const typename In::T *left, *right;
    float part;
    typename Out::T* dst;

    template <int L, int V, int K>
    DGO_INLINE void at(int64_t c) const {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            Floats<L> sum = load_lanes<In, L, K>(left + c + v * L);
            if (Two) sum = sum * (1.0f - part) + load_lanes<In, L, K>(right + c + v * L) * part;
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
                pieces<L, K>(run.channels, LinearPixel<In, Out, true>{src + tap.left, src + tap.right, tap.part, dst});
            } else {
                pieces<L, K>(run.channels, LinearPixel<In, Out, false>{src + tap.left, nullptr, 0.0f, dst});
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
    run.from == ElementType::bf16 ? linear_elements<Bf16, Bf16>(run) : linear_elements<F16, F16>(run);
}

// ---- pixels as they are -------------------------------------------------------------------------------------------

namespace {

template <int Size>
struct Bytes {
    typedef uint8_t V __attribute__((vector_size(Size)));
};

// From Size to 2 * Size bytes.
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
