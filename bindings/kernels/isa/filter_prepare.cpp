// Weights -> their transform, packed in panels of columns for the products.
#include "filter_code.hpp"
#include "filter_transform.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int kMaxTaps = 27;

// The taps of one row of one panel; absent taps and columns beyond the last stay zero.
void gather_taps(const PreparePlan& plan, const char* weights, int64_t phase, int64_t row, int64_t column,
                                  float (*taps)[kPanel]) {
    const int64_t columns = smaller(kPanel, plan.n - column);
    const Axes& first = plan.first_tap[phase];
    const Axes& count = plan.tap_count[phase];
    const int64_t start = column * plan.n_stride + row * plan.k_stride;
    int index = 0;
    for (int64_t i = 0; i < plan.taps[0]; ++i) {
        for (int64_t j = 0; j < plan.taps[1]; ++j) {
            for (int64_t k = 0; k < plan.taps[2]; ++k, ++index) {
                const int64_t at[kFilterAxes] = {plan.flip ? plan.taps[0] - 1 - i : i, plan.flip ? plan.taps[1] - 1 - j : j,
                                                                                  plan.flip ? plan.taps[2] - 1 - k : k};
                if (at[0] >= count[0] || at[1] >= count[1] || at[2] >= count[2]) continue;
                int64_t offset = start;
                for (int a = 0; a < kFilterAxes; ++a) offset += (first[a] + plan.stride[a] * at[a]) * plan.tap_strides[a];
                const auto read = [&](auto tag) {
                    using C = decltype(tag);
                    const auto* from = reinterpret_cast<const typename C::T*>(weights) + offset;
                    if (plan.n_stride == 1 && columns == kPanel) {
                        for (int64_t n = 0; n < kPanel; n += kLanes) {
                            store_bytes(taps[index] + n, load_float<kLanes, C>(from + n));
                        }
                    } else {
                        for (int64_t n = 0; n < columns; ++n) taps[index][n] = C::get(from + n * plan.n_stride);
                    }
                };
                if (plan.cell == Cell::bf16) read(Bf16{});
                else if (plan.cell == Cell::f16) read(F16{});
                else read(F32{});
            }
        }
    }
}

}  // namespace

void run_prepare(const PreparePlan& plan, const char* weights, float* packed) {
    const SpreadFn transform = find<Transform::filter>(plan.shape);
    const int64_t panels = (plan.n + kPanel - 1) / kPanel;
    const int64_t depth = plan.segments * plan.k;
    const int64_t tasks = plan.targets * plan.segments * panels;
    const Spread spread{panels * depth * kPanel, kPanel, 0};
#pragma omp parallel for schedule(static) if (tasks * plan.k * kPanel > 16384)
    for (int64_t task = 0; task < tasks; ++task) {
        const int64_t panel = task % panels;
        const int64_t segment = task / panels % plan.segments;
        const int64_t target = task / panels / plan.segments;
        float taps[kMaxTaps][kPanel] = {};
        const float* from[kMaxTaps];
        for (int i = 0; i < kMaxTaps; ++i) from[i] = taps[i];
        float* to = packed + (target * plan.planes * panels + panel) * depth * kPanel + segment * plan.k * kPanel;
        for (int64_t k = 0; k < plan.k; ++k) {
            gather_taps(plan, weights, target + segment, k, panel * kPanel, taps);
            transform(from, kPanel, to + k * kPanel, spread);
        }
    }
}

}  // namespace dgo::DGO_ISA
