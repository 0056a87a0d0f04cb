// An ordinary convolution of few channels: sums over taps times channels, with the results of many channels side by
// side in vectors. Rows of the image are copied into f32 with a border of zeros, position by position.
#include <xmmintrin.h>

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/filtering/filter_product.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "stem_product";
constexpr int64_t kMostChannels = 4;
constexpr int64_t kMostTaps = 1 << 16;
constexpr int64_t kRowFloats = 6 * 1024;          // of the copies that a row of results meets, beside weights nearby
constexpr int64_t kBlockFloats = 32 * 1024;       // of the copies that a block of rows meets
constexpr int64_t kFewestOutputs = 24;            // of a section: two register tiles
constexpr int64_t kMostFloats = 4 * 1024 * 1024;  // of copies
constexpr int64_t kPlanes = 8;                    // written at once
constexpr double kProductsOfByte = 8;             // that take as long as moving one

const StemCode& code() { return vector_code().stem; }

Dims dims_of(const LayerSizes& p, int64_t first, int64_t second) {
    Dims all = {first, second};
    all.insert(all.end(), p.kernel.begin(), p.kernel.end());
    return all;
}

// A spatial axis; those that are missing in front have one position.
struct StemAxis {
    int64_t outputs = 1, size = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;

    StemAxis(const LayerSizes& p, int number) {
        const int missing = 3 - static_cast<int>(p.kernel.size());
        if (number < missing) return;
        const auto axis = static_cast<size_t>(number - missing);
        outputs = p.src_spatial[axis];
        size = p.dst_spatial[axis];
        kernel = p.kernel[axis];
        stride = p.strides[axis];
        pad = p.pads_begin[axis];
        dilation = p.dilations[axis];
    }
    int64_t reach() const { return dilation * (kernel - 1); }
    // Positions that so many outputs may meet, from the first to the last one.
    int64_t span(int64_t count) const { return std::max<int64_t>(count - 1, 0) * stride + reach() + 1; }
};

// How the work is cut: sections of rows, and blocks of sections under each other whose image is copied at once.
struct StemLayout {
    StemAxis planes, lines, inner;
    int64_t sections, outputs;  // of a row, and at most of a section
    int64_t block;              // sections of a block
    int64_t row_floats, plane_floats;  // of a copied row, and of copied rows under each other

    explicit StemLayout(const LayerSizes& p) : planes(p, 0), lines(p, 1), inner(p, 2) {
        const int64_t step = std::min(planes.kernel * lines.kernel * inner.stride * p.c, kRowFloats);
        int64_t most = std::max(kRowFloats / step, kFewestOutputs);
        sections = std::max<int64_t>(ceil_div(inner.outputs, most), 1);
        outputs = ceil_div(inner.outputs, sections);
        row_floats = inner.span(outputs) * p.c;
        const int64_t rows = kBlockFloats / std::min(row_floats * planes.kernel, kBlockFloats);
        block = std::clamp<int64_t>((rows - lines.span(1)) / lines.stride + 1, 1, std::max<int64_t>(lines.outputs, 1));
        // beyond any bound the layer is refused
        plane_floats = std::min(lines.span(block), kMostFloats) * std::min(row_floats, kMostFloats);
    }
    int64_t begin(int64_t section) const { return inner.outputs * section / sections; }
    bool too_long() const { return row_floats > kMostFloats || plane_floats > kMostFloats / planes.kernel; }
};

// Moves a row of the image into f32, its channels side by side.
struct ImageRow {
    BlockFn load;
    bool dense;  // channels lie side by side already
    int64_t item, channels, channel, inner;

    ImageRow(const RowLayout& from, int dtype, int64_t c)
        : dense(from.inner == c && (from.channel == 1 || c == 1)), item(item_size(dtype)), channels(c),
          channel(from.channel), inner(from.inner) {
        const BlockKind kind = dense || channel == 1 ? BlockKind::rows
                               : inner == 1          ? BlockKind::transposed
                                                     : BlockKind::strided;
        load = copy_block(kind, float_cell(dtype), Cell::f32);
    }

    // Positions [begin, end) of a row of `width`, zeros where there are none.
    void run(const char* row, int64_t width, int64_t begin, int64_t end, float* to) const {
        const int64_t first = std::clamp<int64_t>(0, begin, end), last = std::clamp(width, first, end);
        std::fill_n(to, (first - begin) * channels, 0.0f);
        std::fill_n(to + (last - begin) * channels, (end - last) * channels, 0.0f);
        if (first == last) return;
        const int64_t count = last - first;
        const CopyBlock block = dense ? CopyBlock{1, count * channels, 0, 1, 0, 1}
                                      : CopyBlock{count, channels, inner, channel, channels, 1};
        load(row + first * inner * item, reinterpret_cast<char*>(to + (first - begin) * channels), block);
    }
};

struct StemKernel : Kernel {
    StemProblem p;
    RowLayout from, to;
    bool has_bias, in_place;  // in_place: channels of the results lie side by side
    StemLayout layout;
    ImageRow image;
    BlockFn store;
    StridedCopy bias_copy;
    int64_t item;  // bytes of a result
    int64_t panels;
    std::vector<StemStep> steps;
    double work;  // as of threads_for
    // of a run: what all threads read, and what each of them works in
    ScratchLayout shared, each;
    ScratchArray<float> bias_part, copy_part, result_part;

    StemKernel(const StemProblem& problem, bool with_bias, int bias_dtype)
        : p(problem), from(p.dst_spatial, p.dst_strides), to(p.src_spatial, p.src_strides), has_bias(with_bias),
          in_place(to.channel == 1 || p.channels == 1), layout(p), image(from, p.dst_dtype, p.c),
          store(copy_block(to.inner == 1 ? BlockKind::transposed : BlockKind::strided, Cell::f32,
                           float_cell(p.src_dtype))),
          bias_copy({p.channels}, bias_dtype, {1}, kF32, {1}), item(item_size(p.src_dtype)),
          panels(ceil_div(p.channels, code().panel)) {
        name = kName;
        arity = has_bias ? 4 : 3;
        list_steps();
        const auto results = static_cast<double>(p.n * product(p.src_spatial)) * static_cast<double>(p.channels);
        work = results * (static_cast<double>(item) + static_cast<double>(steps.size()) / kProductsOfByte);
        bias_part = shared.add<float>(panels * code().panel);
        copy_part = each.add<float>(checked_product(kName, {layout.planes.kernel, layout.plane_floats}));
        result_part = each.add<float>(in_place ? 0 : checked_product(kName, {layout.outputs, code().panel}));
    }

    void list_steps() {
        int64_t weights = 0;
        for (int64_t i = 0; i < layout.planes.kernel; ++i) {
            for (int64_t j = 0; j < layout.lines.kernel; ++j) {
                for (int64_t k = 0; k < layout.inner.kernel; ++k) {
                    const int64_t source = i * layout.plane_floats + j * layout.lines.dilation * layout.row_floats +
                                           k * layout.inner.dilation * p.c;
                    for (int64_t c = 0; c < p.c; ++c, weights += code().panel) {
                        steps.push_back({static_cast<int32_t>(source + c), static_cast<int32_t>(weights)});
                    }
                }
            }
        }
    }

    bool vast(const char* dst) const {
        const auto whole = [](int64_t bytes) { return bytes % code().alignment == 0; };
        const int64_t bytes = p.n * product(p.src_spatial) * p.channels * item;
        return in_place && float_cell(p.src_dtype) == Cell::f32 && bytes > kVastBytes && whole(to.inner * item) &&
               whole(to.outer[0] * item) && whole(to.outer[1] * item) && whole(to.batch * item) &&
               reinterpret_cast<uintptr_t>(dst) % static_cast<uintptr_t>(code().alignment) == 0;
    }

    void run(char* const* operands) const override {
        const bool nothing = p.channels == 0 || layout.inner.outputs == 0;
        const int64_t tasks = nothing ? 0 : p.n * layout.sections * to.rows();
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        float* bias = bias_part.in(scratch.shared());
        std::fill_n(bias, panels * code().panel, 0.0f);
        if (has_bias) bias_copy.run(operands[2], reinterpret_cast<char*>(bias));
        char* dst = operands[arity - 1];
        StemRow row{};
        row.channels = p.channels;
        row.steps = steps.data();
        row.steps_end = steps.data() + steps.size();
        row.advance = layout.inner.stride * p.c;
        row.weights = reinterpret_cast<const float*>(operands[1]);
        row.panel = static_cast<int64_t>(steps.size()) * code().panel;
        row.bias = bias;
        row.cell = in_place ? float_cell(p.src_dtype) : Cell::f32;
        row.to_step = in_place ? to.inner : code().panel;
        row.vast = vast(dst);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            run_part(operands[0], row, dst, begin, end, scratch.of(rank));
        });
    }

    // Rows of results are numbered by image, section, plane and line.
    void run_part(const char* src, StemRow row, char* dst, int64_t begin, int64_t end, char* memory) const {
        float* const copy = copy_part.in(memory);
        float* const result = result_part.in(memory);
        for (int64_t task = begin; task < end;) {
            const int64_t line = task % layout.lines.outputs, plane = task / layout.lines.outputs;
            const int64_t depth = plane % layout.planes.outputs, part = plane / layout.planes.outputs;
            const int64_t section = part % layout.sections, n = part / layout.sections;
            const int64_t rows = std::min({layout.block, layout.lines.outputs - line, end - task});
            const int64_t first = layout.begin(section);
            row.count = layout.begin(section + 1) - first;
            copy_image(src, n, depth, line, rows, first, row.count, copy);
            for (int64_t i = 0; i < rows; ++i) {
                char* target = dst + (to.offset(n, 0, depth, line + i) + first * to.inner) * item;
                row.source = copy + i * layout.lines.stride * layout.row_floats;
                if (in_place) {
                    row.to = target;
                    code().run(row);
                } else {
                    run_apart(row, result, target);
                }
            }
            task += rows;
        }
        if (row.vast) _mm_sfence();
    }

    // A panel after the other by way of scratch memory, from where its results are moved to their planes.
    void run_apart(StemRow row, float* result, char* target) const {
        const int64_t panel = code().panel;
        row.to = reinterpret_cast<char*>(result);
        for (int64_t c = 0; c < p.channels; c += panel, row.weights += row.panel, row.bias += panel) {
            row.channels = std::min(p.channels - c, panel);
            // the lines of so many planes are fetched by nobody else while the sums are computed
            for (int64_t i = 0; to.inner == 1 && i < row.channels; ++i) {
                const char* plane = target + (c + i) * to.channel * item;
                for (int64_t at = 0; at < row.count * item; at += 64) __builtin_prefetch(plane + at, 1);
            }
            code().run(row);
            // few planes at once: as they may all begin alike in memory, the first cache holds no more lines of them
            for (int64_t i = 0; i < row.channels; i += kPlanes) {
                store(row.to + i * int64_t{sizeof(float)}, target + (c + i) * to.channel * item,
                      {std::min(row.channels - i, kPlanes), row.count, 1, row.to_step, to.channel, to.inner});
            }
        }
    }

    // What `rows` rows of `count` results meet, zeros where there is nothing.
    void copy_image(const char* src, int64_t n, int64_t plane, int64_t line, int64_t rows, int64_t output,
                    int64_t count, float* to_plane) const {
        const int64_t begin = output * layout.inner.stride - layout.inner.pad, end = begin + layout.inner.span(count);
        for (int64_t i = 0; i < layout.planes.kernel; ++i, to_plane += layout.plane_floats) {
            const int64_t at = plane * layout.planes.stride - layout.planes.pad + i * layout.planes.dilation;
            float* to_row = to_plane;
            for (int64_t j = 0; j < layout.lines.span(rows); ++j, to_row += layout.row_floats) {
                const int64_t row = line * layout.lines.stride - layout.lines.pad + j;
                if (at >= 0 && at < layout.planes.size && row >= 0 && row < layout.lines.size) {
                    image.run(src + from.offset(n, 0, at, row) * image.item, layout.inner.size, begin, end, to_row);
                } else {
                    std::fill_n(to_row, layout.row_floats, 0.0f);
                }
            }
        }
    }
};

}  // namespace

std::string stem_refusal(const LayerSizes& layer) {
    check_layer(kName, layer);
    if (layer.c < 1 || layer.c > kMostChannels) {
        return "the layer has " + std::to_string(layer.c) + " channels, 1 to " + std::to_string(kMostChannels) +
               " are possible";
    }
    if (product(layer.kernel) > kMostTaps) {
        return "the kernel has more than " + std::to_string(kMostTaps) + " taps";
    }
    if (StemLayout(layer).too_long()) {
        return "the rows of the image that meet in one of the results are too long to be copied";
    }
    return "";
}

int64_t stem_packed_size(const LayerSizes& layer, int64_t channels) {
    check_layer(kName, layer);
    check_number(kName, "channels", channels, 0, kMostSize);
    const int64_t panels = ceil_div(channels, code().panel);
    return checked_product(kName, {panels * code().panel, layer.c, checked_product(kName, {product(layer.kernel)})});
}

std::shared_ptr<Kernel> make_stem_pack(const LayerSizes& layer, int64_t channels, int dtype, const Dims& strides) {
    const int64_t packed = stem_packed_size(layer, channels), panel = code().panel, rest = channels % panel;
    check_list(kName, "weights_strides", strides, layer.kernel.size() + 2, 0, INT64_MAX);
    check_extent(kName, "weights", dims_of(layer, channels, layer.c), strides);
    // [panel][tap][channel of dst][channel of src]
    const int64_t depth = product(layer.kernel) * layer.c;
    Dims shape = dims_of(layer, channels - rest, layer.c), to(shape.size());
    int64_t step = panel;
    to[0] = 1;
    to[1] = step;
    step *= layer.c;
    for (size_t axis = shape.size(); axis-- > 2; step *= shape[axis]) to[axis] = step;
    std::vector<CopyItem> items;
    if (rest > 0) {
        Dims last = shape;
        last[0] = rest;
        items.emplace_back(last, (channels - rest) * strides[0], strides, (channels - rest) * depth, to);
    }
    shape[0] = panel;
    shape.insert(shape.begin(), channels / panel);
    to.insert(to.begin(), panel * depth);
    Dims whole = strides;
    whole.insert(whole.begin(), panel * strides[0]);
    if (channels >= panel) items.emplace_back(shape, 0, whole, 0, to);
    return make_copy_list(items, dtype, kF32, rest > 0 ? packed : 0);
}

std::shared_ptr<Kernel> make_stem_product(const StemProblem& p, bool has_bias, int bias_dtype) {
    const std::string what = kName;
    const std::string why = stem_refusal(p);
    if (!why.empty()) fail(ErrorKind::invalid_argument, what + ": " + why);
    stem_packed_size(p, p.channels);
    check_strides(what, "dst_strides", p, p.dst_spatial, p.dst_strides);
    LayerSizes results = p;
    results.c = p.channels;
    check_layer(what, results);
    check_strides(what, "src_strides", results, p.src_spatial, p.src_strides);
    return std::make_shared<StemKernel>(p, has_bias, bias_dtype);
}

}  // namespace dgo
