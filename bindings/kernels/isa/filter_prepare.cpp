// Weights -> their transform, packed in panels of columns for the products.
#include "filter_code.hpp"
#include "filter_transform.hpp"

namespace dgo::DGO_ISA {
namespace {

// `count` consecutive columns of a panel: channels of one target.
struct Piece {
    int64_t target, channel, column, count;
};

template <class C>
void read_columns(const typename C::T* from, int64_t stride, int64_t count, float* to) {
    if (stride == 1 && count == kPanel) {
        for (int64_t n = 0; n < kPanel; n += kLanes) store_bytes(to + n, load_float<C, kLanes>(from + n));
    } else {
        for (int64_t n = 0; n < count; ++n) to[n] = C::get(from + n * stride);
    }
}

// All rows of one segment of one panel.
void pack_segment(const PreparePlan& plan, const char* weights, int64_t segment, const Piece* pieces,
                  int64_t piece_count, float* to, const Spread& spread) {
    const SpreadFn transform = find<Transform::filter>(plan.shape);
    const int64_t length = plan.taps.length[0] * plan.taps.length[1] * plan.taps.length[2];
    alignas(64) float taps[kMaxLength][kPanel] = {};
    const float* from[kMaxLength];
    int64_t offset[kPanel][kMaxLength];
    for (int i = 0; i < kMaxLength; ++i) from[i] = taps[i];
    for (int64_t i = 0; i < piece_count; ++i) tap_offsets(plan.taps, plan.tap_strides, segment, pieces[i].target, offset[i]);
    for (int64_t k = 0; k < plan.k; ++k) {
        for (int64_t i = 0; i < piece_count; ++i) {
            const Piece& piece = pieces[i];
            const int64_t start = piece.channel * plan.n_stride + k * plan.k_stride;
            for (int64_t j = 0; j < length; ++j) {
                if (offset[i][j] < 0) continue;
                const char* at = weights + (start + offset[i][j]) * plan.item;
                float* out = taps[j] + piece.column;
                if (plan.cell == Cell::bf16) {
                    read_columns<Bf16>(reinterpret_cast<const Bf16::T*>(at), plan.n_stride, piece.count, out);
                } else if (plan.cell == Cell::f16) {
                    read_columns<F16>(reinterpret_cast<const F16::T*>(at), plan.n_stride, piece.count, out);
                } else {
                    read_columns<F32>(reinterpret_cast<const F32::T*>(at), plan.n_stride, piece.count, out);
                }
            }
        }
        transform(from, kPanel, to + k * kPanel, spread);
    }
}

}  // namespace

void run_prepare(const PreparePlan& plan, const char* weights, float* packed) {
    const int64_t segments = plan.taps.segments[0] * plan.taps.segments[1] * plan.taps.segments[2];
    const int64_t depth = segments * plan.k;
    for (int64_t g = 0; g < plan.channel_groups * plan.group_count; ++g) {
        const TileGroup& group = plan.groups[g % plan.group_count];
        const int64_t columns = group.target_count * plan.n;
        const int64_t panels = (columns + kPanel - 1) / kPanel;
        const Spread spread{panels * depth * kPanel, kPanel, 0};
        const char* from = weights + g / plan.group_count * plan.group_stride * plan.item;
        float* to = packed + g / plan.group_count * plan.packed + group.packed;
#pragma omp parallel for schedule(static) if (panels * depth * kPanel > 16384)
        for (int64_t task = 0; task < panels * segments; ++task) {
            const int64_t panel = task / segments, segment = task % segments;
            Piece pieces[kPanel];
            int64_t count = 0;
            const int64_t end = smaller((panel + 1) * kPanel, columns);
            for (int64_t c = panel * kPanel; c < end;) {
                const int64_t channel = c % plan.n;
                const int64_t width = smaller(plan.n - channel, end - c);
                pieces[count++] = {group.targets[c / plan.n], channel, c - panel * kPanel, width};
                c += width;
            }
            pack_segment(plan, from, segment, pieces, count, to + (panel * depth + segment * plan.k) * kPanel, spread);
        }
    }
}

}  // namespace dgo::DGO_ISA
