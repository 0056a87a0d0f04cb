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
    bool along_channels;
    std::vector<Piece> pieces;
    RowMover load_src, load_diff;
    CopyPlan weights_plan;
    int64_t units, parts, sums_per_part, work;

    explicit GradientKernel(const DepthwiseProblem& problem)
        : p(problem), cell(float_cell(p.dtype)), code(vector_code().depthwise), axes(p, false),
          src(p.src_spatial, p.src_strides), diff(p.dst_spatial, p.dst_strides), row_taps(p.kernel.back()),
          taps(product(p.kernel)),
          along_channels(src.channel == 1 && diff.channel == 1 && p.c >= code.min_channels),
          load_src(cell, src.inner, 1), load_diff(cell, diff.inner, axes.inner.advance),
          weights_plan(make_weights_plan()) {
        name = "depthwise_backward_weights";
        arity = 3;
        const int64_t cells = along_channels ? kPieceCells / 8 : kPieceCells / axes.inner.advance;
        pieces = cut_into_pieces(axes.inner, std::max<int64_t>(cells, 64));
        units = p.n * src.rows() * static_cast<int64_t>(pieces.size());
        sums_per_part = taps * p.c;
        parts = std::max<int64_t>(
            1, std::min({units, kMostParts, kMostSums / std::max<int64_t>(sums_per_part, 1)}));
        const int64_t images = p.n * p.c;
        const int64_t all = images * (product(p.src_spatial) + product(p.dst_spatial)) * item_size(p.dtype);
        work = std::max(all, images * product(p.src_spatial) * taps / 2);
    }

    CopyPlan make_weights_plan() const {
        Dims shape = {p.c}, strides = {along_channels ? 1 : taps};
        int64_t step = along_channels ? p.c : 1;
        for (size_t axis = p.kernel.size(); axis-- > 0;) {
            shape.insert(shape.begin() + 1, p.kernel[axis]);
            strides.insert(strides.begin() + 1, step);
            step *= p.kernel[axis];
        }
        return CopyPlan(shape, kF32, strides, p.weights_dtype, p.weights_strides);
    }

    void run(char* const* operands) const override {
        float* sums = scratch<float>(Room::partial_sums, static_cast<size_t>(parts * sums_per_part));
        const int64_t tasks = along_channels ? parts : parts * p.c;
        parallel_for(tasks, work, [&](int64_t begin, int64_t end) {
            for (int64_t task = begin; task < end; ++task) {
                if (along_channels) {
                    sum_channels(operands[0], operands[1], task, sums + task * sums_per_part);
                } else {
                    const int64_t part = task % parts, c = task / parts;
                    sum_space(operands[0], operands[1], part, c, sums + part * sums_per_part + c * taps);
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

    void sum_channels(const char* src_data, const char* diff_data, int64_t part, float* sums) const {
        std::fill(sums, sums + sums_per_part, 0.0f);
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const char** diffs = scratch<const char*>(Room::pointers, static_cast<size_t>(row_taps));
        std::vector<RowTap> row_list;
        for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit) {
            const Piece& piece = pieces[static_cast<size_t>(unit % static_cast<int64_t>(pieces.size()))];
            const int64_t line = unit / static_cast<int64_t>(pieces.size());
            const int64_t n = line / src.rows(), row = line % src.rows();
            const char* src_row = src_data + src.offset_of_row(n, 0, row) * size;
            axes.taps_of_row(row, row_list);
            for (const RowTap& outer : row_list) {
                const char* diff_row = diff_data + diff.offset(n, 0, outer.source[0], outer.source[1]) * size;
                for (const Segment& s : piece.segments) {
                    if (s.first == s.last) continue;
                    for (int64_t t = s.first; t < s.last; ++t) {
                        const int64_t at =
                            s.begin * inner.advance + inner.taps[0][static_cast<size_t>(t)].base;
                        diffs[t - s.first] = diff_row + at * diff.inner * size;
                    }
                    code.channels_gradient[float_index(cell)](
                        {p.c, s.end - s.begin, s.last - s.first, src_row + s.begin * src.inner * size, diffs,
                         src.inner, inner.advance * diff.inner, sums + (outer.tap * row_taps + s.first) * p.c,
                         p.c});
                }
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
