// Depthwise backward weights: sums over all positions, in parts whose number depends on the problem alone, so
// that the result does not depend on the number of threads.
#include <algorithm>

#include "depthwise.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace dgo {
namespace {

constexpr int kF32 = 3;
constexpr int64_t kPieceCells = 2048;  // of a row, between additions to the sums in memory
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
    std::vector<Piece> pieces;
    RowMover load_src, load_diff;
    BlockMover load_src_block, load_diff_block;
    PackedWeights packed;
    CopyPlan weights_plan;
    int64_t units, parts, sums_per_part, work;

    explicit GradientKernel(const DepthwiseProblem& problem)
        : p(problem), cell(float_cell(p.dtype)), code(vector_code().depthwise), axes(p, false),
          src(p.src_spatial, p.src_strides), diff(p.dst_spatial, p.dst_strides), row_taps(p.kernel.back()),
          taps(product(p.kernel)), path(choose_path(src, diff, p.c)), load_src(cell, src.inner, 1),
          load_diff(cell, diff.inner, axes.inner.advance), load_src_block(cell, src),
          load_diff_block(cell, diff), packed(p, path),
          weights_plan(packed.shape, kF32, packed.strides, p.weights_dtype, p.weights_strides) {
        name = "depthwise_backward_weights";
        arity = 3;
        const int64_t cells = path == Path::space ? kPieceCells / axes.inner.advance : kPieceCells / 8;
        pieces = cut_into_pieces(axes.inner, std::max<int64_t>(cells, 64));
        units = p.n * src.rows() * static_cast<int64_t>(pieces.size());
        sums_per_part = path == Path::space ? taps * p.c : packed.floats;
        parts = std::max<int64_t>(
            1, std::min({units, kMostParts, kMostSums / std::max<int64_t>(sums_per_part, 1)}));
        const int64_t images = p.n * p.c;
        const int64_t all = images * (product(p.src_spatial) + product(p.dst_spatial)) * item_size(p.dtype);
        work = std::max(all, images * product(p.src_spatial) * taps / 2);
    }

    void run(char* const* operands) const override {
        float* sums = scratch<float>(Room::partial_sums, static_cast<size_t>(parts * sums_per_part));
        const int64_t slices = path == Path::channels ? 1
                               : path == Path::blocks ? ChannelBlock::number(p.c, packed.block)
                                                      : p.c;
        parallel_for(parts * slices, work, [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t part = task % parts, slice = task / parts;
                float* to = sums + part * sums_per_part;
                if (path == Path::channels) {
                    sum_channels(operands[0], operands[1], part, to);
                } else if (path == Path::blocks) {
                    sum_block(operands[0], operands[1], part, ChannelBlock::at(slice, p.c, packed.block), to);
                } else {
                    sum_space(operands[0], operands[1], part, slice, to + slice * taps);
                }
            }
        });
        parallel_for(ceil_div(sums_per_part, 1024), sums_per_part * parts * 4,
                     [&](int64_t begin, int64_t end) {
                         for (int64_t part = 1; part < parts; ++part) {
                             const float* more = sums + part * sums_per_part;
                             for (int64_t i = begin * 1024; i < std::min(end * 1024, sums_per_part); ++i)
                                 sums[i] += more[i];
                         }
                     });
        weights_plan.run(reinterpret_cast<const char*>(sums), operands[2]);
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
    void sum_row(const Piece& piece, const ChannelRows& rows) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = rows.type == float_index(Cell::f32) ? 4 : 2;
        const char** diffs = scratch<const char*>(Room::pointers, static_cast<size_t>(row_taps));
        for (const Segment& s : piece.segments) {
            for (int64_t t = s.first; t < s.last; ++t) {
                const int64_t at = s.begin * inner.advance + inner.taps[0][static_cast<size_t>(t)].base;
                diffs[t - s.first] = rows.diff + at * rows.diff_step * size;
            }
            code.channels_gradient[rows.type]({rows.channels, s.end - s.begin, s.last - s.first,
                                               rows.src + s.begin * rows.src_step * size, diffs,
                                               rows.src_step, inner.advance * rows.diff_step,
                                               rows.sums + s.first * packed.channels, packed.channels});
        }
    }

    void sum_channels(const char* src_data, const char* diff_data, int64_t part, float* sums) const {
        std::fill(sums, sums + sums_per_part, 0.0f);
        const int64_t size = item_size(p.dtype);
        std::vector<RowTap> row_list;
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const Piece& piece = pieces[static_cast<size_t>(unit % static_cast<int64_t>(pieces.size()))];
            const int64_t line = unit / static_cast<int64_t>(pieces.size());
            const int64_t n = line / src.rows(), row = line % src.rows();
            axes.taps_of_row(row, row_list);
            for (const RowTap& outer : row_list) {
                sum_row(piece,
                        {float_index(cell), p.c, src_data + src.offset_of_row(n, 0, row) * size, src.inner,
                         diff_data + diff.offset(n, 0, outer.source[0], outer.source[1]) * size, diff.inner,
                         sums + outer.tap * row_taps * packed.channels});
            }
        }
    }

    void sum_block(const char* src_data, const char* diff_data, int64_t part, const ChannelBlock& block,
                   float* sums) const {
        for (int64_t tap = 0; tap < taps; ++tap) {
            float* row = sums + tap * packed.channels + block.first;
            std::fill(row, row + packed.block, 0.0f);
        }
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const auto first_source = [&](const Piece& piece) { return piece.first_group * inner.advance; };
        const auto end_source = [&](const Piece& piece) {
            return std::min(piece.last_group * inner.advance, diff.width());
        };
        int64_t positions = 0, outputs = 0;
        for (const Piece& piece : pieces) {
            positions = std::max(positions, end_source(piece) - first_source(piece));
            outputs = std::max(outputs, piece.end - piece.begin);
        }
        RowCache cache({axes.outer[0].span(), axes.outer[1].span()}, positions * packed.block);
        float* src_copy = scratch<float>(Room::result, static_cast<size_t>(outputs * packed.block));
        std::vector<RowTap> row_list;
        const auto number_of_pieces = static_cast<int64_t>(pieces.size());
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const int64_t row = unit % src.rows(), image = unit / src.rows();
            const Piece& piece = pieces[static_cast<size_t>(image % number_of_pieces)];
            const int64_t n = image / number_of_pieces;
            axes.taps_of_row(row, row_list);
            load_src_block.load(src_data + src.offset_of_row(n, 0, row) * size, piece.begin, piece.end, block,
                                src_copy);
            for (const RowTap& outer : row_list) {
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) {
                    const char* diff_row =
                        diff_data + diff.offset(n, 0, outer.source[0], outer.source[1]) * size;
                    load_diff_block.load(diff_row, first_source(piece), end_source(piece), block, copy);
                }
                sum_row(piece,
                        {float_index(Cell::f32), block.lanes,
                         reinterpret_cast<const char*>(src_copy - piece.begin * block.lanes), block.lanes,
                         reinterpret_cast<const char*>(copy - first_source(piece) * block.lanes), block.lanes,
                         sums + outer.tap * row_taps * packed.channels + block.first});
            }
        }
    }

    void sum_space(const char* src_data, const char* diff_data, int64_t part, int64_t c, float* sums) const {
        std::fill(sums, sums + taps, 0.0f);
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool src_in_place = cell == Cell::f32 && src.inner == 1;
        const bool diff_in_place = cell == Cell::f32 && diff.inner == 1 && inner.advance == 1;
        int64_t groups = 0, outputs = 0;
        for (const Piece& piece : pieces) {
            groups = std::max(groups, piece.last_group - piece.first_group);
            outputs = std::max(outputs, piece.end - piece.begin);
        }
        RowCache cache({axes.outer[0].span(), axes.outer[1].span()}, groups * inner.advance);
        float* src_copy = scratch<float>(Room::result, static_cast<size_t>(outputs));
        const float** diffs = scratch<const float*>(Room::pointers, static_cast<size_t>(row_taps));
        std::vector<RowTap> row_list;
        const auto number_of_pieces = static_cast<int64_t>(pieces.size());
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const int64_t row = unit % src.rows(), image = unit / src.rows();
            const Piece& piece = pieces[static_cast<size_t>(image % number_of_pieces)];
            const int64_t n = image / number_of_pieces;
            const char* src_row = src_data + src.offset_of_row(n, c, row) * size;
            const float* source = reinterpret_cast<const float*>(src_row) + piece.begin;
            if (!src_in_place) {
                load_src.load(src_row, src.width(), piece.begin, piece.end, src_copy, 0);
                source = src_copy;
            }
            axes.taps_of_row(row, row_list);
            for (const RowTap& outer : row_list) {
                const char* diff_row = diff_data + diff.offset(n, c, outer.source[0], outer.source[1]) * size;
                const float* rows = reinterpret_cast<const float*>(diff_row) + piece.first_group;
                if (!diff_in_place) {
                    bool fresh;
                    float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                    if (fresh) {
                        load_diff.load(diff_row, diff.width(), piece.first_group, piece.last_group, copy,
                                       groups);
                    }
                    rows = copy;
                }
                for (const Segment& s : piece.segments) {
                    for (int64_t t = s.first; t < s.last; ++t) {
                        const int64_t base = inner.taps[0][static_cast<size_t>(t)].base;
                        const int64_t group = floor_div(base, inner.advance);
                        const int64_t place = (base - group * inner.advance) * groups;
                        diffs[t - s.first] = rows + place + s.begin + group - piece.first_group;
                    }
                    code.space_gradient({s.end - s.begin, s.last - s.first, source + s.begin - piece.begin,
                                         diffs, sums + outer.tap * row_taps + s.first});
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
