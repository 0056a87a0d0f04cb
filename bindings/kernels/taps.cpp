#include "kernels/taps.hpp"

#include <algorithm>
#include <functional>

namespace dgo {

TapAxis TapAxis::dgrad(int64_t src, int64_t dst, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    TapAxis axis;
    // an output beyond the stride would be the first to share a phase
    axis.phases = std::clamp<int64_t>(dst, 1, stride);
    axis.advance = 1;
    axis.outputs = dst;
    axis.sources = src;
    axis.kernel = kernel;
    axis.taps.resize(static_cast<size_t>(axis.phases));
    for (int64_t k = 0; k < kernel; ++k) {
        // output + pad = source * stride + k * dilation
        const int64_t phase = (k * dilation - pad) - floor_div(k * dilation - pad, stride) * stride;
        if (phase >= axis.phases) continue;
        axis.taps[static_cast<size_t>(phase)].push_back({k, (phase + pad - k * dilation) / stride});
    }
    return axis;
}

TapAxis TapAxis::fprop(int64_t src, int64_t dst, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    TapAxis axis;
    axis.phases = 1;
    axis.advance = stride;
    axis.outputs = src;
    axis.sources = dst;
    axis.kernel = kernel;
    axis.taps.resize(1);
    for (int64_t k = 0; k < kernel; ++k) axis.taps[0].push_back({k, k * dilation - pad});
    return axis;
}

std::vector<Stretch> TapAxis::stretches() const {
    std::vector<Stretch> all;
    for (int64_t phase = 0; phase < phases; ++phase) {
        const std::vector<Tap>& list = taps[static_cast<size_t>(phase)];
        const int64_t end = count(phase);
        const auto first_output = [&](const Tap& tap) { return ceil_div(-tap.base, advance); };
        const auto end_output = [&](const Tap& tap) { return ceil_div(sources - tap.base, advance); };
        std::vector<int64_t> cuts = {0, end};
        for (const Tap& tap : list) {
            for (const int64_t cut : {first_output(tap), end_output(tap)}) {
                if (cut > 0 && cut < end) cuts.push_back(cut);
            }
        }
        std::sort(cuts.begin(), cuts.end());
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        // Bases are monotonous in k, so the taps that exist are neighbours: between those that have ended and those
        // that have not begun.
        const bool falling = list.size() > 1 && list.back().base < list.front().base;
        const auto count_while = [&](auto&& holds) {
            return std::partition_point(list.begin(), list.end(), holds) - list.begin();
        };
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
            Stretch stretch{phase, cuts[i], cuts[i + 1], 0, 0};
            const auto ended = [&](const Tap& tap) { return end_output(tap) <= stretch.begin; };
            const auto begun = [&](const Tap& tap) { return first_output(tap) <= stretch.begin; };
            stretch.first = falling ? count_while(ended) : count_while(std::not_fn(begun));
            stretch.last = falling ? count_while(begun) : count_while(std::not_fn(ended));
            all.push_back(stretch);
        }
    }
    return all;
}

int64_t TapAxis::span() const {
    int64_t widest = 1;
    for (const std::vector<Tap>& list : taps) {
        if (list.empty()) continue;
        const int64_t ends = list.back().base - list.front().base;
        widest = std::max(widest, (ends < 0 ? -ends : ends) + 1);
    }
    return std::min(widest, std::max<int64_t>(sources, 1));
}

}  // namespace dgo
