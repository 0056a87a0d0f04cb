// Depthwise wgrad: sums over all positions, in parts whose number depends on the problem alone, so
// that the result does not depend on the number of threads.
#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/depthwise/problem.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr int64_t kSectionElements = 2048;  // positions of a row between two additions to the sums in memory
constexpr int64_t kMostParts = 16;
constexpr int64_t kSlice = 128;  // channels of a task at least, where parts are too few for many threads
constexpr int64_t kLeastOfPart = 128;  // positions: fewer cost less than adding up another part's sums
constexpr int64_t kTogether = 128;     // positions between additions to the sums in memory, in whole rows
constexpr int64_t kMostSums = 1024 * 1024;  // floats, of all parts

struct GradientKernel : Kernel {
    DepthwiseProblem p;
    ElementType type;
    const DepthwiseCode& code;
    TapAxes axes;  // diff_src's: a position of src meets the taps' positions of diff_dst
    RowLayout src, diff;
    int64_t row_taps, taps;
    Path path;
    std::vector<RowSection> sections;
    Widest widest;
    RowMover load_src, load_diff;
    BlockMover load_src_block, load_diff_block;
    PackedWeights packed;
    std::vector<PhaseTaps> phases;
    int64_t units, sums_per_part, parts;
    ChannelTasks channel_tasks;
    StridedCopy weights_copy;
    int64_t rows_together;
    double work;  // the work of a run, in units of threads_for
    // scratch of a run: the sums of all parts, and the memory of each thread
    ScratchLayout shared, each;
    ScratchArray<float> sums_part, src_part;
    ScratchArray<const float*> diffs_part;
    ScratchArray<GradientSegment> segments_part;
    ScratchArray<GradientRow> gradient_rows_part;
    RowCache::Layout rows_layout;

    explicit GradientKernel(const DepthwiseProblem& problem)
        : p(problem), type(float_type(p.dtype)), code(vector_code().depthwise), axes(p, false),
          src(p.src_spatial, p.src_strides), diff(p.dst_spatial, p.dst_strides), row_taps(p.kernel.back()),
          taps(product(p.kernel)), path(choose_path(p)), sections(cut_into_sections(axes.inner, outputs_of_section())),
          widest(sections, axes.inner), load_src(type, src.inner, 1), load_diff(type, diff.inner, axes.inner.advance),
          load_src_block(type, src), load_diff_block(type, diff), packed(p, path),
          phases(taps_of_phases(p, axes.inner, path, packed)),
          units(p.n * src.rows() * static_cast<int64_t>(sections.size())),
          sums_per_part(path == Path::space ? taps * p.c : packed.floats), parts(number_of_parts()),
          // whole rows are read in order: slices of wide ones leave most of each page to a later task
          channel_tasks(
              ChannelTasks(p, path, phases, widest.sources).cut(std::max(kSlice, ceil_div(p.c, kMostParts / parts)))),
          weights_copy(packed.shape, kF32, packed.strides, p.dtype, p.weights_strides) {
        name = "depthwise_wgrad";
        by = depthwise_name("wgrad", path);
        arity = 3;
        rows_together =
            path == Path::channels ? std::max<int64_t>(kTogether / std::max<int64_t>(widest.outputs, 1), 1) : 1;
        work = work_of(p);
        lay_out_scratch();
    }

    int64_t number_of_parts() const {
        return std::max<int64_t>(1, std::min({units, kMostParts, kMostSums / std::max<int64_t>(sums_per_part, 1),
                                              p.n * product(p.src_spatial) / kLeastOfPart}));
    }

    int64_t outputs_of_section() const {
        return std::max<int64_t>(kSectionElements / (path == Path::space ? axes.inner.advance : 8), 64);
    }

    void lay_out_scratch() {
        sums_part = shared.add<float>(checked_product(name, {parts, sums_per_part}));
        if (path == Path::space) {
            diffs_part = each.add<const float*>(row_taps);
        } else {
            segments_part = each.add<GradientSegment>(checked_product(name, {taps, rows_together}));
            gradient_rows_part = each.add<GradientRow>(rows_together);
        }
        if (path == Path::channels) return;
        const bool blocks = path == Path::blocks;
        src_part = each.add<float>(widest.outputs * (blocks ? packed.block : 1));
        rows_layout = RowCache::Layout(each, axes, blocks ? widest.sources * packed.block : widest.split);
    }

    void run(char* const* operands) const override {
        const int64_t slices = path == Path::channels ? channel_tasks.number
                               : path == Path::blocks ? packed.blocks()
                                                      : p.c;
        const int threads = threads_for(parts * slices, work);
        const Scratch scratch(shared, each, threads);
        float* sums = sums_part.in(scratch.shared());
        const int64_t head = channel_tasks.head(operands[0], src, item_size(p.dtype));
        parallel_parts(threads, parts * slices, [&](int64_t begin, int64_t end, int rank) {
            char* memory = scratch.of(rank);
            for (int64_t task = begin; task < end; ++task) {
                const int64_t part = task % parts, slice = task / parts;
                float* to = sums + part * sums_per_part;
                if (path == Path::channels) {
                    sum_channels(operands[0], operands[1], part, channel_tasks.at(slice, head), to, memory);
                } else if (path == Path::blocks) {
                    sum_block(operands[0], operands[1], part, packed.block_at(slice), to, memory);
                } else {
                    sum_space(operands[0], operands[1], part, slice, to + slice * taps, memory);
                }
            }
        });
        add_up_parts(sums, sums_per_part, parts);
        weights_copy.run(reinterpret_cast<const char*>(sums), operands[2]);
    }

    // A section of a row of src, and the rows of diff_dst that it meets, with channels as neighbours. Every address is
    // the address of position 0.
    struct ChannelRow {
        const RowSection* section;
        const char* src;
        std::vector<const char*> diff;  // [row of the kernel]: the row of diff_dst that it meets; null: none
    };
    // Parameters that all rows share; steps count elements.
    struct ChannelRows {
        int type;  // float_index
        int64_t channels, first, head, src_step, diff_step;
        float* sums;
    };
    void sum_rows(const std::vector<ChannelRow>& list, const ChannelRows& rows, char* memory) const {
        const TapAxis& inner = axes.inner;
        const PhaseTaps& plan = phases[0];
        const int64_t size = rows.type == float_index(ElementType::f32) ? 4 : 2;
        const int64_t position = p.width * packed.channels;
        const int64_t tap_step = plan.taps.size() > 1 ? (plan.taps[1].k - plan.taps[0].k) * position : 0;
        GradientRow* const gradient_rows = gradient_rows_part.in(memory);
        for (int64_t turn = 0; turn < plan.classes; ++turn) {
            int64_t first_tap = 0;
            for (int part = 0; part < 2; ++part) {
                const int64_t number = plan.counts[part] * (taps / row_taps);
                GradientSegment* segment = segments_part.in(memory);
                int64_t count = 0;
                for (const ChannelRow& row : list) {
                    const int64_t begin = row.section->begin + turn;
                    if (begin >= row.section->end) continue;
                    gradient_rows[count++] = {row.src + begin * rows.src_step * size,
                                              ceil_div(row.section->end - begin, plan.classes), segment};
                    // row by row: neighbouring taps meet the same lines of memory
                    for (size_t i = 0; i < row.diff.size(); ++i) {
                        const char* diff_row = row.diff[i];
                        for (int64_t s = 0; s < plan.counts[part]; ++s) {
                            const Tap& tap = plan.taps[static_cast<size_t>(first_tap + s * plan.sizes[part])];
                            const int64_t source = begin * inner.advance + tap.base;
                            float* sums = rows.sums + (static_cast<int64_t>(i) * row_taps + tap.k) * position;
                            *segment++ = diff_row == nullptr
                                             ? GradientSegment{nullptr, sums, 0, 0}
                                             : GradientSegment{diff_row + source * rows.diff_step * size, sums,
                                                               ceil_div(-source, plan.unit),
                                                               ceil_div(inner.sources - source, plan.unit)};
                        }
                    }
                }
                first_tap += plan.counts[part] * plan.sizes[part];
                if (number == 0 || count == 0) continue;
                code.channels_gradient[rows.type]({rows.channels, rows.head, p.width, rows.first, p.c - rows.first,
                                                   plan.advance, plan.sizes[part], plan.classes * rows.src_step,
                                                   plan.unit * rows.diff_step, tap_step, packed.channels, gradient_rows,
                                                   count, number});
            }
        }
    }

    void sum_channels(const char* src_data, const char* diff_data, int64_t part, const ChannelTasks::Part& channels,
                      float* sums, char* memory) const {
        const int64_t size = item_size(p.dtype), first = channels.first;
        for (int64_t tap = 0; tap < taps * p.width; ++tap) {
            std::fill_n(sums + tap * packed.channels + first, channels.channels, 0.0f);
        }
        const ChannelRows rows{float_index(type), channels.channels, first,       channels.head,
                               src.inner,         diff.inner,        sums + first};
        std::vector<RowTap> row_list;
        std::vector<ChannelRow> list;
        const int64_t end = units * (part + 1) / parts;
        for (int64_t unit = units * part / parts; unit < end; ++unit) {
            const int64_t row = unit % src.rows(), image = unit / src.rows();
            const auto number = static_cast<int64_t>(sections.size());
            const int64_t n = image / number;
            axes.taps_of_row(row, row_list);
            ChannelRow& next = list.emplace_back();
            next.section = &sections[static_cast<size_t>(image % number)];
            next.src = src_data + (src.offset_of_row(n, 0, row) + first) * size;
            next.diff.assign(static_cast<size_t>(taps / row_taps), nullptr);
            for (const RowTap& outer : row_list) {
                next.diff[static_cast<size_t>(outer.tap)] =
                    diff_data + (diff.offset(n, 0, outer.source[0], outer.source[1]) + first) * size;
            }
            if (static_cast<int64_t>(list.size()) == rows_together || unit + 1 == end) {
                sum_rows(list, rows, memory);
                list.clear();
            }
        }
    }

    void sum_block(const char* src_data, const char* diff_data, int64_t part, const ChannelBlock& block, float* sums,
                   char* memory) const {
        for (int64_t tap = 0; tap < taps; ++tap) {
            float* row = sums + tap * packed.channels + block.first;
            std::fill(row, row + packed.block, 0.0f);
        }
        const int64_t size = item_size(p.dtype);
        RowCache cache(rows_layout, memory);
        float* src_copy = src_part.in(memory);
        std::vector<RowTap> row_list;
        std::vector<ChannelRow> list(1);
        const auto number_of_sections = static_cast<int64_t>(sections.size());
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const int64_t row = unit % src.rows(), image = unit / src.rows();
            const RowSection& section = sections[static_cast<size_t>(image % number_of_sections)];
            const int64_t n = image / number_of_sections, first = first_source(section, axes.inner);
            axes.taps_of_row(row, row_list);
            load_src_block.load(src_data + src.offset_of_row(n, 0, row) * size, section.begin, section.end, block,
                                src_copy);
            list[0].diff.assign(static_cast<size_t>(taps / row_taps), nullptr);
            for (const RowTap& outer : row_list) {
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) {
                    const char* diff_row = diff_data + diff.offset(n, 0, outer.source[0], outer.source[1]) * size;
                    load_diff_block.load(diff_row, first, end_source(section, axes.inner), block, copy);
                }
                list[0].diff[static_cast<size_t>(outer.tap)] =
                    reinterpret_cast<const char*>(copy - first * block.lanes);
            }
            list[0].section = &section;
            list[0].src = reinterpret_cast<const char*>(src_copy - section.begin * block.lanes);
            sum_rows(list,
                     {float_index(ElementType::f32), block.lanes, 0, 0, block.lanes, block.lanes, sums + block.first},
                     memory);
        }
    }

    void sum_space(const char* src_data, const char* diff_data, int64_t part, int64_t c, float* sums,
                   char* memory) const {
        std::fill(sums, sums + taps, 0.0f);
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool src_in_place = type == ElementType::f32 && src.inner == 1;
        const bool diff_in_place = type == ElementType::f32 && diff.inner == 1 && inner.advance == 1;
        const int64_t groups = widest.groups;
        RowCache cache(rows_layout, memory);
        float* src_copy = src_part.in(memory);
        const float** diffs = diffs_part.in(memory);
        std::vector<RowTap> row_list;
        const auto number_of_sections = static_cast<int64_t>(sections.size());
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const int64_t row = unit % src.rows(), image = unit / src.rows();
            const RowSection& section = sections[static_cast<size_t>(image % number_of_sections)];
            const int64_t n = image / number_of_sections;
            const char* src_row = src_data + src.offset_of_row(n, c, row) * size;
            const float* source = reinterpret_cast<const float*>(src_row) + section.begin;
            if (!src_in_place) {
                load_src.load(src_row, src.width(), section.begin, section.end, src_copy, 0);
                source = src_copy;
            }
            axes.taps_of_row(row, row_list);
            for (const RowTap& outer : row_list) {
                const char* diff_row = diff_data + diff.offset(n, c, outer.source[0], outer.source[1]) * size;
                const float* rows = reinterpret_cast<const float*>(diff_row) + section.first_group;
                if (!diff_in_place) {
                    bool fresh;
                    float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                    if (fresh) {
                        load_diff.load(diff_row, diff.width(), section.first_group, section.last_group, copy, groups);
                    }
                    rows = copy;
                }
                for (const Stretch& s : section.stretches) {
                    for (int64_t t = s.first; t < s.last; ++t) {
                        const int64_t base = inner.taps[0][static_cast<size_t>(t)].base;
                        const int64_t group = floor_div(base, inner.advance);
                        const int64_t place = (base - group * inner.advance) * groups;
                        diffs[t - s.first] = rows + place + s.begin + group - section.first_group;
                    }
                    code.space_gradient({s.end - s.begin, s.last - s.first, source + s.begin - section.begin, diffs,
                                         sums + outer.tap * row_taps + s.first});
                }
            }
        }
    }
};

std::shared_ptr<Kernel> make_gradient(const DepthwiseProblem& problem) {
    check_depthwise("depthwise_wgrad", problem);
    float_type(problem.dtype);
    if (problem.width > 1 && !gradient_of_groups(problem.c, problem.width)) {
        fail(ErrorKind::invalid_argument, "depthwise_wgrad: there is no gradient of groups of " +
                                              std::to_string(problem.width) +
                                              " channels; a power of two or whole vectors are needed");
    }
    return std::make_shared<GradientKernel>(problem);
}

}  // namespace

const Declaration kDepthwiseGradient{"depthwise_wgrad(problem)", make_gradient,
                                     "src (n, c, src_spatial), diff_dst (n, c, dst_spatial), diff_weights (c, kernel)",
                                     "diff_weights[c, k] = the sum over n and positions of src * diff_dst, with the "
                                     "same bits for any number of threads. Groups: see `gathers_groups`."};

}  // namespace dgo
