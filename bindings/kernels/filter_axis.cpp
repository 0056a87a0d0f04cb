#include "filter_axis.hpp"

#include <algorithm>
#include <string>

#include "../guard.hpp"

namespace dgo {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

namespace {

[[noreturn]] void refuse(const std::string& why) { fail(ErrorKind::invalid_argument, "minimal filter: " + why); }

void check_axis(const FilterProblem& p, int a) {
    const int64_t kernel = p.kernel[a], stride = p.stride[a], tile = p.tile[a];
    if (kernel < 1 || kernel > INT16_MAX || stride < 1 || p.dilation[a] < 1) {
        refuse("kernel " + std::to_string(kernel) + ", stride " + std::to_string(stride) + " and dilation " +
               std::to_string(p.dilation[a]) + " must be positive, and the kernel at most 32767");
    }
    if (tile == 1) return;
    const int64_t taps = ceil_div(kernel, stride);
    const bool known = (taps == 2 && (tile == 2 || tile == 3)) || (taps == 3 && tile == 2);
    if (p.dilation[a] != 1 || kernel < stride || !known) {
        refuse("no tile of " + std::to_string(tile) + " results for kernel " + std::to_string(kernel) + ", stride " +
               std::to_string(stride) + ", dilation " + std::to_string(p.dilation[a]) +
               "; there are 2 and 3 for two taps per phase and 2 for three, without dilation; 1 is the direct form");
    }
}

// Phase r of the outputs, position q: taps k with dilation * k = r (mod stride) meet src at q + (r - dilation * k) / s.
FilterAxis forward_axis(const FilterProblem& p, int a) {
    FilterAxis axis;
    const int64_t kernel = p.kernel[a], stride = p.stride[a], dilation = p.dilation[a];
    axis.dst_step = stride;
    axis.dst_size = p.out[a];
    axis.tile = p.tile[a];
    for (int64_t r = 0; r < stride; ++r) axis.dst_first.push_back(r - p.pad[a]);
    if (axis.tile > 1) {
        axis.length = ceil_div(kernel, stride);
        axis.src_first = {1 - axis.length};
        for (int64_t r = 0; r < stride; ++r) {
            for (int64_t j = axis.length - 1; j >= 0; --j) {
                const int64_t k = r + stride * j;
                axis.tap.push_back(static_cast<int16_t>(k < kernel ? k : -1));
            }
        }
    } else {
        for (int64_t k = 0; k < kernel; ++k) axis.src_first.push_back(-(dilation * k / stride));
        std::sort(axis.src_first.begin(), axis.src_first.end());
        axis.src_first.erase(std::unique(axis.src_first.begin(), axis.src_first.end()), axis.src_first.end());
        axis.tap.assign(axis.src_first.size() * static_cast<size_t>(stride), -1);
        for (int64_t k = 0; k < kernel; ++k) {
            const int64_t shift = -(dilation * k / stride), r = dilation * k % stride;
            const auto at = std::lower_bound(axis.src_first.begin(), axis.src_first.end(), shift);
            axis.tap[static_cast<size_t>((at - axis.src_first.begin()) * stride + r)] = static_cast<int16_t>(k);
        }
    }
    axis.points = axis.length + axis.tile - 1;
    return axis;
}

// Result i meets tap k at diff_dst position stride * i + dilation * k - pad.
FilterAxis backward_axis(const FilterProblem& p, int a) {
    FilterAxis axis;
    const int64_t kernel = p.kernel[a], stride = p.stride[a];
    axis.src_step = stride;
    axis.dst_size = p.in[a];
    axis.dst_first = {0};
    axis.tile = p.tile[a];
    if (axis.tile > 1) {
        axis.length = ceil_div(kernel, stride);
        for (int64_t r = 0; r < stride; ++r) {
            axis.src_first.push_back(r - p.pad[a]);
            for (int64_t j = 0; j < axis.length; ++j) {
                const int64_t k = r + stride * j;
                axis.tap.push_back(static_cast<int16_t>(k < kernel ? k : -1));
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

ShapeCode shape_code(int64_t points, int64_t length) {
    if (points == 1) return 0;
    return points == 3 ? 1 : length == 2 ? 2 : 3;
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
FilterProblem without_idle_strides(FilterProblem p) {
    for (int a = 0; a < kFilterAxes; ++a) {
        const int64_t reach = p.dilation[a] * (p.kernel[a] - 1) + 1;
        if (p.in[a] == 1 && p.tile[a] == 1) p.stride[a] = std::max(p.stride[a], reach);
    }
    return p;
}

void combine(FilterLayout& layout) {
    const FilterAxis* x = layout.axes;
    for (int a = 0; a < kFilterAxes; ++a) {
        layout.points[a] = x[a].points;
        layout.tile[a] = x[a].tile;
        layout.src_step[a] = x[a].src_step;
        layout.dst_step[a] = x[a].dst_step;
        layout.filter_shape[a] = shape_code(x[a].points, x[a].length);
        layout.output_shape[a] = shape_code(x[a].points, x[a].tile);
        layout.planes *= x[a].points;
        layout.segments *= x[a].segments();
        layout.targets *= x[a].targets();
    }
    const ShapeCode* shape = layout.filter_shape;
    if (shape[0] != 0 && ((shape[1] != 0 && shape[1] != shape[0]) || (shape[2] != 0 && shape[2] != shape[0]))) {
        refuse("where the first of three axes is tiled, all tiled axes must be alike; choose one tile for them");
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

// The first point sees only the first tap and the last point only the last.
bool FilterAxis::zero(int64_t point, int64_t segment, int64_t target) const {
    const int16_t* taps = tap.data() + (segment * targets() + target) * length;
    if (length == 1) return taps[0] < 0;
    if (point == 0) return taps[0] < 0;
    if (point == points - 1) return taps[length - 1] < 0;
    return false;
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

void check_axes(const FilterProblem& problem) {
    for (int a = 0; a < kFilterAxes; ++a) check_axis(problem, a);
}

FilterLayout forward_layout(const FilterProblem& problem) {
    FilterLayout layout;
    check_axes(problem);
    const FilterProblem plain = without_idle_strides(problem);
    for (int a = 0; a < kFilterAxes; ++a) layout.axes[a] = forward_axis(plain, a);
    combine(layout);
    return layout;
}

FilterLayout backward_layout(const FilterProblem& problem) {
    FilterLayout layout;
    check_axes(problem);
    for (int a = 0; a < kFilterAxes; ++a) layout.axes[a] = backward_axis(problem, a);
    combine(layout);
    return layout;
}

}  // namespace dgo
