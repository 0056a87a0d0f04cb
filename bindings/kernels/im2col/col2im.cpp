// Overlap-add: every position of dst gathers the columns that meet it, so that no two threads write one
// place.
#include <algorithm>
#include <utility>

#include "kernels/checked.hpp"
#include "kernels/im2col/columns.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_movers.hpp"
#include "kernels/scratch.hpp"
#include "kernels/epilogue/fitted.hpp"

namespace dgo {
namespace {

constexpr int64_t kSectionBytes = 32 * 1024;  // bytes of outputs that a task along the channels writes, at least
constexpr int64_t kSectionOutputs = 2048;  // outputs of a row in a task of one channel
constexpr int64_t kLeastRun = 8;            // kernel positions worth a vector

// Returns the strides of the columns with two outer axes, 0 for absent ones.
struct ColumnLayout {
    int64_t batch, position[3] = {}, kernel[3] = {}, channel;

    explicit ColumnLayout(const Im2colProblem& p) : batch(p.col_strides[0]), channel(p.col_strides.back()) {
        const size_t rank = p.kernel.size();
        for (size_t axis = 0; axis < rank; ++axis) {
            position[3 - rank + axis] = p.col_strides[1 + axis];
            kernel[3 - rank + axis] = p.col_strides[1 + rank + axis];
        }
    }
};

// Returns the axes with the images first.
Dims of_positions(int64_t images, Dims axes) {
    axes.insert(axes.begin(), images);
    return axes;
}

// How the sums are vectorised.
enum class Along {
    channels,  // neighbours in the columns, or transposed into blocks of neighbours first
    taps,  // only kernel positions are neighbours: whole strides of outputs at once
    space,     // outputs of a phase
};

struct Col2imKernel : Kernel {
    Im2colProblem p;
    ElementType type;
    const DepthwiseCode& code;
    TapAxes axes;
    RowLayout to;
    ColumnLayout col;
    bool has_bias;
    FittedEpilogue epilogue;
    Along along;
    bool whole;   // all channels in one task, nothing transposed
    bool direct;  // sums along the channels are written where they belong
    std::vector<RowSection> sections;
    RowMover store_phases, store_row;
    BlockMover store_block;
    StridedCopy bias_copy;
    BlockFn gather, gather_by_tap, gather_by_position;
    double work;  // the work of a run, in units of threads_for
    // scratch of a run: arrays that all threads read, and the memory of each thread
    ScratchLayout shared, each;
    ScratchArray<float> ones_part, bias_part, result_part, rows_part;
    ScratchArray<const char*> sources_part;

    Col2imKernel(const Im2colProblem& problem, bool with_bias, int bias_dtype, const Epilogue& with_epilogue)
        : p(problem), type(float_type(p.dst_dtype)), code(vector_code().depthwise), axes(p, true),
          to(p.dst_spatial, p.dst_strides), col(p), has_bias(with_bias),
          epilogue(with_epilogue, p.c, of_positions(p.n, p.dst_spatial),
                   of_positions(p.dst_strides[0], Dims(p.dst_strides.begin() + 2, p.dst_strides.end()))),
          store_phases(type, to.inner, axes.inner.phases), store_row(type, to.inner, 1), store_block(type, to),
          bias_copy({p.c}, bias_dtype, {1}, kF32, {1}),
          gather(copy_block(BlockKind::strided, ElementType::f32, ElementType::f32)),
          gather_by_tap(gather_block(col.kernel[2])), gather_by_position(gather_block(col.position[2])) {
        name = "col2im";
        arity = (has_bias ? 3 : 2) + epilogue.operands();
        along = epilogue ? Along::channels : choose();
        whole = along == Along::channels && col.channel == 1 && to.channel == 1;
        direct = to.channel == 1 && (!epilogue || type == ElementType::f32);
        const int64_t channels = whole                      ? p.c * 4
                                 : along == Along::channels ? ChannelBlock::kLeast * 4
                                                            : kSectionBytes / kSectionOutputs;
        sections = cut_into_sections(axes.inner, std::max<int64_t>(kSectionBytes / (axes.inner.phases * channels), 4));
        const auto images = static_cast<double>(p.n * p.c), taps = static_cast<double>(product(p.kernel));
        work = images * (4 * taps * static_cast<double>(product(p.src_spatial)) +
                         static_cast<double>(product(p.dst_spatial) * item_size(p.dst_dtype)));
        lay_out_scratch();
    }

    void lay_out_scratch() {
        const int64_t taps = product(p.kernel);
        ones_part = shared.add<float>(taps);
        bias_part = shared.add<float>(has_bias ? p.c : 0);
        sources_part = each.add<const char*>(taps);
        const Widest widest(sections, axes.inner);
        const int64_t outputs = std::min(widest.outputs * axes.inner.phases, to.width());
        if (along != Along::channels) {
            result_part = each.add<float>(widest.outputs * axes.inner.phases);
            const bool copied = along == Along::space && col.position[2] != 1;
            rows_part = each.add<float>(copied ? checked_product(name, {taps, widest.outputs}) : 0);
            return;
        }
        const int64_t channels = ceil_div(p.c, std::max<int64_t>(slices(), 1));
        result_part = each.add<float>(direct ? 0 : outputs * channels);
        const int64_t lines = std::min(axes.outer[0].kernel, axes.outer[0].sources) *
                              std::min(axes.outer[1].kernel, axes.outer[1].sources);
        rows_part = each.add<float>(
            col.channel == 1 ? 0 : checked_product(name, {lines, widest.groups, axes.inner.kernel, channels}));
    }

    // Returns the tasks of a section of a line.
    int64_t slices() const { return whole ? 1 : blocks(); }

    static BlockFn gather_block(int64_t stride) {
        return copy_block(stride == 1 ? BlockKind::transposed : BlockKind::strided, ElementType::f32, ElementType::f32);
    }

    Along choose() const {
        if (col.channel == 1 && p.c >= code.min_channels) return Along::channels;
        if (col.kernel[2] == 1 && p.dilations.back() == 1 && p.strides.back() >= kLeastRun) return Along::taps;
        if (col.position[2] == 1 && to.inner == 1) return Along::space;
        return p.c >= code.min_channels ? Along::channels : Along::space;
    }

    // Returns the channels of a block: nearly equal sizes, none below a vector.
    int64_t blocks() const { return along == Along::channels ? ChannelBlock::number(p.c, ChannelBlock::kLeast) : p.c; }

    int64_t offset(int64_t n, int64_t c, const RowTap& row, int64_t source, int64_t k) const {
        const int64_t k1 = axes.outer[1].kernel;
        return n * col.batch + c * col.channel + row.source[0] * col.position[0] + row.source[1] * col.position[1] +
               source * col.position[2] + row.tap / k1 * col.kernel[0] + row.tap % k1 * col.kernel[1] +
               k * col.kernel[2];
    }

    void run(char* const* operands) const override {
        const auto* columns = reinterpret_cast<const float*>(operands[0]);
        char* dst = operands[arity - 1];
        const int64_t taps = product(p.kernel);
        const auto number_of_sections = static_cast<int64_t>(sections.size());
        const int64_t slices = this->slices(), tasks = p.n * to.rows() * number_of_sections * slices;
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        const EpilogueCall after = epilogue.call(operands + (has_bias ? 2 : 1));
        float* ones = ones_part.in(scratch.shared());
        std::fill(ones, ones + taps, 1.0f);
        float* bias = nullptr;
        if (has_bias) {
            bias = bias_part.in(scratch.shared());
            bias_copy.run(operands[1], reinterpret_cast<char*>(bias));
        }
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            char* memory = scratch.of(rank);
            std::vector<RowTap> row_list;
            for (int64_t task = begin; task < end; ++task) {
                const RowSection& section = sections[static_cast<size_t>(task / slices % number_of_sections)];
                const int64_t line = task / slices / number_of_sections, slice = task % slices;
                const int64_t n = line / to.rows(), row = line % to.rows();
                axes.taps_of_row(row, row_list);
                char* dst_row = dst + to.offset_of_row(n, 0, row) * item_size(p.dst_dtype);
                if (along == Along::channels) {
                    const int64_t first = p.c * slice / slices, last = p.c * (slice + 1) / slices;
                    float* sums = add_channels(columns, bias, n, first, last, section, row_list, dst_row, memory);
                    if (epilogue) apply(after, sums, to.offset_of_row(n, 0, row), first, last, section);
                    if (!direct) store(sums, first, last, section, dst_row);
                } else {
                    dst_row += slice * to.channel * item_size(p.dst_dtype);
                    const float start = bias ? bias[slice] : 0.0f;
                    const auto add = along == Along::taps ? &Col2imKernel::add_taps : &Col2imKernel::add_space;
                    (this->*add)(columns, ones, start, n, slice, section, row_list, dst_row, memory);
                }
            }
        });
    }

    // to[position][tap][channel], by tiles along whichever axis is contiguous in the columns.
    void gather_columns(const float* from, int64_t positions, int64_t channels, float* to_block) const {
        const int64_t kernel = axes.inner.kernel;
        const char* src = reinterpret_cast<const char*>(from);
        char* dst = reinterpret_cast<char*>(to_block);
        if (col.position[2] == 1) {
            for (int64_t k = 0; k < kernel; ++k) {
                gather_by_position(src + 4 * k * col.kernel[2], dst + 4 * k * channels,
                                   {positions, channels, 1, col.channel, kernel * channels, 1});
            }
        } else {
            for (int64_t i = 0; i < positions; ++i) {
                gather_by_tap(src + 4 * i * col.position[2], dst + 4 * i * kernel * channels,
                              {kernel, channels, col.kernel[2], col.channel, channels, 1});
            }
        }
    }

    int64_t first_output(const RowSection& section) const { return section.begin * axes.inner.phases; }
    int64_t end_output(const RowSection& section) const {
        return std::min(section.end * axes.inner.phases, to.width());
    }

    // Applies the post-ops to channels [first, last) of a section. row: the offset of the row of dst.
    void apply(const EpilogueCall& after, float* sums, int64_t row, int64_t first, int64_t last,
               const RowSection& section) const {
        const int64_t begin = first_output(section), step = direct ? to.inner : last - first;
        apply_epilogue(
            *after.params, after.operands,
            {sums, step, row + first + begin * to.inner, to.inner, end_output(section) - begin, last - first, first});
    }

    void store(const float* sums, int64_t first, int64_t last, const RowSection& section, char* dst_row) const {
        store_block.store(sums, first_output(section), end_output(section), {first, last - first, last - first},
                          dst_row);
    }

    // Sums channels [first, last) straight into dst or into a block in f32; returns the address of the section's first
    // result.
    float* add_channels(const float* columns, const float* bias, int64_t n, int64_t first, int64_t last,
                        const RowSection& section, const std::vector<RowTap>& row_list, char* dst_row,
                        char* memory) const {
        const TapAxis& inner = axes.inner;
        const int64_t channels = last - first, begin = first_output(section);
        const char** sources = sources_part.in(memory);
        float* block = direct ? nullptr : result_part.in(memory);
        // Address of (row, source, k) = rows[row] + source * source_step + k * tap_step.
        std::vector<const float*> rows;
        int64_t source_step = col.position[2], tap_step = col.kernel[2];
        if (col.channel == 1) {
            for (const RowTap& row : row_list) rows.push_back(columns + offset(n, first, row, 0, 0));
        } else {
            const int64_t positions = section.last_group - section.first_group;
            tap_step = channels;
            source_step = inner.kernel * channels;
            float* copy = rows_part.in(memory);
            for (const RowTap& row : row_list) {
                gather_columns(columns + offset(n, first, row, section.first_group, 0), positions, channels, copy);
                rows.push_back(copy - section.first_group * source_step);
                copy += positions * source_step;
            }
        }
        for (const Stretch& s : section.stretches) {
            const std::vector<Tap>& list = inner.taps[static_cast<size_t>(s.phase)];
            int64_t count = 0;
            for (const float* row : rows) {
                for (int64_t t = s.first; t < s.last; ++t) {
                    const Tap& tap = list[static_cast<size_t>(t)];
                    const float* source = row + (s.begin + tap.base) * source_step + tap.k * tap_step;
                    sources[count++] = reinterpret_cast<const char*>(source);
                }
            }
            const int64_t output = s.begin * inner.phases + s.phase;
            const int64_t step = direct ? to.inner : channels;
            char* at = direct ? dst_row + (first + output * step) * item_size(p.dst_dtype)
                              : reinterpret_cast<char*>(block + (output - begin) * step);
            code.sum_channels[direct ? float_index(type) : 0]({channels, s.end - s.begin, count, sources, source_step,
                                                               inner.phases * step, bias ? bias + first : nullptr, at});
        }
        return direct ? reinterpret_cast<float*>(dst_row) + first + begin * to.inner : block;
    }

    // With u = output + pad, the outputs of one stride, u = b * stride + r, sum the runs of columns that the
    // sources b - m hold at kernel position m * stride + r.
    void add_taps(const float* columns, const float* ones, float start, int64_t n, int64_t c, const RowSection& section,
                  const std::vector<RowTap>& row_list, char* dst_row, char* memory) const {
        const int64_t stride = p.strides.back(), kernel = p.kernel.back(), pad = p.pads_begin.back();
        const int64_t first_output = section.begin * stride;
        const int64_t end_output = std::min(section.end * stride, to.width());
        const bool direct = type == ElementType::f32 && to.inner == 1;
        float* result = direct ? reinterpret_cast<float*>(dst_row) + first_output : result_part.in(memory);
        const auto** sources = reinterpret_cast<const float**>(sources_part.in(memory));
        for (int64_t b = floor_div(first_output + pad, stride); b * stride - pad < end_output; ++b) {
            // Up to `rest` the kernel holds one more run than after it.
            const int64_t rest = kernel % stride;
            for (const auto& [from, until] : {std::pair{int64_t{0}, rest}, std::pair{rest, stride}}) {
                const int64_t r = std::max(from, first_output - (b * stride - pad));
                const int64_t end = std::min(until, end_output - (b * stride - pad));
                if (r >= end) continue;
                int64_t count = 0;
                for (const RowTap& row : row_list) {
                    for (int64_t m = 0; m * stride + r < kernel; ++m) {
                        if (b - m < 0 || b - m >= axes.inner.sources) continue;
                        sources[count++] = columns + offset(n, c, row, b - m, m * stride + r);
                    }
                }
                code.space({end - r, count, sources, ones, start, result + b * stride - pad + r - first_output});
            }
        }
        if (!direct) store_row.store(result, 0, first_output, end_output, dst_row, to.width());
    }

    void add_space(const float* columns, const float* ones, float start, int64_t n, int64_t c,
                   const RowSection& section, const std::vector<RowTap>& row_list, char* dst_row, char* memory) const {
        const TapAxis& inner = axes.inner;
        const int64_t outputs = section.end - section.begin;
        float* result = result_part.in(memory);
        const auto** sources = reinterpret_cast<const float**>(sources_part.in(memory));
        const bool direct = col.position[2] == 1;
        float* copies = direct ? nullptr : rows_part.in(memory);
        for (const Stretch& s : section.stretches) {
            const std::vector<Tap>& list = inner.taps[static_cast<size_t>(s.phase)];
            int64_t count = 0;
            for (const RowTap& row : row_list) {
                for (int64_t t = s.first; t < s.last; ++t) {
                    const Tap& tap = list[static_cast<size_t>(t)];
                    const float* source = columns + offset(n, c, row, s.begin + tap.base, tap.k);
                    if (!direct) {
                        float* copy = copies + count * outputs;
                        gather(reinterpret_cast<const char*>(source), reinterpret_cast<char*>(copy),
                               {1, s.end - s.begin, 0, col.position[2], 0, 1});
                        source = copy;
                    }
                    sources[count++] = source;
                }
            }
            code.space(
                {s.end - s.begin, count, sources, ones, start, result + s.phase * outputs + s.begin - section.begin});
        }
        store_phases.store(result, outputs, section.begin, section.end, dst_row, to.width());
    }
};

bool takes_epilogue(int64_t channels, const Dims& dst_strides) {
    return channels >= vector_code().depthwise.min_channels && dst_strides.size() > 1 && dst_strides[1] == 1;
}

std::shared_ptr<Kernel> make_col2im(const LayerSizes& layer, const Dims& col_strides, int dst_dtype,
                                    const Dims& dst_strides, bool has_bias, std::optional<int> bias_dtype,
                                    const Epilogue& epilogue) {
    const Im2colProblem problem{layer, kF32, col_strides, dst_dtype, dst_strides};
    check_columns("col2im", problem);
    float_type(bias_dtype.value_or(dst_dtype));
    if (!epilogue.empty() && !takes_epilogue(problem.c, problem.dst_strides)) {
        fail(ErrorKind::invalid_argument,
             "col2im: an epilogue needs dst channels last, and more channels than " + std::to_string(problem.c));
    }
    return std::make_shared<Col2imKernel>(problem, has_bias, bias_dtype.value_or(dst_dtype), epilogue);
}

}  // namespace

const Declaration kCol2im[] = {
    {"col2im(layer, col_strides, dst_dtype, dst_strides, has_bias=False, bias_dtype=None, epilogue=...)", make_col2im,
     "col (n, src_spatial, kernel, c), [bias (c)], epilogue's..., dst (n, c, dst_spatial)",
     "dst[position] = bias + the sum of the f32 columns that meet the position: the reverse of im2col."},
    {"col2im_takes_epilogue(channels, dst_strides)", takes_epilogue,
     "Returns whether col2im takes an epilogue for `channels` channels and these strides of dst."},
};

}  // namespace dgo
