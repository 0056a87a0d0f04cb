// Depthwise backward weights: sums over all positions, in parts whose number depends on the problem alone, so
// that the result does not depend on the number of threads.
#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/depthwise/problem.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr int64_t kSectionCells = 2048;  // of a row, between additions to the sums in memory
constexpr int64_t kMostParts = 16;
constexpr int64_t kMostSums = 1024 * 1024;  // floats, of all parts

struct GradientKernel : Kernel {
    DepthwiseProblem p;
    Cell cell;
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
    StridedCopy weights_copy;
    int64_t units, parts, sums_per_part;
    double work;  // as of threads_for
    // of a run: the sums of all parts, and what each thread works in
    ScratchLayout shared, each;
    ScratchArray<float> sums_part, src_part;
    ScratchArray<const char*> diffs_part;
    RowCache::Layout rows_layout;

    explicit GradientKernel(const DepthwiseProblem& problem)
        : p(problem), cell(float_cell(p.dtype)), code(vector_code().depthwise), axes(p, false),
          src(p.src_spatial, p.src_strides), diff(p.dst_spatial, p.dst_strides), row_taps(p.kernel.back()),
          taps(product(p.kernel)), path(choose_path(src, diff, p.c)),
          sections(cut_into_sections(axes.inner, outputs_of_section())), widest(sections, axes.inner),
          load_src(cell, src.inner, 1), load_diff(cell, diff.inner, axes.inner.advance), load_src_block(cell, src),
          load_diff_block(cell, diff), packed(p, path),
          weights_copy(packed.shape, kF32, packed.strides, p.dtype, p.weights_strides) {
        name = "depthwise_backward_weights";
        arity = 3;
        units = p.n * src.rows() * static_cast<int64_t>(sections.size());
        sums_per_part = path == Path::space ? taps * p.c : packed.floats;
        parts = std::max<int64_t>(1, std::min({units, kMostParts, kMostSums / std::max<int64_t>(sums_per_part, 1)}));
        work = work_of(p);
        lay_out_scratch();
    }

    int64_t outputs_of_section() const {
        return std::max<int64_t>(kSectionCells / (path == Path::space ? axes.inner.advance : 8), 64);
    }

    void lay_out_scratch() {
        sums_part = shared.add<float>(checked_product(name, {parts, sums_per_part}));
        diffs_part = each.add<const char*>(row_taps);
        if (path == Path::channels) return;
        const bool blocks = path == Path::blocks;
        src_part = each.add<float>(widest.outputs * (blocks ? packed.block : 1));
        rows_layout = RowCache::Layout(each, axes, blocks ? widest.sources * packed.block : widest.split);
    }

    void run(char* const* operands) const override {
        const int64_t slices = path == Path::channels ? 1
                               : path == Path::blocks ? ChannelBlock::number(p.c, packed.block)
                                                      : p.c;
        const int threads = threads_for(parts * slices, work);
        const Scratch scratch(shared, each, threads);
        float* sums = sums_part.in(scratch.shared());
        parallel_parts(threads, parts * slices, [&](int64_t begin, int64_t end, int rank) {
            char* memory = scratch.of(rank);
            for (int64_t task = begin; task < end; ++task) {
                const int64_t part = task % parts, slice = task / parts;
                float* to = sums + part * sums_per_part;
                if (path == Path::channels) {
                    sum_channels(operands[0], operands[1], part, to, memory);
                } else if (path == Path::blocks) {
                    sum_block(operands[0], operands[1], part, ChannelBlock::at(slice, p.c, packed.block), to, memory);
                } else {
                    sum_space(operands[0], operands[1], part, slice, to + slice * taps, memory);
                }
            }
        });
        parallel_for(ceil_div(sums_per_part, 1024), static_cast<double>(sums_per_part * parts * 4),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t part = 1; part < parts; ++part) {
                             const float* more = sums + part * sums_per_part;
                             for (int64_t i = begin * 1024; i < std::min(end * 1024, sums_per_part); ++i)
                                 sums[i] += more[i];
                         }
                     });
        weights_copy.run(reinterpret_cast<const char*>(sums), operands[2]);
    }

    // A row of src and one of diff_dst with channels as neighbours. Every address is that of position 0,
    // steps count elements.
    struct ChannelRows {
        int type;  // float_index
        int64_t channels;
        const char* src;
        int64_t src_step;
        const char* diff;
        int64_t diff_step;
        float* sums;  // of the kernel's row
    };
    void sum_row(const RowSection& section, const ChannelRows& rows, char* memory) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = rows.type == float_index(Cell::f32) ? 4 : 2;
        const char** diffs = diffs_part.in(memory);
        for (const Stretch& s : section.stretches) {
            for (int64_t t = s.first; t < s.last; ++t) {
                const int64_t at = s.begin * inner.advance + inner.taps[0][static_cast<size_t>(t)].base;
                diffs[t - s.first] = rows.diff + at * rows.diff_step * size;
            }
            code.channels_gradient[rows.type]({rows.channels, s.end - s.begin, s.last - s.first,
                                               rows.src + s.begin * rows.src_step * size, diffs, rows.src_step,
                                               inner.advance * rows.diff_step, rows.sums + s.first * packed.channels,
                                               packed.channels});
        }
    }

    void sum_channels(const char* src_data, const char* diff_data, int64_t part, float* sums, char* memory) const {
        std::fill(sums, sums + sums_per_part, 0.0f);
        const int64_t size = item_size(p.dtype);
        std::vector<RowTap> row_list;
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const RowSection& section = sections[static_cast<size_t>(unit % static_cast<int64_t>(sections.size()))];
            const int64_t line = unit / static_cast<int64_t>(sections.size());
            const int64_t n = line / src.rows(), row = line % src.rows();
            axes.taps_of_row(row, row_list);
            for (const RowTap& outer : row_list) {
                sum_row(section,
                        {float_index(cell), p.c, src_data + src.offset_of_row(n, 0, row) * size, src.inner,
                         diff_data + diff.offset(n, 0, outer.source[0], outer.source[1]) * size, diff.inner,
                         sums + outer.tap * row_taps * packed.channels},
                        memory);
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
        const auto number_of_sections = static_cast<int64_t>(sections.size());
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const int64_t row = unit % src.rows(), image = unit / src.rows();
            const RowSection& section = sections[static_cast<size_t>(image % number_of_sections)];
            const int64_t n = image / number_of_sections, first = first_source(section, axes.inner);
            axes.taps_of_row(row, row_list);
            load_src_block.load(src_data + src.offset_of_row(n, 0, row) * size, section.begin, section.end, block,
                                src_copy);
            for (const RowTap& outer : row_list) {
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) {
                    const char* diff_row = diff_data + diff.offset(n, 0, outer.source[0], outer.source[1]) * size;
                    load_diff_block.load(diff_row, first, end_source(section, axes.inner), block, copy);
                }
                sum_row(section,
                        {float_index(Cell::f32), block.lanes,
                         reinterpret_cast<const char*>(src_copy - section.begin * block.lanes), block.lanes,
                         reinterpret_cast<const char*>(copy - first * block.lanes), block.lanes,
                         sums + outer.tap * row_taps * packed.channels + block.first},
                        memory);
            }
        }
    }

    void sum_space(const char* src_data, const char* diff_data, int64_t part, int64_t c, float* sums,
                   char* memory) const {
        std::fill(sums, sums + taps, 0.0f);
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool src_in_place = cell == Cell::f32 && src.inner == 1;
        const bool diff_in_place = cell == Cell::f32 && diff.inner == 1 && inner.advance == 1;
        const int64_t groups = widest.groups;
        RowCache cache(rows_layout, memory);
        float* src_copy = src_part.in(memory);
        const auto** diffs = reinterpret_cast<const float**>(diffs_part.in(memory));
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

}  // namespace

std::shared_ptr<Kernel> make_depthwise_backward_weights(const DepthwiseProblem& problem) {
    check_depthwise("depthwise_backward_weights", problem);
    return std::make_shared<GradientKernel>(problem);
}

}  // namespace dgo
