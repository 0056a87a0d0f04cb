// Resampling of channels that lie side by side: the rows of a place are mixed first, then its neighbours in that row.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/window/axis.hpp"
#include "kernels/window/integers.hpp"

namespace dgo {
namespace {

// Each result from the nearest element, or linearly from those around it: at (index + 0.5) * size / results - 0.5, or
// with align_corners at index * (size - 1) / (results - 1). Strides count elements in the order n, c, spatial. `scales`: of
// integers.
struct ResampleProblem {
    int64_t n, c;
    Dims src_spatial, dst_spatial;
    int src_dtype;
    Dims src_strides;
    int dst_dtype;
    Dims dst_strides;
    bool linear, align_corners;
    IntegerScales scales;
};

constexpr const char* kName = "resample";
constexpr int64_t kBeyond = 32;  // floats that may be read past a row that is rounded

// The sources of the results of one axis: at `left` and, where `part` is not 0, one element further as well.
struct Places {
    std::vector<int64_t> left;
    std::vector<float> part;

    // Computes by integers: floats would round the places of long axes.
    Places(int64_t size, int64_t results, bool linear, bool align_corners) {
        const int64_t by = std::max<int64_t>(align_corners ? results - 1 : 2 * results, 1);
        for (int64_t i = 0; i < results; ++i) {
            // the place, times `by`: below 2^63, as sizes are below 2^31
            int64_t place = align_corners ? i * (size - 1) : (2 * i + 1) * size - results;
            place = std::clamp<int64_t>(place, 0, (size - 1) * by);
            if (!linear) place += by / 2;
            left.push_back(place / by);
            part.push_back(linear ? static_cast<float>(static_cast<double>(place % by) / static_cast<double>(by)) : 0);
        }
    }
};

struct ResampleKernel : Kernel {
    int64_t n, c;
    WindowTypes types;
    bool mixes;  // floats; else elements are moved as they are
    WindowSide src, dst;
    int64_t size[kWindowAxes], out[kWindowAxes];
    std::vector<Places> axes;
    WindowPieces cut;
    double work;
    std::vector<LinearTap> taps;  // the sources of each result of a row, in elements
    std::vector<int64_t> offsets;  // the sources of each result of a row, in bytes
    ScratchLayout each;
    ScratchArray<float> buffer_part, row_part;
    ScratchArray<LinearTap> tap_part;

    explicit ResampleKernel(const ResampleProblem& p)
        : n(p.n), c(p.c), types(kName, p.src_dtype, p.dst_dtype, p.scales), mixes(p.linear || types.whole),
          src(window_side(kName, "src", p.n, p.c, p.src_spatial, p.src_strides)),
          dst(window_side(kName, "dst", p.n, p.c, p.dst_spatial, p.dst_strides)),
          cut(c, p.dst_spatial.back(), mixes ? ratio(p) + (types.whole ? 1 : 0) : 0.0, mixes ? 2 : 0) {
        name = kName;
        arity = 2;
        if (p.src_spatial.size() != p.dst_spatial.size()) {
            fail(ErrorKind::invalid_argument, "resample: src and dst have different numbers of spatial axes");
        }
        three_axes(p.src_spatial, int64_t{1}, size);
        three_axes(p.dst_spatial, int64_t{1}, out);
        for (int i = 0; i < kWindowAxes; ++i) {
            if (size[i] == 0 && out[i] > 0) fail(ErrorKind::shape, "resample: src has an axis without elements");
            axes.emplace_back(size[i], out[i], p.linear, p.align_corners);
        }
        for (int64_t i = 0; i < out[2]; ++i) {
            const int64_t left = axes[2].left[i] * src.axis[2];
            taps.push_back({left, left + src.axis[2], axes[2].part[i]});
            offsets.push_back(left * types.from_item);
        }
        const int64_t results = checked_product(kName, {n, c, out[0], out[1], out[2]});
        work = static_cast<double>(results) * static_cast<double>(types.from_item) * (mixes ? 4 : 2);
        if (!mixes) return;
        int64_t columns = 0;
        for (int64_t o = 0; o < out[2]; o += cut.piece) columns = std::max(columns, end_of(o) - axes[2].left[o]);
        buffer_part = each.add<float>(checked_product(kName, {columns, cut.strip}));
        tap_part = each.add<LinearTap>(cut.piece);
        if (rounds()) row_part = each.add<float>(checked_product(kName, {cut.piece, cut.strip}) + kBeyond);
    }

    bool rounds() const { return types.whole && types.to != ElementType::f32; }

    static double ratio(const ResampleProblem& p) {
        return static_cast<double>(p.src_spatial.back()) /
               static_cast<double>(std::max<int64_t>(p.dst_spatial.back(), 1));
    }
    // Returns the end of the columns that the piece of results from `start` on reads.
    int64_t end_of(int64_t start) const {
        const int64_t last = std::min(start + cut.piece, out[2]) - 1;
        return std::min(axes[2].left[last] + 2, size[2]);
    }

    void run(char* const* operands) const override {
        for_each_piece(n, out, c, cut, work, each,
                       [&](const WindowTask& task, char* memory) { run_task(operands[0], operands[1], task, memory); });
    }

    void run_task(const char* from, char* to, const WindowTask& task, char* memory) const {
        const auto [image, plane, line, start, results, channel, channels] = task;
        const int64_t item = types.from_item;
        from += (image * src.batch + channel) * item;
        to += (image * dst.batch + plane * dst.axis[0] + line * dst.axis[1] + start * dst.axis[2] + channel) *
              types.to_item;
        const char* rows[4];
        float weights[4];
        int64_t count = 0;
        for (int64_t d = 0; d <= (axes[0].part[plane] != 0.0f ? 1 : 0); ++d) {
            const float across = d != 0 ? axes[0].part[plane] : 1.0f - axes[0].part[plane];
            for (int64_t h = 0; h <= (axes[1].part[line] != 0.0f ? 1 : 0); ++h) {
                rows[count] =
                    from + ((axes[0].left[plane] + d) * src.axis[0] + (axes[1].left[line] + h) * src.axis[1]) * item;
                weights[count++] = across * (h != 0 ? axes[1].part[line] : 1.0f - axes[1].part[line]);
            }
        }
        if (!mixes) {
            vector_code().window.move(
                {channels * item, results, rows[0], offsets.data() + start, to, dst.axis[2] * item});
            return;
        }
        const auto zero = static_cast<float>(types.zero), scale = static_cast<float>(types.scale);
        LinearRun last{types.from,          types.to, channels,    results, rows[0],
                       taps.data() + start, to,       dst.axis[2], zero,    scale};
        float* const made = rounds() ? row_part.in(memory) : nullptr;
        if (made) {
            last.to = ElementType::f32;
            last.dst = reinterpret_cast<char*>(made);
            last.dst_step = channels;
        }
        if (count > 1) {
            const int64_t low = axes[2].left[start], columns = end_of(start) - low;
            for (int64_t i = 0; i < count; ++i) rows[i] += low * src.axis[2] * item;
            float* const buffer = buffer_part.in(memory);
            MixRun mix{types.from, channels, columns, rows, weights, count, src.axis[2], buffer, channels, zero, scale};
            if (src.axis[2] == channels) {
                mix.channels *= columns;
                mix.outputs = 1;
            }
            vector_code().window.mix(mix);
            LinearTap* const near = tap_part.in(memory);
            for (int64_t i = 0; i < results; ++i) {
                const int64_t left = (axes[2].left[start + i] - low) * channels;
                near[i] = {left, left + channels, axes[2].part[start + i]};
            }
            last.from = ElementType::f32;
            last.src = reinterpret_cast<const char*>(buffer);
            last.taps = near;
        }
        vector_code().window.linear(last);
        if (!made) return;
        const auto by = quotient_by(static_cast<float>(types.to_scale), static_cast<int>(types.to_zero));
        const bool dense = dst.axis[2] == channels;
        vector_code().window.round({types.to, dense ? channels * results : channels, dense ? 1 : results, made,
                                    channels, to, dst.axis[2], by});
    }
};

}  // namespace

const Declaration kResample{
    "resample(n, c, src_spatial, dst_spatial, src_dtype, src_strides, dst_dtype, dst_strides, linear, align_corners, "
    "scales=None)",
    kernel_of<ResampleKernel, ResampleProblem, int64_t, int64_t, Dims, Dims, int, Dims, int, Dims, bool, bool,
              IntegerScales>,
    "src (n, c, src_spatial), dst (n, c, dst_spatial)",
    "dst = src at each result's place: the nearest element, or linear between its neighbours. Strides: n, c, spatial; "
    "channels are contiguous. Results have src's type. With scales (scale and zero point of src, of dst) src is of "
    "8-bit integers, dst too or f32: their values are mixed in f32."};

}  // namespace dgo
