// An ordinary convolution of few channels: sums over taps times channels, with the results of many channels side by
// side in vectors. Rows of the image are copied into f32 with a border of zeros, position by position.
#include <xmmintrin.h>

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/filtering/filter_product.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_movers.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "stem_product";
constexpr int64_t kMostChannels = 4;
constexpr int64_t kMostTaps = 1 << 16;
constexpr int64_t kRowFloats = 6 * 1024;        // of the copied rows of a section, beside weights in the first cache
constexpr int64_t kResultFloats = 64 * 1024;    // of the results of a section that are moved to where they belong
constexpr int64_t kFewestOutputs = 24;          // of a section: two register tiles
constexpr int64_t kMostFloats = 4 * 1024 * 1024;  // of copied rows
constexpr double kProductsOfByte = 8;           // that take as long as moving one

const StemCode& code() { return vector_code().stem; }

Dims dims_of(const LayerSizes& p, int64_t first, int64_t second) {
    Dims all = {first, second};
    all.insert(all.end(), p.kernel.begin(), p.kernel.end());
    return all;
}

// Sections of a row of results, and the copies of the rows that one needs.
struct StemSections {
    int64_t number, outputs;  // outputs: at most, of a section
    int64_t row_floats;       // of a copied row

    StemSections(const LayerSizes& p, const TapAxes& axes, int64_t result_floats) {
        const int64_t width = p.src_spatial.back(), advance = p.strides.back() * p.c;
        const int64_t rows = axes.outer[0].span() * axes.outer[1].span();
        int64_t most = std::max(kRowFloats / std::min(rows * advance, kRowFloats), kFewestOutputs);
        if (result_floats > 0) most = std::min(most, std::max(kResultFloats / result_floats, kFewestOutputs));
        number = std::max<int64_t>(ceil_div(width, most), 1);
        outputs = ceil_div(width, number);
        const int64_t reach = p.dilations.back() * (p.kernel.back() - 1);
        row_floats = (std::max<int64_t>(outputs - 1, 0) * p.strides.back() + reach + 1) * p.c;
    }
    int64_t begin(int64_t section, int64_t width) const { return width * section / number; }
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
    TapAxes axes;
    RowLayout from, to;
    bool has_bias, in_place;  // in_place: channels of the results lie side by side
    StemSections sections;
    ImageRow image;
    BlockFn store;
    StridedCopy bias_copy;
    int64_t item;  // bytes of a result
    int64_t width, panels, segments, length;
    double work;  // as of threads_for
    // of a run: what all threads read, and what each of them works in
    ScratchLayout shared, each;
    ScratchArray<float> bias_part, result_part;
    ScratchArray<const float*> source_part;
    ScratchArray<int64_t> first_part;
    RowCache::Layout rows_layout;

    StemKernel(const StemProblem& problem, bool with_bias, int bias_dtype)
        : p(problem), axes(p, false), from(p.dst_spatial, p.dst_strides), to(p.src_spatial, p.src_strides),
          has_bias(with_bias), in_place(to.channel == 1 || p.channels == 1),
          sections(p, axes, in_place ? 0 : p.channels), image(from, p.dst_dtype, p.c),
          store(copy_block(to.inner == 1 ? BlockKind::transposed : BlockKind::strided, Cell::f32,
                           float_cell(p.src_dtype))),
          bias_copy({p.channels}, bias_dtype, {1}, kF32, {1}), item(item_size(p.src_dtype)), width(to.width()),
          panels(ceil_div(p.channels, code().panel)) {
        name = kName;
        arity = has_bias ? 4 : 3;
        // taps of a row are neighbours, or steps of their own
        const bool together = p.dilations.back() == 1;
        length = together ? p.kernel.back() * p.c : p.c;
        segments = product(p.kernel) * p.c / length;
        const auto results = static_cast<double>(p.n * product(p.src_spatial)) * static_cast<double>(p.channels);
        work = results * (static_cast<double>(item) + static_cast<double>(segments * length) / kProductsOfByte);
        bias_part = shared.add<float>(panels * code().panel);
        source_part = each.add<const float*>(segments);
        first_part = each.add<int64_t>(segments);
        result_part = each.add<float>(in_place ? 0 : checked_product(kName, {sections.outputs, p.channels}));
        rows_layout = RowCache::Layout(each, axes, sections.row_floats);
    }

    bool vast(const char* dst) const {
        const auto whole = [](int64_t bytes) { return bytes % code().alignment == 0; };
        const int64_t bytes = p.n * product(p.src_spatial) * p.channels * item;
        return in_place && float_cell(p.src_dtype) == Cell::f32 && bytes > kVastBytes && whole(to.inner * item) &&
               whole(to.outer[0] * item) && whole(to.outer[1] * item) && whole(to.batch * item) &&
               reinterpret_cast<uintptr_t>(dst) % static_cast<uintptr_t>(code().alignment) == 0;
    }

    void run(char* const* operands) const override {
        const int64_t tasks = p.channels == 0 || width == 0 ? 0 : p.n * sections.number * to.rows();
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        float* bias = bias_part.in(scratch.shared());
        std::fill_n(bias, panels * code().panel, 0.0f);
        if (has_bias) bias_copy.run(operands[2], reinterpret_cast<char*>(bias));
        char* dst = operands[arity - 1];
        StemRow row{};
        row.channels = p.channels;
        row.length = length;
        row.step = p.strides.back() * p.c;
        row.weights = reinterpret_cast<const float*>(operands[1]);
        row.depth = segments * length;
        row.bias = bias;
        row.cell = in_place ? float_cell(p.src_dtype) : Cell::f32;
        row.to_step = in_place ? to.inner : p.channels;
        row.vast = vast(dst);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            run_part(operands[0], row, dst, begin, end, scratch.of(rank));
        });
    }

    void run_part(const char* src, StemRow row, char* dst, int64_t begin, int64_t end, char* memory) const {
        RowCache cache(rows_layout, memory);
        const float** source = source_part.in(memory);
        int64_t* first = first_part.in(memory);
        row.source = source;
        row.first = first;
        std::vector<RowTap> row_list;
        for (int64_t task = begin; task < end; ++task) {
            const int64_t line = task % to.rows(), part = task / to.rows();
            const int64_t section = part % sections.number, n = part / sections.number;
            const int64_t output = sections.begin(section, width);
            row.count = sections.begin(section + 1, width) - output;
            row.segments = 0;
            axes.taps_of_row(line, row_list);
            const int64_t taps = p.kernel.back() * p.c, step = p.dilations.back() * p.c;
            for (const RowTap& tap : row_list) {
                const float* copy = copied(cache, src, part, n, tap, output, row.count);
                // a segment of the whole row, or one for each tap
                for (int64_t at = 0, k = 0; at < taps; at += length, ++k) {
                    source[row.segments] = copy + k * step;
                    first[row.segments++] = tap.tap * taps + at;
                }
            }
            char* target = dst + (to.offset_of_row(n, 0, line) + output * to.inner) * item;
            float* result = result_part.in(memory);
            row.to = in_place ? target : reinterpret_cast<char*>(result);
            code().run(row);
            if (in_place) continue;
            store(row.to, target, {p.channels, row.count, 1, p.channels, to.channel, to.inner});
        }
        if (row.vast) _mm_sfence();
    }

    // The copy of a row of the image, of what `count` outputs from `output` on meet.
    const float* copied(RowCache& cache, const char* src, int64_t part, int64_t n, const RowTap& tap, int64_t output,
                        int64_t count) const {
        bool fresh;
        float* copy = cache.find(part, tap.source[0], tap.source[1], fresh);
        if (!fresh) return copy;
        const int64_t stride = p.strides.back(), begin = output * stride - p.pads_begin.back();
        const int64_t reach = p.dilations.back() * (p.kernel.back() - 1);
        image.run(src + from.offset(n, 0, tap.source[0], tap.source[1]) * image.item, from.width(), begin,
                  begin + (count - 1) * stride + reach + 1, copy);
        return copy;
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
    const TapAxes axes(layer, false);
    const int64_t rows = axes.outer[0].span() * axes.outer[1].span();
    if (rows > kMostFloats || StemSections(layer, axes, 1).row_floats > kMostFloats / rows) {
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
