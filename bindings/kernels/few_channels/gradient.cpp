// diff_weights[channel][c][tap] = the sum over positions of src[channel] * diff_dst[c], where diff_dst has few channels (c).
// A vector holds neighbouring channels of src, which an element of diff_dst multiplies.
#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/few_channels/image.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "few_channels_gradient";

const FewChannelsCode& code() { return vector_code().few_channels; }

struct FewChannelsGradientKernel : Kernel {
    FewChannelsProblem p;
    FewChannelsImage image;
    const FewChannelsLayout& layout;
    RowLayout from;
    bool in_place;  // src is read as it lies in memory; else its rows are copied to f32
    int64_t item;  // bytes of an element of src
    BlockFn load;
    std::vector<FewChannelsStep> steps;
    int64_t sums, pitch;  // floats of packed diff_weights; from position to position of copied rows of src
    std::shared_ptr<Kernel> unpack;
    double work;  // the work of a run, in units of threads_for
    ScratchLayout shared, each;
    ScratchArray<float> copy_part, results_part;

    FewChannelsGradientKernel(const FewChannelsProblem& problem, int weights_dtype, const Dims& weights_strides)
        : p(problem), image(p, p.dst_dtype, p.dst_strides, false), layout(image.layout),
          from(p.src_spatial, p.src_strides), item(item_size(p.src_dtype)), steps(image.steps(code().panel)),
          sums(few_channels_packed_size(p, p.channels, code().panel)),
          pitch(ceil_div(p.channels, code().panel) * code().panel) {
        name = kName;
        by = code_name("conv_wgrad_f32", vector_code().isa, code().rows, code().panel);
        arity = 3;
        const ElementType type = float_type(p.src_dtype);
        in_place = type == ElementType::f32 && from.channel == 1 && p.channels % vector_code().lanes == 0;
        load = copy_block(from.channel == 1 ? BlockKind::rows
                          : from.inner == 1 ? BlockKind::transposed
                                            : BlockKind::strided,
                          type, ElementType::f32);
        std::vector<CopyItem> items;
        for (auto& [shape, src, src_strides, dst, dst_strides] :
             few_channels_packing(p, p.channels, weights_strides, code().panel)) {
            items.emplace_back(shape, dst, dst_strides, src, src_strides);
        }
        unpack = make_copy_list(items, kF32, weights_dtype, 0);
        work = few_channels_work(p, p.channels, item);
        copy_part = each.add<float>(image.floats());
        results_part = each.add<float>(in_place ? 0 : checked_product(kName, {layout.outputs, pitch}));
    }

    void run(char* const* operands) const override {
        const bool nothing = p.channels == 0 || layout.inner.outputs == 0;
        const int64_t tasks = nothing ? 0 : p.n * layout.sections * from.rows();
        const int threads = threads_for(tasks, work);
        // each thread adds up sums of its own, which are added in the order of the threads
        ScratchLayout all = shared;
        const ScratchArray<float> sums_part = all.add<float>(checked_product(kName, {sums, threads}));
        const Scratch scratch(all, each, threads);
        float* const total = sums_part.in(scratch.shared());
        std::fill_n(total, sums * threads, 0.0f);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            run_part(operands[0], operands[1], begin, end, total + rank * sums, scratch.of(rank));
        });
        add_up_parts(total, sums, threads);
        char* const unpacked[] = {reinterpret_cast<char*>(total), operands[2]};
        unpack->run(unpacked);
    }

    void run_part(const char* src, const char* dst, int64_t begin, int64_t end, float* to, char* memory) const {
        float* const copy = copy_part.in(memory);
        float* const results = results_part.in(memory);
        if (!in_place) std::fill_n(results, layout.outputs * pitch, 0.0f);
        FewChannelsGradient row{};
        row.channels = p.channels;
        row.steps = steps.data();
        row.steps_end = steps.data() + steps.size();
        row.length = layout.inner.dilation == 1 ? layout.inner.kernel * p.c : p.c;
        row.advance = layout.inner.stride * p.c;
        row.results_step = in_place ? from.inner : pitch;
        row.sums = to;
        row.panel = static_cast<int64_t>(steps.size()) * code().panel;
        layout.for_each_block(begin, end, [&](const FewChannelsBlock& block, bool follows) {
            const int64_t first = layout.begin(block.section);
            row.count = layout.begin(block.section + 1) - first;
            image.copy(dst, block, follows, first, row.count, copy);
            for (int64_t i = 0; i < block.rows; ++i) {
                const char* at =
                    src + (from.offset(block.n, 0, block.plane, block.line + i) + first * from.inner) * item;
                row.source = copy + i * layout.lines.stride * layout.row_floats;
                row.results = in_place ? reinterpret_cast<const float*>(at) : results;
                if (!in_place) {
                    load(at, reinterpret_cast<char*>(results),
                         {row.count, p.channels, from.inner, from.channel, pitch, 1});
                }
                code().gradient(row);
            }
        });
    }
};

std::shared_ptr<Kernel> make_gradient(const LayerSizes& layer, int64_t channels, int src_dtype, const Dims& src_strides,
                                      int diff_dst_dtype, const Dims& diff_dst_strides, int weights_dtype,
                                      const Dims& weights_strides) {
    const FewChannelsProblem problem{layer, channels, diff_dst_dtype, diff_dst_strides, src_dtype, src_strides};
    check_few_channels(problem, false);
    return std::make_shared<FewChannelsGradientKernel>(problem, weights_dtype, weights_strides);
}

}  // namespace

const Declaration kFewChannelsGradient{
    "few_channels_gradient(layer, channels, src_dtype, src_strides, diff_dst_dtype, diff_dst_strides, weights_dtype, "
    "weights_strides)",
    make_gradient, "src (n, channels, src_spatial), diff_dst (n, c, dst_spatial), diff_weights (channels, c, kernel)",
    "diff_weights = the sum over n and positions of src * diff_dst, for the layers of few_channels_product, with the "
    "strides of few_channels_product and few_channels_pack. The same number of threads gives the same bits."};

}  // namespace dgo
