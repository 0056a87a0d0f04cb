// Pooling of channels that lie side by side.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/window/axis.hpp"
#include "kernels/window/integers.hpp"

namespace dgo {
namespace {

// Windows over 1 to 3 spatial axes: the largest element of each, or the mean. Strides count elements in the order n, c,
// spatial; channels lie side by side. An end of padding may be negative; an average counts only what the explicit
// padding reaches, or with exclude_pad the source, and has no dilations. `scales`: of integers.
struct PoolProblem {
    int64_t n, c;
    Dims src_spatial, dst_spatial, kernel, strides, pads_begin, pads_end, dilations;
    int src_dtype;
    Dims src_strides;
    int dst_dtype;
    Dims dst_strides;
    bool average, exclude_pad;
    IntegerScales scales;
};

constexpr const char* kName = "pool";
// The most windows, and terms of a sum, for which factors in f32 are looked up.
constexpr size_t kMostWindows = 64;

// The windows on one axis: for each position the first tap within the source, the number of taps, and the divisor of an
// average.
struct PoolAxis {
    int64_t kernel, stride, begin, dilation;
    std::vector<int64_t> first, taps, counts;
    int64_t most = 0;               // taps
    int64_t whole[2] = {0, 0};      // positions from, to with all taps

    PoolAxis(int64_t size, int64_t positions, int64_t k, int64_t s, int64_t b, int64_t e, int64_t d, bool exclude_pad)
        : kernel(k), stride(s), begin(b), dilation(d) {
        const int64_t reach = (k - 1) * d + 1;
        const int64_t least = exclude_pad ? 0 : -b, end = exclude_pad ? size : size + std::max<int64_t>(e, 0);
        for (int64_t o = 0; o < positions; ++o) {
            const int64_t low = o * s - b;
            const int64_t from = low < 0 ? (-low + d - 1) / d : 0;
            const int64_t to = low < size ? std::min(k, (size - 1 - low) / d + 1) : 0;
            const int64_t found = std::max<int64_t>(to - from, 0);
            first.push_back(found > 0 ? low + from * d : 0);
            taps.push_back(found);
            counts.push_back(std::max<int64_t>(std::min(low + reach, end) - std::max(low, least), 0));
            most = std::max(most, found);
            if (found == k) {
                if (whole[0] == whole[1]) whole[0] = o;
                whole[1] = o + 1;
            }
        }
    }
};

PoolAxis axis_of(const PoolProblem& p, size_t i) {
    const std::string what = kName;
    check_number(what, "kernel", p.kernel[i], 1, kMostSize);
    check_number(what, "strides", p.strides[i], 1, kMostSize);
    check_number(what, "dilations", p.dilations[i], 1, kMostSize);
    check_number(what, "pads_begin", p.pads_begin[i], 0, kMostSize);
    check_number(what, "pads_end", p.pads_end[i], -kMostSize, kMostSize);
    return {p.src_spatial[i], p.dst_spatial[i], p.kernel[i],    p.strides[i],
            p.pads_begin[i],  p.pads_end[i],    p.dilations[i], p.exclude_pad};
}

std::vector<PoolAxis> axes_of(const PoolProblem& p) {
    const size_t rank = p.src_spatial.size();
    for (const Dims* list : {&p.dst_spatial, &p.kernel, &p.strides, &p.pads_begin, &p.pads_end, &p.dilations}) {
        if (list->size() != rank) {
            fail(ErrorKind::invalid_argument, std::string(kName) + ": " + std::to_string(list->size()) +
                                                  " values for " + std::to_string(rank) + " spatial axes");
        }
    }
    std::vector<PoolAxis> axes(kWindowAxes - rank, PoolAxis(1, 1, 1, 1, 0, 0, 1, true));
    for (size_t i = 0; i < rank; ++i) axes.push_back(axis_of(p, i));
    return axes;
}

// Neighbouring results of a piece whose windows have equally many taps on the last axis.
struct PoolResults {
    int64_t position, count;        // the first result; how many results
    int64_t column, taps, divisor;  // the first window: its first column, taps, and divisor of a mean
};

// A piece of a row of results, and the columns [low, high) of the source that it reads.
struct PoolPiece {
    int64_t low = INT64_MAX, high = 0;
    std::vector<PoolResults> results;
};

struct PoolKernel : Kernel {
    int64_t n, c;
    WindowTypes types;
    Fold fold;
    WindowSide src, dst;
    std::vector<PoolAxis> axes;
    std::map<std::pair<int64_t, int64_t>, Rescale> rescales;  // by (divisor, number of terms) of a sum
    int64_t out[kWindowAxes];
    bool two_passes;  // the rows of windows are folded to one first
    WindowPieces cut;
    std::vector<PoolPiece> pieces;
    FoldRun base{};
    double work;
    ScratchLayout each;
    ScratchArray<const char*> row_part;
    ScratchArray<float> buffer_part;

    explicit PoolKernel(const PoolProblem& p)
        : n(p.n), c(p.c), types(kName, p.src_dtype, p.dst_dtype, p.scales), fold(p.average ? Fold::sum : Fold::max),
          src(window_side(kName, "src", p.n, p.c, p.src_spatial, p.src_strides)),
          dst(window_side(kName, "dst", p.n, p.c, p.dst_spatial, p.dst_strides)), axes(axes_of(p)),
          two_passes(pays(axes, compares_bytes())),
          cut(c, p.dst_spatial.back(), two_passes ? axes[2].stride : 0, reach(axes[2])) {
        name = kName;
        arity = 2;
        three_axes(p.dst_spatial, int64_t{1}, out);
        const int64_t results = checked_product(kName, {n, c, out[0], out[1], out[2]});
        work = static_cast<double>(results) * static_cast<double>(types.from_item) *
               (1 + static_cast<double>(axes[0].most) * static_cast<double>(axes[1].most) *
                        static_cast<double>(std::min(axes[2].most, axes[2].stride)));
        types.check_terms(kName, checked_product(kName, {axes[0].most, axes[1].most, axes[2].most}));
        if (types.whole) list_rescales();
        for (int64_t i = 0; i < cut.pieces; ++i) {
            pieces.push_back(piece_of(i * cut.piece, std::min((i + 1) * cut.piece, out[2])));
        }
        base.fold = fold;
        base.from = types.from;
        base.to = types.to;
        base.dst_step = dst.axis[2];
        row_part = each.add<const char*>(checked_product(kName, {axes[0].most, axes[1].most}));
        if (two_passes) buffer_part = each.add<float>(checked_product(kName, {columns(cut.piece), cut.strip}));
    }

    // Lists the rescales of all windows, where this takes little time.
    void list_rescales() {
        if (fold == Fold::max) {
            rescales[{1, 1}] = types.in_f32(1, 1);
            return;
        }
        std::set<std::pair<int64_t, int64_t>> windows = {{1, 1}};
        for (const PoolAxis& axis : axes) {
            std::set<std::pair<int64_t, int64_t>> more;
            for (size_t o = 0; o < axis.taps.size() && windows.size() <= kMostWindows; ++o) {
                for (const auto& [count, taps] : windows) more.insert({count * axis.counts[o], taps * axis.taps[o]});
            }
            windows = std::move(more);
        }
        for (const auto& [count, taps] : windows) {
            if (windows.size() <= kMostWindows && taps > 0 && taps <= kMostWindows) {
                rescales[{count, taps}] = types.in_f32(static_cast<double>(count), taps);
            }
        }
    }

    PoolPiece piece_of(int64_t start, int64_t stop) const {
        const PoolAxis& pixels = axes[2];
        PoolPiece piece;
        for (int64_t o = start; o < stop; ++o) {
            if (pixels.taps[o] == 0) continue;
            piece.low = std::min(piece.low, pixels.first[o]);
            // dilated taps of an earlier position may reach further
            piece.high = std::max(piece.high, pixels.first[o] + (pixels.taps[o] - 1) * pixels.dilation + 1);
        }
        piece.low = std::min(piece.low, piece.high);
        for (int64_t o = start; o < stop; o += piece.results.back().count) {
            const bool whole = o >= pixels.whole[0] && o < pixels.whole[1];
            const int64_t count = whole ? std::min(stop, pixels.whole[1]) - o : 1;
            piece.results.push_back({o, count, pixels.first[o], pixels.taps[o], pixels.counts[o]});
        }
        return piece;
    }

    static int64_t reach(const PoolAxis& axis) { return (axis.most - 1) * axis.dilation + 1; }
    // Returns the columns of the source that `positions` positions read, at most.
    int64_t columns(int64_t positions) const { return (positions - 1) * axes[2].stride + reach(axes[2]); }

    bool compares_bytes() const { return types.whole && fold == Fold::max; }

    // Whether it takes less time to fold the rows of windows first: fewer loads, by far where they are of bytes.
    static bool pays(const std::vector<PoolAxis>& axes, bool bytes) {
        const double rows = static_cast<double>(axes[0].most) * static_cast<double>(axes[1].most);
        const double taps = static_cast<double>(axes[2].most), step = static_cast<double>(axes[2].stride);
        if (rows < 2 || reach(axes[2]) > kRowFloats) return false;
        return rows * taps > (bytes ? 1.5 : 1) * ((rows + 1) * step + taps);
    }

    void run(char* const* operands) const override {
        for_each_piece(n, out, c, cut, work, each,
                       [&](const WindowTask& task, char* memory) { run_task(operands[0], operands[1], task, memory); });
    }

    void run_task(const char* from, char* to, const WindowTask& task, char* memory) const {
        const auto [image, plane, line, start, results, channel, channels] = task;
        const PoolAxis &planes = axes[0], &lines = axes[1], &pixels = axes[2];
        const PoolPiece& piece = pieces[static_cast<size_t>(start / cut.piece)];
        const char** const rows = row_part.in(memory);
        FoldRun run = base;
        const int64_t item = types.from_item;
        run.channels = channels;
        run.rows = rows;
        from += (image * src.batch + piece.low * src.axis[2] + channel) * item;
        to += (image * dst.batch + plane * dst.axis[0] + line * dst.axis[1] + channel) * types.to_item;
        for (int64_t d = 0; d < planes.taps[plane]; ++d) {
            for (int64_t h = 0; h < lines.taps[line]; ++h) {
                rows[run.row_count++] = from + ((planes.first[plane] + d * planes.dilation) * src.axis[0] +
                                                (lines.first[line] + h * lines.dilation) * src.axis[1]) *
                                                   item;
            }
        }
        int64_t pitch = src.axis[2], bytes = item;
        if (two_passes && run.row_count > 0 && piece.high > piece.low) {
            fold_rows(run, piece, rows, buffer_part.in(memory));
            pitch = channels;
            if (!compares_bytes()) bytes = sizeof(float);
        }
        run.tap_step = pixels.dilation * pitch;
        run.advance = pixels.stride * pitch;
        const int64_t beside = planes.taps[plane] * lines.taps[line];
        const double rest = static_cast<double>(planes.counts[plane]) * static_cast<double>(lines.counts[line]);
        for (const PoolResults& of : piece.results) {
            run.outputs = of.count;
            run.taps = of.taps;
            const double count = std::max(rest * static_cast<double>(of.divisor), 1.0);
            run.divisor = static_cast<float>(count);
            if (types.whole) run.rescale = rescale_of(count, beside * run.taps);
            run.dst = to + of.position * dst.axis[2] * types.to_item;
            run_at(run, rows, (of.column - piece.low) * pitch * bytes);
        }
    }

    // Folds the rows of a piece's windows to one row in `buffer`, which `run` reads from then on.
    void fold_rows(FoldRun& run, const PoolPiece& piece, const char** rows, float* buffer) const {
        FoldRun first = run;
        first.to = compares_bytes() ? types.from : types.sums();
        first.rescale = {1, 1, 0, 0, 1};
        first.taps = 1;
        first.outputs = piece.high - piece.low;
        first.advance = src.axis[2];
        first.dst = reinterpret_cast<char*>(buffer);
        first.dst_step = run.channels;
        first.divisor = 1.0f;
        if (first.advance == run.channels) {
            first.channels *= first.outputs;
            first.outputs = 1;
        }
        vector_code().window.fold(first);
        rows[0] = first.dst;
        run.row_count = 1;
        run.from = first.to;
    }

    Rescale rescale_of(double count, int64_t taps) const {
        if (fold == Fold::max && taps > 0) return rescales.begin()->second;
        const auto found = rescales.find({static_cast<int64_t>(count), taps});
        if (found != rescales.end()) return found->second;
        Rescale by = types.rescale(count, taps);
        // the largest of no elements is -Inf
        if (fold == Fold::max) by.scale = std::numeric_limits<double>::infinity();
        return by;
    }

    // Folds from `offset` bytes after the begin of each row on.
    void run_at(FoldRun run, const char** rows, int64_t offset) const {
        if (run.taps == 0) run.row_count = 0;
        for (int64_t i = 0; i < run.row_count; ++i) rows[i] += offset;
        vector_code().window.fold(run);
        for (int64_t i = 0; i < run.row_count; ++i) rows[i] -= offset;
    }
};

// The gradient of the largest elements of windows. Each thread has images and strips of channels of its own, as windows
// overlap.
struct MaxPoolGradientKernel : Kernel {
    int64_t n, c, item;
    ElementType type;
    WindowSide src, diff, dst;
    std::vector<PoolAxis> axes;
    int64_t size[kWindowAxes], out[kWindowAxes], strip, strips;
    double work;
    ScratchLayout each;
    ScratchArray<int64_t> tap_part;

    MaxPoolGradientKernel(const PoolProblem& p, const Dims& to_strides)
        : n(p.n), c(p.c), item(item_size(p.src_dtype)), type(float_type(p.src_dtype)),
          src(window_side(kName, "src", p.n, p.c, p.src_spatial, p.src_strides)),
          diff(window_side(kName, "diff_dst", p.n, p.c, p.dst_spatial, p.dst_strides)),
          dst(window_side(kName, "diff_src", p.n, p.c, p.src_spatial, to_strides)), axes(axes_of(p)),
          strip(std::min(c, kLeastStrip)), strips(ceil_div(c, std::max<int64_t>(strip, 1))) {
        name = "max_pool_gradient";
        arity = 3;
        three_axes(p.src_spatial, int64_t{1}, size);
        three_axes(p.dst_spatial, int64_t{1}, out);
        const int64_t taps = checked_product(kName, {axes[0].most, axes[1].most, axes[2].most});
        const int64_t results = checked_product(kName, {n, c, out[0], out[1], out[2]});
        work = static_cast<double>(results) * static_cast<double>(item) * 3 * static_cast<double>(taps);
        tap_part = each.add<int64_t>(checked_product(kName, {taps, 2}));
    }

    void run(char* const* operands) const override {
        const int64_t tasks = n * strips;
        const int threads = threads_for(tasks, work);
        const Scratch scratch({}, each, threads);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            int64_t* const taps = tap_part.in(scratch.of(rank));
            for (int64_t task = begin; task < end; ++task)
                run_task(operands, task / strips, task % strips * strip, taps);
        });
    }

    void run_task(char* const* operands, int64_t image, int64_t channel, int64_t* taps) const {
        PeakRun run{};
        run.type = type;
        run.channels = std::min(strip, c - channel);
        run.src_taps = taps;
        const char* const from = operands[0] + (image * src.batch + channel) * item;
        float* const to = reinterpret_cast<float*>(operands[2]) + image * dst.batch + channel;
        for (int64_t z = 0; z < size[0]; ++z) {
            for (int64_t y = 0; y < size[1]; ++y) {
                for (int64_t x = 0; x < size[2]; ++x) {
                    std::fill_n(to + z * dst.axis[0] + y * dst.axis[1] + x * dst.axis[2], run.channels, 0.0f);
                }
            }
        }
        for (int64_t z = 0; z < out[0]; ++z) {
            for (int64_t y = 0; y < out[1]; ++y) {
                for (int64_t x = 0; x < out[2]; x += run.outputs) {
                    const bool whole = x >= axes[2].whole[0] && x < axes[2].whole[1];
                    run.outputs = whole ? axes[2].whole[1] - x : 1;
                    run.taps = axes[0].taps[z] * axes[1].taps[y] * axes[2].taps[x];
                    if (run.taps == 0) continue;
                    list_taps(z, y, x, taps, taps + run.taps);
                    run.to_taps = taps + run.taps;
                    const int64_t place[kWindowAxes] = {axes[0].first[z], axes[1].first[y], axes[2].first[x]};
                    run.src = from + offset(src, place) * item;
                    run.to = to + offset(dst, place);
                    const int64_t result[kWindowAxes] = {z, y, x};
                    run.diff = operands[1] + (image * diff.batch + channel + offset(diff, result)) * item;
                    run.src_step = axes[2].stride * src.axis[2];
                    run.to_step = axes[2].stride * dst.axis[2];
                    run.diff_step = diff.axis[2];
                    vector_code().window.peak(run);
                }
            }
        }
    }

    static int64_t offset(const WindowSide& side, const int64_t (&place)[kWindowAxes]) {
        return place[0] * side.axis[0] + place[1] * side.axis[1] + place[2] * side.axis[2];
    }

    // The offsets of a window's taps from its first tap, in src and in dst.
    void list_taps(int64_t z, int64_t y, int64_t x, int64_t* in_src, int64_t* in_dst) const {
        for (int64_t d = 0; d < axes[0].taps[z]; ++d) {
            for (int64_t h = 0; h < axes[1].taps[y]; ++h) {
                for (int64_t w = 0; w < axes[2].taps[x]; ++w) {
                    const int64_t place[kWindowAxes] = {d * axes[0].dilation, h * axes[1].dilation,
                                                        w * axes[2].dilation};
                    *in_src++ = offset(src, place);
                    *in_dst++ = offset(dst, place);
                }
            }
        }
    }
};

std::shared_ptr<Kernel> make_max_pool_gradient(int64_t n, int64_t c, const Dims& src_spatial, const Dims& dst_spatial,
                                               const Dims& kernel, const Dims& strides, const Dims& pads_begin,
                                               const Dims& pads_end, const Dims& dilations, int dtype,
                                               const Dims& src_strides, const Dims& diff_strides,
                                               const Dims& to_strides) {
    return std::make_shared<MaxPoolGradientKernel>(
        PoolProblem{n, c, src_spatial, dst_spatial, kernel, strides, pads_begin, pads_end, dilations, dtype,
                    src_strides, dtype, diff_strides, false, false, std::nullopt},
        to_strides);
}

}  // namespace

const Declaration kMaxPoolGradient{
    "max_pool_gradient(n, c, src_spatial, dst_spatial, kernel, strides, pads_begin, pads_end, dilations, dtype, "
    "src_strides, diff_strides, to_strides)",
    make_max_pool_gradient, "src (n, c, src_spatial), diff_dst (n, c, dst_spatial), diff_src f32 (n, c, src_spatial)",
    "diff_src = the gradient of a max pool: the element of diff_dst of each window is added at the window's first "
    "largest element of src. Strides: n, c, spatial; channels are contiguous."};

const Declaration kPool{
    "pool(n, c, src_spatial, dst_spatial, kernel, strides, pads_begin, pads_end, dilations, src_dtype, src_strides, "
    "dst_dtype, dst_strides, average, exclude_pad, scales=None)",
    kernel_of<PoolKernel, PoolProblem, int64_t, int64_t, Dims, Dims, Dims, Dims, Dims, Dims, Dims, int, Dims, int, Dims,
              bool, bool, IntegerScales>,
    "src (n, c, src_spatial), dst (n, c, dst_spatial)",
    "dst = the largest element of each window of src, or the mean. Strides: n, c, spatial; channels are contiguous. "
    "Results have src's type. With scales (scale and zero point of src, of dst) src is of 8-bit integers, dst too or "
    "f32: largest and sums are exact, and rounded once, ties to even."};

}  // namespace dgo
