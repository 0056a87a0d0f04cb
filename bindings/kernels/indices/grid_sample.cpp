// Images read between their pixels.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

// Places from -1 to 1 for each of the images: at the middles of the outermost pixels with align_corners, else at their
// outer edges. What is outside is 0 ("zeros"), the nearest pixel ("border"), or mirrored ("reflection").
struct GridSampleProblem {
    int64_t images, channels, height, width, places;
    bool linear;  // else the nearest pixel
    std::string padding;
    bool align_corners;
};

constexpr const char* kName = "grid_sample";
// places whose pixels and weights are computed once for all channels
constexpr int64_t kBlock = 256;

enum class Padding { zeros, border, reflection };

Padding padding_of(const std::string& name) {
    if (name == "zeros") return Padding::zeros;
    if (name == "border") return Padding::border;
    if (name == "reflection") return Padding::reflection;
    fail(ErrorKind::invalid_argument, "grid_sample: padding must be zeros, border or reflection");
}

// One axis of the images.
struct SampledAxis {
    int64_t size;
    float last, low, high;  // edges, between which is mirrored

    SampledAxis(int64_t size, bool align)
        : size(size), last(static_cast<float>(size - 1)), low(align ? 0.0f : -0.5f), high(last - low) {}

    float at(float place, bool align) const {
        return align ? (place + 1.0f) / 2.0f * last : ((place + 1.0f) * static_cast<float>(size) - 1.0f) / 2.0f;
    }

    float mirrored(float at) const {
        if (at >= low && at <= high) return at;
        const float span = high - low;
        if (span <= 0.0f) return 0.0f;
        const float apart = std::fabs(at - low), turns = std::floor(apart / span);
        const float rest = apart - turns * span;
        return std::fmod(turns, 2.0f) == 0.0f ? low + rest : high - rest;
    }
};

// The two neighbours on an axis, what they weigh, and whether they are zero instead of what lies there.
struct Neighbours {
    int32_t at[2];
    float weight[2];
    bool is_zero[2];
};

// Returns a pixel, or 0 where no bit of the mask is set: 0 times a pixel would be NaN for Inf and NaN.
inline float masked(float pixel, uint32_t mask) {
    uint32_t bits;
    std::memcpy(&bits, &pixel, sizeof(bits));
    bits &= mask;
    std::memcpy(&pixel, &bits, sizeof(bits));
    return pixel;
}

struct Sample : Kernel {
    GridSampleProblem p;
    Padding padding;
    SampledAxis rows, columns;
    int64_t blocks;

    explicit Sample(const GridSampleProblem& problem)
        : p(problem), padding(padding_of(problem.padding)), rows(problem.height, problem.align_corners),
          columns(problem.width, problem.align_corners), blocks(ceil_div(problem.places, kBlock)) {
        name = kName;
        arity = 3;
        for (const int64_t size : {p.images, p.channels, p.places})
            check_number(kName, "sizes", size, 0, kMostElements);
        for (const int64_t size : {p.height, p.width}) check_number(kName, "pixels", size, 1, kMostSize);
        check_number(kName, "pixels", checked_product(kName, {p.height, p.width}), 1, kMostSize);
        checked_product(kName, {p.images, p.channels, p.height, p.width});
        checked_product(kName, {p.images, p.channels, p.places});
        checked_product(kName, {p.images, p.places, 2});
    }

    void run(char* const* operands) const override {
        const float* const src = reinterpret_cast<const float*>(operands[0]);
        const float* const grid = reinterpret_cast<const float*>(operands[1]);
        float* const dst = reinterpret_cast<float*>(operands[2]);
        const double bytes = 4.0 * static_cast<double>(p.images * p.places) * static_cast<double>(4 * p.channels + 8);
        parallel_for(p.images * blocks, bytes, [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t image = task / blocks, first = task % blocks * kBlock;
                block(src + image * p.channels * p.height * p.width, grid + (image * p.places + first) * 2,
                      dst + image * p.channels * p.places + first, std::min(kBlock, p.places - first));
            }
        });
    }

    void block(const float* src, const float* grid, float* dst, int64_t count) const {
        int32_t at[4][kBlock];
        float weight[4][kBlock];
        uint32_t mask[4][kBlock];
        const int taps = p.linear ? 2 : 1;
        for (int64_t i = 0; i < count; ++i) {
            const Neighbours x = neighbours(columns, grid[2 * i]), y = neighbours(rows, grid[2 * i + 1]);
            for (int a = 0; a < taps; ++a) {
                for (int b = 0; b < taps; ++b) {
                    at[2 * a + b][i] = y.at[a] * static_cast<int32_t>(p.width) + x.at[b];
                    weight[2 * a + b][i] = y.weight[a] * x.weight[b];
                    mask[2 * a + b][i] = y.is_zero[a] || x.is_zero[b] ? 0 : ~uint32_t{0};
                }
            }
        }
        const auto tap = [&](int t, int64_t i) { return masked(src[at[t][i]], mask[t][i]) * weight[t][i]; };
        for (int64_t c = 0; c < p.channels; ++c, src += p.height * p.width, dst += p.places) {
            if (p.linear) {
                for (int64_t i = 0; i < count; ++i) dst[i] = tap(0, i) + tap(1, i) + (tap(2, i) + tap(3, i));
            } else {
                for (int64_t i = 0; i < count; ++i) dst[i] = tap(0, i);
            }
        }
    }

    Neighbours neighbours(const SampledAxis& axis, float place) const {
        float at = axis.at(place, p.align_corners);
        if (!p.linear) at = std::nearbyint(at);
        if (padding == Padding::border) at = std::min(std::max(at, 0.0f), axis.last);
        if (padding == Padding::reflection) at = axis.mirrored(at);
        // bounds the place: far outside equals any place outside, and NaN counts as outside
        if (!(at > -2.0f)) at = -2.0f;
        at = std::min(at, axis.last + 2.0f);
        int32_t low = static_cast<int32_t>(at);
        low -= at < static_cast<float>(low) ? 1 : 0;
        const float part = at - static_cast<float>(low);
        Neighbours found{{low, low + 1}, {p.linear ? 1.0f - part : 1.0f, part}, {false, false}};
        for (int i = 0; i < 2; ++i) {
            int32_t& tap = found.at[i];
            const bool outside = tap < 0 || tap >= axis.size;
            if (!outside) continue;
            found.is_zero[i] = padding == Padding::zeros;
            if (padding == Padding::reflection) tap = static_cast<int32_t>(axis.mirrored(static_cast<float>(tap)));
            tap = std::clamp(tap, 0, static_cast<int32_t>(axis.size - 1));
        }
        return found;
    }
};

}  // namespace

const Declaration kGridSample{
    "grid_sample(images, channels, height, width, places, linear=True, padding='zeros', align_corners=False)",
    kernel_of<Sample, GridSampleProblem, int64_t, int64_t, int64_t, int64_t, int64_t, bool, std::string, bool>,
    "src (images, channels, height, width), grid (images, places, 2), dst (images, channels, places)",
    "dst[n, c, i] = src[n, c] at the place grid[n, i] = (x, y), from -1 to 1, as ONNX's GridSample defines it; f32, "
    "all dense."};

}  // namespace dgo
