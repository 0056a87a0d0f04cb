// Depthwise dgrad and fprop: every output gathers its taps, so both are one
// kernel that differs in the axes' tables.
#include <algorithm>
#include <optional>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/depthwise/problem.hpp"
#include "kernels/dot/int8.hpp"
#include "kernels/parallel.hpp"
#include "kernels/epilogue/epilogue.hpp"

namespace dgo {
namespace {

constexpr int64_t kFewestVectors = 4;  // of a task that is a part of a line

struct GatherOptions {
    bool has_bias;
    int bias_dtype;
    bool packed;  // the weights are what depthwise_packing wrote, f32
    Epilogue epilogue;    // f32 only
};

// The results of 8-bit layers that are summed in f32: exact while integers stay below 2^24.
struct GatherIntegers {
    Int8Params params;
    uint32_t flip = 0;
    int32_t zero = 0;
    ElementType dst;
    int64_t item;  // bytes of a result
};
constexpr int kGatherIntegers = 3;  // index into DepthwiseCode::gather
constexpr int64_t kBeyond = 64;      // elements after the last channel that may be read

constexpr int64_t kSectionBytes = 32 * 1024;  // bytes of outputs that a task along the channels writes, at least
constexpr int64_t kBlockElements = 512;          // positions that a task on a block of channels covers
constexpr int64_t kSectionElements = 4096;  // elements of a row that a task along space reads or writes

EpilogueParams params_of(const Epilogue& epilogue, int64_t channels, int64_t batch, const RowLayout& to) {
    return epilogue.params(channels, {batch, to.extent(0), to.extent(1), to.width()},
                           {to.batch, to.outer[0], to.outer[1], to.inner});
}

struct GatherKernel : Kernel {
    DepthwiseProblem p;
    ElementType type;
    const DepthwiseCode& code;
    TapAxes axes;
    RowLayout from, to;
    int64_t row_taps, taps;  // taps of a kernel row; of the kernel
    Path path;
    bool has_bias, ready;  // ready: the weights come packed
    Epilogue epilogue;
    EpilogueParams after;  // results
    FusedActivation last;  // all post-ops, where the vector code applies them; else none
    std::optional<GatherIntegers> integers;
    std::vector<RowSection> sections;
    int64_t lines;  // sections of all rows of results
    Widest widest;
    RowMover load, store;
    BlockMover load_block, store_block;
    PackedWeights packed;
    std::vector<PhaseTaps> phases;
    ChannelTasks channel_tasks;  // for few threads
    std::shared_ptr<Kernel> weights_copy;
    StridedCopy bias_copy;
    double work;  // the work of a run, in units of threads_for
    // scratch of a run: arrays that all threads read, and the memory of each thread
    ScratchLayout shared, each;
    ScratchArray<float> weights_part, scales_part, bias_part, result_part;
    ScratchArray<GatherSegment> segments_part;
    ScratchArray<const float*> sources_part;
    ScratchArray<float> factors_part;
    RowCache::Layout rows_layout;

    GatherKernel(const char* kernel_name, const DepthwiseProblem& problem, bool dgrad, const GatherOptions& options,
                 const std::optional<GatherIntegers>& of_bytes = {})
        : p(problem), type(number_type(p.dtype)), code(vector_code().depthwise), axes(p, dgrad),
          from(dgrad ? RowLayout(p.src_spatial, p.src_strides) : RowLayout(p.dst_spatial, p.dst_strides)),
          to(dgrad ? RowLayout(p.dst_spatial, p.dst_strides) : RowLayout(p.src_spatial, p.src_strides)),
          row_taps(p.kernel.back()), taps(product(p.kernel)), path(choose_path(p)), has_bias(options.has_bias),
          ready(options.packed), epilogue(options.epilogue), after(params_of(epilogue, p.c, p.n, to)), last(),
          integers(of_bytes), sections(cut_into_sections(axes.inner, outputs_of_section())),
          lines(p.n * to.rows() * static_cast<int64_t>(sections.size())), widest(sections, axes.inner),
          load(type, from.inner, axes.inner.advance), store(type, to.inner, axes.inner.phases), load_block(type, from),
          store_block(type, to), packed(p, path, dgrad), phases(taps_of_phases(p, axes.inner, path, packed)),
          channel_tasks(p, path, phases, widest.sources),
          weights_copy(ready ? nullptr : packed.packing(p.dtype, p.weights_strides)),
          bias_copy({p.c}, options.bias_dtype, {1}, kF32, {1}) {
        name = kernel_name;
        by = depthwise_name(dgrad ? "dgrad" : "fprop", path);
        arity = (integers ? 4 : 3) + (has_bias ? 1 : 0) + epilogue.operands();
        if (integers && path != Path::channels) {
            fail(ErrorKind::invalid_argument, name + ": channels must be contiguous, and fill a vector");
        }
        if (!integers && !epilogue.empty() && type != ElementType::f32) {
            fail(ErrorKind::invalid_argument, name + ": post-ops are applied to results in f32 only");
        }
        if (!integers && path != Path::space && !epilogue.empty()) last = fused_activation_of(after);
        work = work_of(p);
        lay_out_scratch();
    }

    // Returns the outputs of a section in each phase.
    int64_t outputs_of_section() const {
        const int64_t step = axes.inner.phases * axes.inner.advance;
        if (path == Path::blocks) return std::max<int64_t>(kBlockElements / step, 16);
        if (path == Path::space) return std::max<int64_t>(kSectionElements / step, 64);
        // tasks of groups have few channels
        const int64_t channels = p.width > 1 ? std::min(p.c, ChannelBlock::kLeast) : p.c;
        return std::max<int64_t>(kSectionBytes / (axes.inner.phases * channels * item_size(p.dtype)), 16);
    }

    void lay_out_scratch() {
        weights_part = shared.add<float>(ready ? 0 : packed.floats);
        scales_part = shared.add<float>(integers ? p.c + kBeyond : 0);
        bias_part = shared.add<float>(integers ? p.c + kBeyond : has_bias ? packed.channels : 0);
        if (path == Path::space) {
            sources_part = each.add<const float*>(taps);
            factors_part = each.add<float>(taps);
        } else {
            segments_part = each.add<GatherSegment>(taps);
        }
        if (integers) {
            // the channels of the last task, which takes the rest
            const int64_t channels = std::min(2 * channel_tasks.each, p.c);
            result_part = each.add<float>(widest.outputs * axes.inner.phases * channels + kBeyond);
        }
        if (path == Path::channels) return;
        const bool blocks = path == Path::blocks;
        result_part = each.add<float>(widest.outputs * axes.inner.phases * (blocks ? packed.block : 1));
        rows_layout = RowCache::Layout(each, axes, blocks ? widest.sources * packed.block : widest.split);
    }

    // Returns the tasks of the channels of lines: parts of each where lines are fewer than many threads.
    ChannelTasks tasks_of_lines() const {
        const int64_t threads = threads_for(INT64_MAX, work);
        if (threads < kManyThreads || lines == 0 || 2 * lines > threads) return channel_tasks;
        return channel_tasks.cut(std::max(ceil_div(p.c, threads / lines), kFewestVectors * code.lanes));
    }

    void run(char* const* operands) const override {
        const char* src = operands[0];
        char* dst = operands[arity - 1];
        const ChannelTasks parts = path == Path::channels ? tasks_of_lines() : channel_tasks;
        const int64_t tasks = lines * (path == Path::channels ? parts.number
                                       : path == Path::blocks ? packed.blocks()
                                                              : p.c);
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        const auto* weights = reinterpret_cast<const float*>(operands[1]);
        if (!ready) {
            float* const to = weights_part.in(scratch.shared());
            char* const copied[] = {operands[1], reinterpret_cast<char*>(to)};
            weights_copy->run(copied);
            weights = to;
        }
        float* bias = nullptr;
        if (integers) {
            bias = bias_part.in(scratch.shared());
            copy_channels(operands[2], scales_part.in(scratch.shared()));
            copy_channels(has_bias ? operands[3] : nullptr, bias);
        } else if (has_bias) {
            bias = bias_part.in(scratch.shared());
            bias_copy.run(operands[2], reinterpret_cast<char*>(bias));
        }
        const auto run_part = path == Path::channels ? &GatherKernel::run_channels
                              : path == Path::blocks ? &GatherKernel::run_blocks
                                                     : &GatherKernel::run_space;
        const int before = (integers ? 3 : 2) + (has_bias ? 1 : 0);
        const float* scales = integers ? scales_part.in(scratch.shared()) : nullptr;
        const Operands all{src, weights, bias, operands + before, dst, scales, parts};
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            (this->*run_part)(all, begin, end, scratch.of(rank));
        });
    }

    struct Operands {
        const char* src;
        const float *weights, *bias;
        const char* const* epilogue;
        char* dst;
        const float* scales;  // the scales of integer results, by channel
        const ChannelTasks& parts;
    };

    // to = the numbers of all channels (null: zeros), and after them the first ones again.
    void copy_channels(const char* from, float* to) const {
        if (from == nullptr) {
            std::fill_n(to, p.c, 0.0f);
        } else {
            std::copy_n(reinterpret_cast<const float*>(from), p.c, to);
        }
        for (int64_t i = 0; i < kBeyond; ++i) to[p.c + i] = to[i];
    }

    // Makes results of 8 bits, or f32, of the sums of positions from `first` on of a row.
    void finish_integers(const Operands& operands, float* sums, int64_t offset, int64_t first, int64_t end,
                         int64_t channel, int64_t channels) const {
        offset += first * to.inner + channel;
        const Int8Positions results{&integers->params,
                                    operands.scales + channel,
                                    operands.bias + channel,
                                    integers->dst,
                                    end - first,
                                    channels,
                                    reinterpret_cast<int32_t*>(sums),
                                    channels,
                                    to.inner * integers->item,
                                    operands.dst + offset * integers->item,
                                    true,
                                    channels == p.c && to.inner == p.c};
        const auto positions = vector_code().dot.int8_positions;
        if (epilogue.empty()) return positions(results, true, true);
        positions(results, true, false);
        apply_epilogue(after, operands.epilogue,
                       EpilogueRun{sums, channels, offset, to.inner, end - first, channels, channel});
        positions(results, false, true);
    }

    // Applies the post-ops to results from `first` on of a row, whose values are `step` apart.
    void finish(const Operands& operands, float* values, int64_t step, int64_t row_offset, int64_t first, int64_t end,
                int64_t channel, int64_t channels) const {
        if (epilogue.empty() || last.as != FusedActivation::As::it_is) return;
        const int64_t offset = row_offset + first * to.inner + channel;
        apply_epilogue(after, operands.epilogue,
                       EpilogueRun{values, step, offset, to.inner, end - first, channels, channel});
    }

    // The rows of a task along the channels. Every address is the address of position 0; steps count elements.
    struct ChannelRows {
        int type;  // float_index
        int64_t channels, first, head;  // of a layer with groups: the first channel
        const char* const* src;  // the source of every tap in the row list
        int64_t src_step;
        const float *weights, *bias;
        char* dst;
        int64_t dst_step;
    };
    void run_row(const RowSection& section, const std::vector<RowTap>& row_list, const ChannelRows& rows,
                 char* memory) const {
        const TapAxis& inner = axes.inner;
        for (int64_t phase = 0; phase < inner.phases; ++phase) {
            run_phase(phase, section.begin, std::min(section.end, inner.count(phase)), row_list, rows,
                      segments_part.in(memory));
        }
    }

    // Computes outputs [begin, end) of a phase.
    void run_phase(int64_t phase, int64_t begin, int64_t end, const std::vector<RowTap>& row_list,
                   const ChannelRows& rows, GatherSegment* memory) const {
        const TapAxis& inner = axes.inner;
        const PhaseTaps& plan = phases[static_cast<size_t>(phase)];
        const int64_t size = rows.type == float_index(ElementType::f32) ? 4 : rows.type == kGatherIntegers ? 1 : 2;
        const int64_t dst_size = rows.type == kGatherIntegers ? 4 : size, position = p.width * packed.channels;
        const int64_t tap_step = plan.taps.size() > 1 ? (plan.taps[1].k - plan.taps[0].k) * position : 0;
        for (const int64_t end_class = std::min(begin + plan.classes, end); begin < end_class; ++begin) {
            GatherRun run{rows.channels,
                          p.c - rows.first,
                          rows.head,
                          p.width,
                          packed.turned,
                          rows.first,
                          ceil_div(end - begin, plan.classes),
                          plan.advance,
                          plan.unit * rows.src_step,
                          inner.phases * plan.classes * rows.dst_step,
                          tap_step,
                          packed.channels,
                          {},
                          rows.bias,
                          rows.dst + (begin * inner.phases + phase) * rows.dst_step * dst_size,
                          last,
                          integers ? integers->flip : 0,
                          integers ? integers->zero : 0};
            GatherSegment* at = memory;
            int64_t first_tap = 0;
            for (int part = 0; part < 2; ++part) {
                run.parts[part] = {at, static_cast<int64_t>(row_list.size()) * plan.counts[part], plan.sizes[part]};
                // row by row: neighbouring taps meet the same lines of memory
                for (size_t i = 0; i < row_list.size(); ++i) {
                    for (int64_t s = 0; s < plan.counts[part]; ++s) {
                        const Tap& tap = plan.taps[static_cast<size_t>(first_tap + s * plan.sizes[part])];
                        const int64_t source = begin * inner.advance + tap.base;
                        // all rows have the units of the first one
                        const GatherSegment* const alike = i > 0 ? at - plan.counts[part] : nullptr;
                        *at++ = {rows.src[i] + source * rows.src_step * size,
                                 rows.weights + (row_list[i].tap * row_taps + tap.k) * position,
                                 alike ? alike->begin : ceil_div(-source, plan.unit),
                                 alike ? alike->end : ceil_div(inner.sources - source, plan.unit)};
                    }
                }
                first_tap += plan.counts[part] * plan.sizes[part];
            }
            code.gather[rows.type](run);
        }
    }

    void run_channels(const Operands& operands, int64_t begin, int64_t end, char* memory) const {
        const auto& [src, weights, bias, after_operands, dst, scales, parts] = operands;
        const int64_t size = item_size(p.dtype);
        std::vector<RowTap> row_list;
        std::vector<const char*> rows;
        const int64_t head = integers ? 0 : parts.head(src, from, item_size(p.dtype));
        // weights of groups are read again for each row, which takes less time than rows that are no longer near, unless
        // an image has fewer sources
        const bool grouped = p.width > 1 && taps * p.width <= from.rows() * from.width();
        const int64_t blocks = parts.number, number = static_cast<int64_t>(sections.size());
        for (int64_t task = begin; task < end; ++task) {
            const int64_t image = task / (blocks * to.rows());
            const int64_t row = (grouped ? task / blocks : task) % to.rows();
            const int64_t block = (grouped ? task : task / to.rows()) % blocks;
            const RowSection& section = sections[static_cast<size_t>(image % number)];
            const ChannelTasks::Part part = parts.at(block, head);
            const int64_t n = image / number, first = part.first;
            axes.taps_of_row(row, row_list);
            rows.resize(row_list.size());
            for (size_t i = 0; i < rows.size(); ++i) {
                rows[i] = src + (from.offset(n, 0, row_list[i].source[0], row_list[i].source[1]) + first) * size;
            }
            const int64_t offset = to.offset_of_row(n, 0, row);
            const int64_t begun = section.begin * axes.inner.phases;
            const int64_t ended = std::min(section.end * axes.inner.phases, to.width());
            if (integers) {
                float* sums = result_part.in(memory);
                run_row(section, row_list,
                        {kGatherIntegers, part.channels, first, 0, rows.data(), from.inner, weights + first, nullptr,
                         reinterpret_cast<char*>(sums - begun * part.channels), part.channels},
                        memory);
                finish_integers(operands, sums, offset, begun, ended, first, part.channels);
                continue;
            }
            run_row(section, row_list,
                    {float_index(type), part.channels, first, part.head, rows.data(), from.inner, weights + first,
                     bias ? bias + first : nullptr, dst + (offset + first) * size, to.inner},
                    memory);
            finish(operands, reinterpret_cast<float*>(dst) + offset + begun * to.inner + first, to.inner, offset, begun,
                   ended, first, part.channels);
        }
    }

    void run_blocks(const Operands& operands, int64_t begin, int64_t end, char* memory) const {
        const auto& [src, weights, bias, after_operands, dst, scales, parts] = operands;
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool in_place = type == ElementType::f32 && to.channel == 1;
        const bool may_read_in_place = type == ElementType::f32 && from.channel == 1 && reads_where_they_lie(p);
        RowCache cache(rows_layout, memory);
        float* result = result_part.in(memory);
        std::vector<RowTap> row_list;
        std::vector<const char*> rows;
        const int64_t blocks = packed.blocks(), number_of_sections = static_cast<int64_t>(sections.size());
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task % to.rows(), image = task / to.rows();
            const RowSection& section = sections[static_cast<size_t>(image % number_of_sections)];
            const int64_t n = image / number_of_sections / blocks;
            const ChannelBlock block = packed.block_at(image / number_of_sections % blocks);
            const int64_t first = first_source(section, inner), first_output = section.begin * inner.phases;
            const bool read_in_place = may_read_in_place && block.real == block.lanes;
            const int64_t src_step = read_in_place ? from.inner : block.lanes;
            axes.taps_of_row(row, row_list);
            rows.resize(row_list.size());
            for (size_t i = 0; i < rows.size(); ++i) {
                const RowTap& outer = row_list[i];
                const char* src_row = src + from.offset(n, 0, outer.source[0], outer.source[1]) * size;
                if (read_in_place) {
                    rows[i] = src_row + block.first * size;
                    continue;
                }
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) {
                    load_block.load(src_row, first, end_source(section, inner), block, copy);
                }
                rows[i] = reinterpret_cast<const char*>(copy - first * block.lanes);
            }
            const int64_t offset = to.offset_of_row(n, 0, row);
            const int64_t end_output = std::min(section.end * inner.phases, to.width());
            char* dst_row = dst + offset * size;
            const float* block_bias = bias ? bias + block.first : nullptr;
            if (in_place && block.real == block.lanes) {
                run_row(section, row_list,
                        {float_index(ElementType::f32), block.lanes, 0, 0, rows.data(), src_step, weights + block.first,
                         block_bias, dst_row + block.first * size, to.inner},
                        memory);
                finish(operands, reinterpret_cast<float*>(dst_row) + first_output * to.inner + block.first, to.inner,
                       offset, first_output, end_output, block.first, block.real);
                continue;
            }
            run_row(section, row_list,
                    {float_index(ElementType::f32), block.lanes, 0, 0, rows.data(), src_step, weights + block.first,
                     block_bias, reinterpret_cast<char*>(result - first_output * block.lanes), block.lanes},
                    memory);
            finish(operands, result, block.lanes, offset, first_output, end_output, block.first, block.real);
            store_block.store(result, first_output, end_output, block, dst_row);
        }
    }

    // Applies the post-ops to a row of one channel, phase by phase.
    void finish_space(const Operands& operands, const RowSection& section, float* out, int64_t n, int64_t c,
                      int64_t row) const {
        if (epilogue.empty()) return;
        const TapAxis& inner = axes.inner;
        for (int64_t phase = 0; phase < inner.phases; ++phase) {
            const int64_t count = std::min(section.end, inner.count(phase)) - section.begin;
            if (count <= 0) continue;
            float* const values = out + phase * widest.outputs;
            const int64_t offset = to.offset_of_row(n, c, row) + (section.begin * inner.phases + phase) * to.inner;
            if (epilogue.alike()) {
                vector_code().epilogue.apply(after, operands.epilogue, {&values, &offset, 1, count, 0});
            } else {
                apply_epilogue(after, operands.epilogue,
                               EpilogueRun{values, 1, offset, to.inner * inner.phases, count, 1, c});
            }
        }
    }

    void run_space(const Operands& operands, int64_t begin, int64_t end, char* memory) const {
        const auto& [src, weights, bias, after_operands, dst, scales, parts] = operands;
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool read_in_place = type == ElementType::f32 && from.inner == 1 && inner.advance == 1;
        const bool write_in_place = type == ElementType::f32 && to.inner == 1 && inner.phases == 1;
        const int64_t groups = widest.groups, outputs = widest.outputs;
        RowCache cache(rows_layout, memory);
        float* result = result_part.in(memory);
        const float** sources = sources_part.in(memory);
        float* factors = factors_part.in(memory);
        std::vector<RowTap> row_list;
        std::vector<const float*> rows;
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task % to.rows(), image = task / to.rows();
            const auto number_of_sections = static_cast<int64_t>(sections.size());
            const RowSection& section = sections[static_cast<size_t>(image % number_of_sections)];
            const int64_t c = image / number_of_sections % p.c, n = image / number_of_sections / p.c;
            axes.taps_of_row(row, row_list);
            rows.clear();
            for (const RowTap& outer : row_list) {
                const char* src_row = src + from.offset(n, c, outer.source[0], outer.source[1]) * size;
                if (read_in_place) {
                    rows.push_back(reinterpret_cast<const float*>(src_row) + section.first_group);
                    continue;
                }
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) load.load(src_row, from.width(), section.first_group, section.last_group, copy, groups);
                rows.push_back(copy);
            }
            char* dst_row = dst + to.offset_of_row(n, c, row) * size;
            float* out = write_in_place ? reinterpret_cast<float*>(dst_row) + section.begin : result;
            for (const Stretch& s : section.stretches) {
                const std::vector<Tap>& list = inner.taps[static_cast<size_t>(s.phase)];
                int64_t count = 0;
                for (size_t i = 0; i < row_list.size(); ++i) {
                    const float* weights_row = weights + c * taps + row_list[i].tap * row_taps;
                    for (int64_t t = s.first; t < s.last; ++t) {
                        const Tap& tap = list[static_cast<size_t>(t)];
                        const int64_t group = floor_div(tap.base, inner.advance);
                        const int64_t place = (tap.base - group * inner.advance) * groups;
                        sources[count] = rows[i] + place + s.begin + group - section.first_group;
                        factors[count++] = weights_row[tap.k];
                    }
                }
                code.space({s.end - s.begin, count, sources, factors, bias ? bias[c] : 0.0f,
                            out + s.phase * outputs + s.begin - section.begin});
            }
            finish_space(operands, section, out, n, c, row);
            if (!write_in_place) store.store(result, outputs, section.begin, section.end, dst_row, to.width());
        }
    }
};

template <bool dgrad>
std::shared_ptr<Kernel> make_gather(const DepthwiseProblem& problem, bool has_bias, std::optional<int> bias_dtype,
                                    bool packed, const Epilogue& epilogue) {
    constexpr const char* name = dgrad ? "depthwise_dgrad" : "depthwise_fprop";
    check_depthwise(name, problem);
    float_type(problem.dtype);
    const GatherOptions options{has_bias, bias_dtype.value_or(problem.dtype), packed, epilogue};
    float_type(options.bias_dtype);
    return std::make_shared<GatherKernel>(name, problem, dgrad, options);
}

std::shared_ptr<Kernel> make_int8_gather(const DepthwiseProblem& problem, bool dgrad, int src_zero, int dst_dtype,
                                         const IntegerResult& result, bool has_bias, const Epilogue& epilogue) {
    constexpr const char* name = "int8_depthwise_gather";
    check_depthwise(name, problem);
    check_number(name, "width", problem.width, 1, 1);
    GatherIntegers integers;
    integers.flip = integer_type(name, "src", problem.dtype) == ElementType::s8 ? 0x80 : 0;
    integers.zero = unsigned_zero(name, problem.dtype, src_zero);
    integers.dst = number_type(dst_dtype);
    if (!is_byte(integers.dst)) float_type(dst_dtype);
    integers.item = item_size(dst_dtype);
    set_results(name, result, dst_dtype, has_bias ? kF32 : 0, integers.params);
    const GatherOptions options{has_bias, kF32, true, epilogue};
    return std::make_shared<GatherKernel>(name, problem, dgrad, options, integers);
}

std::tuple<std::shared_ptr<Kernel>, int64_t, Dims, Dims> make_packing(const DepthwiseProblem& problem, bool dgrad) {
    check_depthwise("depthwise_packing", problem);
    const int dtype = is_byte(number_type(problem.dtype)) ? kF32 : problem.dtype;
    float_type(dtype);
    const PackedWeights packed(problem, choose_path(problem), dgrad);
    return {packed.packing(dtype, problem.weights_strides), packed.floats, packed.shape, packed.strides};
}

}  // namespace

const Declaration kDepthwiseGather[] = {
    {"depthwise_dgrad(problem, has_bias=False, bias_dtype=None, packed=False, epilogue=...)", make_gather<true>,
     "src (n, c, src_spatial), weights (c, kernel), [bias (c)], epilogue's..., dst (n, c, dst_spatial)",
     "dst = bias + the transposed convolution of src; every channel has its own kernel."},
    {"depthwise_fprop(problem, has_bias=False, bias_dtype=None, packed=False, epilogue=...)", make_gather<false>,
     "diff_dst (n, c, dst_spatial), weights (c, kernel), [bias (c)], epilogue's..., diff_src (n, c, src_spatial)",
     "diff_src = bias + the ordinary convolution of diff_dst; every channel has its own kernel."},
    {"int8_depthwise_gather(problem, dgrad, src_zero, dst_dtype, result=None, has_bias=False, "
     "epilogue=...)",
     make_int8_gather, "src (n, c, spatial), packed, scales (c), [bias (c)], epilogue's..., dst (n, c, spatial)",
     "dst = results of the sums of src * weights, as int8_product makes them. The problem is of s8 or u8, channels "
     "last, at least 8; packed holds integers in f32, from depthwise_packing. Sums are f32, exact below 2^24."},
    {"depthwise_packing(problem, dgrad)", make_packing, "weights (c, kernel), packed",
     "Returns the kernel that packs weights for kernels of the direction with packed=True, the floats of packed, and "
     "the shape and strides of the weights in packed."},
};

}  // namespace dgo
