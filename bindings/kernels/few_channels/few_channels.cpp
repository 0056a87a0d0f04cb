// diff_src[channel] = bias + the sum over c and taps of diff_dst[c] * weights[channel][c][tap], where diff_dst has few
// channels (c). A vector holds results of neighbouring channels; where those are few, too, of neighbouring positions.
#include <xmmintrin.h>

#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/declaration.hpp"
#include "kernels/kernel.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/few_channels/image.hpp"
#include "kernels/epilogue/epilogue.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "few_channels_product";
constexpr int64_t kMostChannels = 4, kMostPlanarChannels = 64;
constexpr int64_t kMostTaps = 1 << 16;
constexpr int64_t kPlanes = 8;  // planes of diff_src that are written at once
constexpr int64_t kLines = 8;   // rows in planes of channels that are computed at once

const FewChannelsCode& code() { return vector_code().few_channels; }

// Whether vectors hold results of neighbouring positions. channels: of the results, 0 for the gradient of the weights.
bool planar(const LayerSizes& layer, int64_t channels) {
    return channels >= 1 && channels <= kMostPlanes && layer.strides.back() == 1 && product(layer.kernel) > 1;
}

int64_t panel_of(const LayerSizes& layer, int64_t channels) {
    return planar(layer, channels) ? kMostPlanes : code().panel;
}

Dims dims_of(const LayerSizes& p, int64_t first, int64_t second) {
    Dims all = {first, second};
    all.insert(all.end(), p.kernel.begin(), p.kernel.end());
    return all;
}

struct FewChannelsKernel : Kernel {
    FewChannelsProblem p;
    bool in_planes;  // vectors hold results of neighbouring positions
    int64_t panel;   // channels of a packed panel
    FewChannelsImage image;
    const FewChannelsLayout& layout;
    RowLayout to;
    bool has_bias;
    Epilogue epilogue;
    EpilogueParams after;  // results
    FusedActivation last;  // all post-ops, where the vector code applies them; else none
    bool in_place;  // f32 results are written to diff_src; else to scratch memory, from which they are moved
    bool direct;    // the vector code writes planes of diff_src; else to scratch memory
    BlockFn store, join;
    StridedCopy bias_copy;
    int64_t item;  // bytes of a result
    int64_t panels;
    std::vector<FewChannelsStep> steps;
    double work;  // the work of a run, in units of threads_for
    // scratch of a run: arrays that all threads read, and the memory of each thread
    ScratchLayout shared, each;
    ScratchArray<float> bias_part, copy_part, result_part, planes_part;

    FewChannelsKernel(const FewChannelsProblem& problem, bool with_bias, int bias_dtype, const Epilogue& post_ops)
        : p(problem), in_planes(planar(p, p.channels)), panel(panel_of(p, p.channels)),
          image(p, p.dst_dtype, p.dst_strides, in_planes), layout(image.layout), to(p.src_spatial, p.src_strides),
          has_bias(with_bias), epilogue(post_ops),
          after(epilogue.params(p.channels, {p.n, to.extent(0), to.extent(1), to.width()},
                                {to.batch, to.outer[0], to.outer[1], to.inner})),
          last(fused_activation_of(after)),
          in_place((to.channel == 1 || p.channels == 1) &&
                   (float_type(p.src_dtype) == ElementType::f32 || (finished() && !in_planes))),
          direct(in_planes && to.inner == 1 && finished() && float_type(p.src_dtype) == ElementType::f32),
          store(copy_block(to.channel == 1 ? BlockKind::rows
                           : to.inner == 1 ? BlockKind::transposed
                                           : BlockKind::strided,
                           ElementType::f32, float_type(p.src_dtype))),
          join(copy_block(BlockKind::transposed, ElementType::f32, ElementType::f32)),
          bias_copy({p.channels}, bias_dtype, {1}, kF32, {1}), item(item_size(p.src_dtype)),
          panels(ceil_div(p.channels, panel)) {
        name = kName;
        by = code_name("conv_fprop_f32", vector_code().isa, code().rows, code().panel);
        arity = (has_bias ? 4 : 3) + epilogue.operands();
        steps = image.steps(panel);
        work = few_channels_work(p, p.channels, item);
        bias_part = shared.add<float>(panels * panel);
        copy_part = each.add<float>(image.floats());
        result_part = each.add<float>(in_place || direct ? 0 : checked_product(kName, {layout.outputs, panel}));
        planes_part =
            each.add<float>(in_planes && !direct ? checked_product(kName, {kLines, layout.outputs, p.channels}) : 0);
    }

    // Whether the vector code writes finished results.
    bool finished() const { return epilogue.empty() || last.as != FusedActivation::As::it_is; }

    bool vast(const char* dst) const {
        const auto whole = [](int64_t bytes) { return bytes % code().alignment == 0; };
        const int64_t bytes = p.n * product(p.src_spatial) * p.channels * item;
        return in_place && !in_planes && finished() && float_type(p.src_dtype) == ElementType::f32 &&
               bytes > kVastBytes && whole(to.inner * item) && whole(to.outer[0] * item) && whole(to.outer[1] * item) &&
               whole(to.batch * item) &&
               reinterpret_cast<uintptr_t>(dst) % static_cast<uintptr_t>(code().alignment) == 0;
    }

    void run(char* const* operands) const override {
        const bool nothing = p.channels == 0 || layout.inner.outputs == 0;
        const int64_t tasks = nothing ? 0 : p.n * layout.sections * to.rows();
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        float* bias = bias_part.in(scratch.shared());
        std::fill_n(bias, panels * panel, 0.0f);
        if (has_bias) bias_copy.run(operands[2], reinterpret_cast<char*>(bias));
        char* dst = operands[arity - 1];
        FewChannelsRow row{};
        row.channels = p.channels;
        row.steps = steps.data();
        row.steps_end = steps.data() + steps.size();
        row.advance = layout.inner.stride * layout.position;
        row.weights = reinterpret_cast<const float*>(operands[1]);
        row.panel = static_cast<int64_t>(steps.size()) * panel;
        row.bias = bias;
        row.type = in_place ? float_type(p.src_dtype) : ElementType::f32;
        row.to_step = direct ? to.channel : in_planes ? layout.outputs : in_place ? to.inner : panel;
        row.activation = last;
        row.vast = vast(dst);
        row.source_line = layout.lines.stride * layout.row_floats;
        row.to_line = direct ? to.outer[1] : layout.outputs * p.channels;
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            run_part(operands[0], row, operands + (has_bias ? 3 : 2), dst, begin, end, scratch.of(rank));
        });
    }

    void run_part(const char* src, FewChannelsRow row, const char* const* epilogue_operands, char* dst, int64_t begin,
                  int64_t end, char* memory) const {
        float* const copy = copy_part.in(memory);
        float* const result = result_part.in(memory);
        float* const planes = planes_part.in(memory);
        layout.for_each_block(begin, end, [&](const FewChannelsBlock& block, bool follows) {
            const int64_t first = layout.begin(block.section);
            row.count = layout.begin(block.section + 1) - first;
            image.copy(src, block, follows, first, row.count, copy);
            for (int64_t i = 0; i < block.rows; ++i) {
                const int64_t offset = to.offset(block.n, 0, block.plane, block.line + i) + first * to.inner;
                char* target = dst + offset * item;
                row.source = copy + i * layout.lines.stride * layout.row_floats;
                if (in_planes && i % kLines == 0) {
                    row.lines = std::min(kLines, block.rows - i);
                    row.to = direct ? target : reinterpret_cast<char*>(planes);
                    code().planes(row);
                }
                if (direct) continue;
                const float* const of_row = planes + i % kLines * row.to_line;
                if (in_place) {
                    row.to = target;
                    compute(row, of_row, to.inner);
                    finish(epilogue_operands, reinterpret_cast<float*>(target), to.inner, offset, row.count, 0,
                           p.channels);
                } else {
                    run_apart(row, of_row, result, epilogue_operands, offset, target);
                }
            }
        });
        if (row.vast) _mm_sfence();
    }

    // Writes results whose channels lie side by side to row.to; planes: those of all channels, where they are computed.
    void compute(const FewChannelsRow& row, const float* planes, int64_t step) const {
        if (!in_planes) return code().run(row);
        join(reinterpret_cast<const char*>(planes), row.to, {row.count, row.channels, 1, layout.outputs, step, 1});
    }

    // Applies the post-ops to results of neighbouring positions.
    void finish(const char* const* operands, float* values, int64_t step, int64_t offset, int64_t count,
                int64_t channel, int64_t channels) const {
        if (finished()) return;
        apply_epilogue(after, operands,
                       EpilogueRun{values, step, offset + channel, to.inner, count, channels, channel});
    }

    // Computes one panel of channels after the other in scratch memory, and moves each to its planes of diff_src.
    void run_apart(FewChannelsRow row, const float* planes, float* result, const char* const* epilogue_operands,
                   int64_t offset, char* target) const {
        row.to = reinterpret_cast<char*>(result);
        for (int64_t c = 0; c < p.channels; c += panel, row.weights += row.panel, row.bias += panel) {
            row.channels = std::min(p.channels - c, panel);
            // fetches the lines of the planes, which the processor does not foresee, while sums are computed
            for (int64_t i = 0; to.inner == 1 && i < row.channels; ++i) {
                const char* plane = target + (c + i) * to.channel * item;
                for (int64_t at = 0; at < row.count * item; at += 64) __builtin_prefetch(plane + at, 1);
            }
            compute(row, planes, panel);
            finish(epilogue_operands, result, panel, offset, row.count, c, row.channels);
            if (to.channel == 1) {
                store(row.to, target + c * item, {row.count, row.channels, panel, 1, to.inner, 1});
                continue;
            }
            // few planes at once: as they may all begin alike in memory, the first cache holds no more lines of them
            for (int64_t i = 0; i < row.channels; i += kPlanes) {
                store(row.to + i * int64_t{sizeof(float)}, target + (c + i) * to.channel * item,
                      {std::min(row.channels - i, kPlanes), row.count, 1, panel, to.channel, to.inner});
            }
        }
    }
};

bool few_channels_in_planes(const LayerSizes& layer, int64_t channels) {
    check_layer(kName, layer);
    return planar(layer, channels);
}

std::string refusal_of(const LayerSizes& layer, bool in_planes) {
    check_layer(kName, layer);
    const int64_t most = in_planes ? kMostPlanarChannels : kMostChannels;
    if (layer.c < 1 || layer.c > most) {
        return "the layer has " + std::to_string(layer.c) + " channels, 1 to " + std::to_string(most) + " are possible";
    }
    if (product(layer.kernel) > kMostTaps) {
        return "the kernel has more than " + std::to_string(kMostTaps) + " taps";
    }
    if (FewChannelsLayout(layer, in_planes).too_long()) {
        return "the rows of the image that meet in one of the results are too long to be copied";
    }
    return "";
}

std::string few_channels_refusal(const LayerSizes& layer, int64_t channels) {
    return refusal_of(layer, few_channels_in_planes(layer, channels));
}

}  // namespace

int64_t few_channels_packed_size(const LayerSizes& layer, int64_t channels, int64_t panel) {
    check_layer(kName, layer);
    check_number(kName, "channels", channels, 0, kMostSize);
    const int64_t panels = ceil_div(channels, panel);
    return checked_product(kName, {panels * panel, layer.c, checked_product(kName, {product(layer.kernel)})});
}

std::vector<CopyItem> few_channels_packing(const LayerSizes& layer, int64_t channels, const Dims& strides,
                                           int64_t panel) {
    few_channels_packed_size(layer, channels, panel);
    const int64_t rest = channels % panel;
    check_tensor(kName, "weights_strides", dims_of(layer, channels, layer.c), strides);
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
    return items;
}

void check_few_channels(const FewChannelsProblem& p, bool in_planes) {
    const std::string what = kName;
    const std::string why = refusal_of(p, in_planes);
    if (!why.empty()) fail(ErrorKind::invalid_argument, what + ": " + why);
    few_channels_packed_size(p, p.channels, code().panel);
    check_strides(what, "dst_strides", p, p.dst_spatial, p.dst_strides);
    LayerSizes results = p;
    results.c = p.channels;
    check_layer(what, results);
    check_strides(what, "src_strides", results, p.src_spatial, p.src_strides);
}

namespace {

int64_t packed_size(const LayerSizes& layer, int64_t channels) {
    check_layer(kName, layer);
    return few_channels_packed_size(layer, channels, panel_of(layer, channels));
}

std::shared_ptr<Kernel> make_pack(const LayerSizes& layer, int64_t channels, int dtype, const Dims& strides) {
    const int64_t size = packed_size(layer, channels), panel = panel_of(layer, channels);
    return make_copy_list(few_channels_packing(layer, channels, strides, panel), dtype, kF32,
                          channels % panel == 0 ? 0 : size);
}

std::shared_ptr<Kernel> make_product(const LayerSizes& layer, int64_t channels, int diff_dst_dtype,
                                     const Dims& diff_dst_strides, int diff_src_dtype, const Dims& diff_src_strides,
                                     int bias_dtype, const Epilogue& epilogue) {
    const FewChannelsProblem p{layer, channels, diff_dst_dtype, diff_dst_strides, diff_src_dtype, diff_src_strides};
    check_layer(kName, layer);
    check_few_channels(p, planar(layer, channels));
    return std::make_shared<FewChannelsKernel>(p, bias_dtype != 0, bias_dtype != 0 ? bias_dtype : kF32, epilogue);
}

}  // namespace

const Declaration kFewChannels[] = {
    {"few_channels_refusal(layer, channels=0)", few_channels_refusal,
     "Returns why few_channels_product does not compute a layer whose dst has c channels, or with 0 channels, why "
     "few_channels_gradient does not; empty if it does."},
    {"few_channels_in_planes(layer, channels)", few_channels_in_planes,
     "Returns whether vectors of few_channels_product hold results of neighbouring positions, not channels."},
    {"few_channels_packed_size(layer, channels)", packed_size,
     "Returns the f32 elements of the packed weights of few_channels_product."},
    {"few_channels_pack(layer, channels, weights_dtype, weights_strides)", make_pack,
     "weights (channels, c, kernel), packed",
     "packed = weights for few_channels_product. Strides: channel of src, channel of dst, kernel."},
    {"few_channels_product(layer, channels, diff_dst_dtype, diff_dst_strides, diff_src_dtype, diff_src_strides, "
     "bias_dtype=0, "
     "epilogue=...)",
     make_product,
     "diff_dst (n, c, dst_spatial), packed, [bias (channels)], epilogue's..., diff_src (n, channels, src_spatial)",
     "diff_src = bias + the ordinary convolution of diff_dst, which has few (c) channels, to `channels` channels. "
     "Strides: n, channel, spatial. A bias_dtype of 0 means no bias. Sums are f32."},
};

}  // namespace dgo
