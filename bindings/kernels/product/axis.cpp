#include "kernels/product/axis.hpp"

#include <algorithm>
#include <string>

#include "kernels/checked.hpp"

namespace dgo {

namespace {

constexpr int64_t kMostPairs = 1 << 24;  // pairs of a segment and a target, a byte each

std::string axis_refusal(const FilterProblem& p, int a) {
    const int64_t kernel = p.kernel[a], stride = p.stride[a], tile = p.tile[a], dilation = p.dilation[a];
    if (kernel < 1 || kernel > INT16_MAX || stride < 1 || dilation < 1) {
        return "kernel " + std::to_string(kernel) + ", stride " + std::to_string(stride) + " and dilation " +
               std::to_string(dilation) + " must be positive, and the kernel at most 32767";
    }
    const bool sizes = p.in[a] >= 1 && p.in[a] <= kMostSize && p.out[a] >= 1 && p.out[a] <= kMostSize;
    const bool pad = p.pad[a] >= -kMostSize && p.pad[a] <= kMostSize;
    if (!sizes || !pad || stride > kMostSize || dilation > kMostSize || dilation * (kernel - 1) > kMostSize ||
        stride * (p.in[a] - 1) > kMostSize) {
        return "axis of " + std::to_string(p.in[a]) + " and " + std::to_string(p.out[a]) + " elements, kernel " +
               std::to_string(kernel) + ", stride " + std::to_string(stride) + ", dilation " +
               std::to_string(dilation) + ", padding " + std::to_string(p.pad[a]) +
               " spans no elements, or more than " + std::to_string(kMostSize);
    }
    if (tile == 1) return "";
    const int64_t taps = ceil_div(kernel, stride);
    const bool known = (taps == 2 && tile >= 2 && tile <= 4) || (taps == 3 && (tile == 2 || tile == 4)) ||
                       (taps > 3 && tile >= 2 && tile <= 4);
    if (dilation == 1 && kernel >= stride && known) return "";
    return "no tile of " + std::to_string(tile) + " results for kernel " + std::to_string(kernel) + ", stride " +
           std::to_string(stride) + ", dilation " + std::to_string(dilation) +
           "; there are 2, 3 and 4 for two taps per phase or more than three, 2 and 4 for three, without dilation; 1 "
           "is the direct form";
}

// The transforms are compiled for these combinations only.
std::string tiles_refusal(const FilterProblem& p) {
    const auto tiled = [&](int a) { return p.tile[a] > 1; };
    const auto unlike = [&](int a, int b) {
        const bool same = p.tile[a] == p.tile[b] && filter_length(p, a) == filter_length(p, b);
        return tiled(a) && tiled(b) && !same;
    };
    const bool large = std::max({p.tile[0], p.tile[1], p.tile[2]}) > kLargeTile;
    if (large && tiled(0))
        return "tiles of more than 3 results are for the last two of three axes, the first one direct";
    if (unlike(0, 1) || unlike(0, 2) || (large && unlike(1, 2))) {
        return "where the first of three axes is tiled or a tile has more than 3 results, all tiled axes must be "
               "alike; choose one tile for them";
    }
    return "";
}

// Returns the phases of dst that have elements, in order.
std::vector<int64_t> phases_of(const FilterProblem& p, int a) {
    std::vector<int64_t> phases;
    const int64_t stride = p.stride[a];
    for (int64_t i = 0; i < std::min(stride, p.out[a]); ++i) {
        const int64_t phase = (i + p.pad[a]) % stride;
        phases.push_back(phase < 0 ? phase + stride : phase);
    }
    std::sort(phases.begin(), phases.end());
    return phases;
}

// Phase r of the outputs, position q: taps k with dilation * k = r (mod stride) meet src at q + (r - dilation * k) / s.
FilterAxis dgrad_axis(const FilterProblem& p, int a) {
    FilterAxis axis;
    const int64_t kernel = p.kernel[a], stride = p.stride[a], dilation = p.dilation[a];
    axis.dst_step = stride;
    axis.dst_size = p.out[a];
    axis.tile = p.tile[a];
    const std::vector<int64_t> phases = phases_of(p, a);
    for (const int64_t r : phases) axis.dst_first.push_back(r - p.pad[a]);
    if (axis.tile > 1) {
        axis.length = filter_length(p, a);
        for (int64_t f = 0; f < filters(p, a); ++f) {
            const int64_t end = (f + 1) * axis.length;
            axis.src_first.push_back(1 - end);
            for (const int64_t r : phases) {
                for (int64_t j = end - 1; j >= end - axis.length; --j) {
                    const int64_t k = r + stride * j;
                    axis.tap.push_back(static_cast<int16_t>(k < kernel ? k : -1));
                }
            }
        }
    } else {
        for (int64_t k = 0; k < kernel; ++k) axis.src_first.push_back(-(dilation * k / stride));
        std::sort(axis.src_first.begin(), axis.src_first.end());
        axis.src_first.erase(std::unique(axis.src_first.begin(), axis.src_first.end()), axis.src_first.end());
        axis.tap.assign(axis.src_first.size() * phases.size(), -1);
        for (int64_t k = 0; k < kernel; ++k) {
            const int64_t shift = -(dilation * k / stride), r = dilation * k % stride;
            const auto target = std::lower_bound(phases.begin(), phases.end(), r);
            if (target == phases.end() || *target != r) continue;
            const auto segment = std::lower_bound(axis.src_first.begin(), axis.src_first.end(), shift);
            const size_t at = static_cast<size_t>(segment - axis.src_first.begin()) * phases.size();
            axis.tap[at + static_cast<size_t>(target - phases.begin())] = static_cast<int16_t>(k);
        }
    }
    axis.points = axis.length + axis.tile - 1;
    return axis;
}

// Result i meets tap k at diff_dst position stride * i + dilation * k - pad.
FilterAxis fprop_axis(const FilterProblem& p, int a) {
    FilterAxis axis;
    const int64_t kernel = p.kernel[a], stride = p.stride[a];
    axis.src_step = stride;
    axis.dst_size = p.in[a];
    axis.dst_first = {0};
    axis.tile = p.tile[a];
    if (axis.tile > 1) {
        axis.length = filter_length(p, a);
        for (int64_t f = 0; f < filters(p, a); ++f) {
            for (int64_t r = 0; r < stride; ++r) {
                const int64_t first = r + stride * f * axis.length;
                axis.src_first.push_back(first - p.pad[a]);
                for (int64_t j = 0; j < axis.length; ++j) {
                    const int64_t k = first + stride * j;
                    axis.tap.push_back(static_cast<int16_t>(k < kernel ? k : -1));
                }
            }
        }
    } else {
        for (int64_t k = 0; k < kernel; ++k) {
            axis.src_first.push_back(p.dilation[a] * k - p.pad[a]);
            axis.tap.push_back(static_cast<int16_t>(k));
        }
    }
    axis.points = axis.length + axis.tile - 1;
    return axis;
}

ShapeIndex shape_index(int64_t points, int64_t length) {
    ShapeIndex index = 0;
    while (points > 1 && (kShapeSizes[index].points != points || kShapeSizes[index].length != length)) ++index;
    return index;
}

template <class Visit>
void for_each(int64_t n0, int64_t n1, int64_t n2, Visit&& visit) {
    for (int64_t i = 0; i < n0; ++i) {
        for (int64_t j = 0; j < n1; ++j) {
            for (int64_t k = 0; k < n2; ++k) visit(i, j, k);
        }
    }
}

// Where src has one position the stride never acts. One as long as the kernel makes each output one tap's product
// instead of a sum over taps that are mostly absent.
int64_t active_stride(const FilterProblem& p, int a) {
    const int64_t reach = p.dilation[a] * (p.kernel[a] - 1) + 1;
    return p.in[a] == 1 && p.tile[a] == 1 ? std::max(p.stride[a], reach) : p.stride[a];
}

FilterProblem without_idle_strides(FilterProblem p) {
    for (int a = 0; a < kFilterAxes; ++a) p.stride[a] = active_stride(p, a);
    return p;
}

void combine(FilterLayout& layout) {
    const FilterAxis* x = layout.axes;
    for (int a = 0; a < kFilterAxes; ++a) {
        layout.points[a] = x[a].points;
        layout.tile[a] = x[a].tile;
        layout.src_step[a] = x[a].src_step;
        layout.dst_step[a] = x[a].dst_step;
        layout.filter_shape[a] = shape_index(x[a].points, x[a].length);
        layout.output_shape[a] = shape_index(x[a].points, x[a].tile);
        layout.planes *= x[a].points;
        layout.segments *= x[a].segments();
        layout.targets *= x[a].targets();
    }
    for_each(x[0].segments(), x[1].segments(), x[2].segments(), [&](int64_t i, int64_t j, int64_t k) {
        layout.src_first.push_back(Axes{{x[0].src_first[i], x[1].src_first[j], x[2].src_first[k]}});
    });
    for_each(x[0].targets(), x[1].targets(), x[2].targets(), [&](int64_t i, int64_t j, int64_t k) {
        layout.dst_first.push_back(Axes{{x[0].dst_first[i], x[1].dst_first[j], x[2].dst_first[k]}});
    });
    bool any = false;
    for_each(x[0].points, x[1].points, x[2].points, [&](int64_t p0, int64_t p1, int64_t p2) {
        for_each(x[0].segments(), x[1].segments(), x[2].segments(), [&](int64_t s0, int64_t s1, int64_t s2) {
            for_each(x[0].targets(), x[1].targets(), x[2].targets(), [&](int64_t t0, int64_t t1, int64_t t2) {
                const bool zero = x[0].zero(p0, s0, t0) || x[1].zero(p1, s1, t1) || x[2].zero(p2, s2, t2);
                layout.zero.push_back(zero);
                any = any || zero;
            });
        });
    });
    if (!any) layout.zero.clear();
}

}  // namespace

int64_t filter_length(const FilterProblem& p, int a) {
    const int64_t taps = ceil_div(p.kernel[a], p.stride[a]);
    return taps <= 3 ? taps : p.tile[a] == 3 ? 2 : 3;
}

int64_t filters(const FilterProblem& p, int a) {
    return ceil_div(ceil_div(p.kernel[a], p.stride[a]), filter_length(p, a));
}

// The first point sees only the first tap and the last point only the last; without taps there is nothing to see.
bool FilterAxis::zero(int64_t point, int64_t segment, int64_t target) const {
    const int16_t* taps = tap.data() + (segment * targets() + target) * length;
    if (length == 1) return taps[0] < 0;
    if (point == 0) return taps[0] < 0;
    if (point == points - 1) return taps[length - 1] < 0;
    return std::all_of(taps, taps + length, [](int16_t one) { return one < 0; });
}

std::vector<AxisGroup> axis_groups(const FilterAxis& axis, bool apart) {
    std::vector<AxisGroup> groups;
    std::vector<int64_t> ends;
    for (int64_t t = 0; t < axis.targets(); ++t) {
        const int64_t first = ceil_div(-axis.dst_first[t], axis.dst_step);
        const int64_t end = floor_div(axis.dst_size - 1 - axis.dst_first[t], axis.dst_step) + 1;
        if (end <= first) continue;
        size_t g = 0;
        while (g < groups.size() && apart && groups[g].base != first) ++g;
        if (g == groups.size()) {
            groups.push_back({{}, first, 0});
            ends.push_back(end);
        }
        groups[g].targets.push_back(t);
        groups[g].base = std::min(groups[g].base, first);
        ends[g] = std::max(ends[g], end);
    }
    for (size_t g = 0; g < groups.size(); ++g) groups[g].tiles = ceil_div(ends[g] - groups[g].base, axis.tile);
    return groups;
}

TapTable FilterLayout::taps() const {
    TapTable table{};
    for (int a = 0; a < kFilterAxes; ++a) {
        table.tap[a] = axes[a].tap.data();
        table.segments[a] = axes[a].segments();
        table.targets[a] = axes[a].targets();
        table.length[a] = axes[a].length;
    }
    return table;
}

std::string axes_refusal(const FilterProblem& problem) {
    const FilterProblem& p = problem;
    double src = 1, dst = 1, weights = 1, pairs = 1;  // pairs of a segment and a target
    for (const int64_t size : {p.batch, p.groups, p.in_channels, p.out_channels}) {
        if (size < 1 || size > kMostSize) {
            return "batch " + std::to_string(p.batch) + ", " + std::to_string(p.groups) + " groups of " +
                   std::to_string(p.in_channels) + " and " + std::to_string(p.out_channels) +
                   " channels must be from 1 to " + std::to_string(kMostSize);
        }
    }
    for (int a = 0; a < kFilterAxes; ++a) {
        std::string why = axis_refusal(p, a);
        if (!why.empty()) return why;
        src *= static_cast<double>(p.in[a]);
        dst *= static_cast<double>(p.out[a]);
        weights *= static_cast<double>(p.kernel[a]);
        const int64_t reach = p.dilation[a] * (p.kernel[a] - 1);
        const int64_t stride = active_stride(p, a);
        const int64_t segments = p.tile[a] > 1 ? filters(p, a) : std::min(p.kernel[a], reach / stride + 1);
        pairs *= static_cast<double>(segments) * static_cast<double>(std::min(stride, p.out[a]));
    }
    std::string why = tiles_refusal(p);
    if (!why.empty()) return why;
    const auto channels = static_cast<double>(p.groups) * static_cast<double>(p.batch);
    src *= channels * static_cast<double>(p.in_channels);
    dst *= channels * static_cast<double>(p.out_channels);
    const double all_weights = weights * static_cast<double>(p.groups) * static_cast<double>(p.in_channels) *
                               static_cast<double>(p.out_channels);
    if (std::max({src, dst, all_weights}) > static_cast<double>(kMostElements)) {
        return "the sizes multiply to more than " + std::to_string(kMostElements) + " elements";
    }
    if (std::max(pairs, weights) > kMostPairs) {
        return "kernel, stride and dilation make more than " + std::to_string(kMostPairs) + " pairs of taps and phases";
    }
    return "";
}

void check_axes(const FilterProblem& problem) {
    const std::string why = axes_refusal(problem);
    if (!why.empty()) fail(ErrorKind::invalid_argument, "filter product: " + why);
}

FittedEpilogue fitted_epilogue(const Epilogue& epilogue, int64_t batch, int64_t channels, const Axes& size,
                               const FilterTensor& dst) {
    std::vector<int64_t> sizes{batch}, strides{dst.batch_stride};
    sizes.insert(sizes.end(), size.axis, size.axis + kFilterAxes);
    strides.insert(strides.end(), dst.strides.axis, dst.strides.axis + kFilterAxes);
    return FittedEpilogue(epilogue, channels, sizes, strides);
}

FilterLayout dgrad_layout(const FilterProblem& problem) {
    FilterLayout layout;
    check_axes(problem);
    const FilterProblem plain = without_idle_strides(problem);
    for (int a = 0; a < kFilterAxes; ++a) layout.axes[a] = dgrad_axis(plain, a);
    combine(layout);
    return layout;
}

FilterLayout fprop_layout(const FilterProblem& problem) {
    FilterLayout layout;
    check_axes(problem);
    for (int a = 0; a < kFilterAxes; ++a) layout.axes[a] = fprop_axis(problem, a);
    combine(layout);
    return layout;
}

}  // namespace dgo
