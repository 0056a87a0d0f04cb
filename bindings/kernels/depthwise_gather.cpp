// Depthwise transposed convolution and its backward data: every output gathers its taps, so both are one
// kernel that differs in the axes' tables.
#include <algorithm>

#include "depthwise.hpp"
#include "parallel.hpp"
#include "scratch.hpp"

namespace dgo {
namespace {

constexpr int kF32 = 3;
constexpr int64_t kPieceBytes = 32 * 1024;  // of outputs that a task along the channels writes at least
constexpr int64_t kPieceCells = 4096;       // of a row that a task along space reads or writes

struct GatherKernel : Kernel {
    DepthwiseProblem p;
    Cell cell;
    const DepthwiseCode& code;
    TapAxes axes;
    RowLayout from, to;
    int64_t row_taps, taps;  // of a kernel row, of the kernel
    bool along_channels, has_bias, relu;
    std::vector<Piece> pieces;
    RowMover load, store;
    CopyPlan weights_plan;
    CopyPlan bias_plan;
    int64_t work;  // bytes, or arithmetic worth as many

    GatherKernel(const char* kernel_name, const DepthwiseProblem& problem, bool forward, bool with_bias,
                 bool with_relu, int bias_dtype)
        : p(problem), cell(float_cell(p.dtype)), code(vector_code().depthwise), axes(p, forward),
          from(forward ? RowLayout(p.src_spatial, p.src_strides) : RowLayout(p.dst_spatial, p.dst_strides)),
          to(forward ? RowLayout(p.dst_spatial, p.dst_strides) : RowLayout(p.src_spatial, p.src_strides)),
          row_taps(p.kernel.back()), taps(product(p.kernel)),
          along_channels(from.channel == 1 && to.channel == 1 && p.c >= code.min_channels),
          has_bias(with_bias), relu(with_relu), load(cell, from.inner, axes.inner.advance),
          store(cell, to.inner, axes.inner.phases), weights_plan(make_weights_plan()),
          bias_plan({p.c}, bias_dtype, {1}, kF32, {1}) {
        name = kernel_name;
        arity = has_bias ? 4 : 3;
        const int64_t size = item_size(p.dtype);
        const int64_t outputs =
            along_channels ? std::max<int64_t>(kPieceBytes / (axes.inner.phases * p.c * size), 16)
                           : std::max<int64_t>(kPieceCells / (axes.inner.phases * axes.inner.advance), 64);
        pieces = cut_into_pieces(axes.inner, outputs);
        const int64_t images = p.n * p.c;
        const int64_t cells = images * (product(p.src_spatial) + product(p.dst_spatial));
        work = std::max(cells * size, images * product(p.src_spatial) * taps / 2);
    }

    // To f32: taps by channels where channels are vectors, channels by taps otherwise.
    CopyPlan make_weights_plan() const {
        Dims shape = {p.c}, strides = {along_channels ? 1 : taps};
        int64_t step = along_channels ? p.c : 1;
        for (size_t axis = p.kernel.size(); axis-- > 0;) {
            shape.insert(shape.begin() + 1, p.kernel[axis]);
            strides.insert(strides.begin() + 1, step);
            step *= p.kernel[axis];
        }
        return CopyPlan(shape, p.weights_dtype, p.weights_strides, kF32, strides);
    }

    void run(char* const* operands) const override {
        const char* src = operands[0];
        char* dst = operands[arity - 1];
        float* weights = scratch<float>(Room::weights, static_cast<size_t>(taps * p.c));
        weights_plan.run(operands[1], reinterpret_cast<char*>(weights));
        float* bias = nullptr;
        if (has_bias) {
            bias = scratch<float>(Room::bias, static_cast<size_t>(p.c));
            bias_plan.run(operands[2], reinterpret_cast<char*>(bias));
        }
        const int64_t rows = p.n * to.rows() * static_cast<int64_t>(pieces.size());
        if (along_channels) {
            parallel_for(rows, work, [&](int64_t begin, int64_t end) {
                run_channels(src, weights, bias, dst, begin, end);
            });
        } else {
            parallel_for(rows * p.c, work,
                         [&](int64_t begin, int64_t end) { run_space(src, weights, bias, dst, begin, end); });
        }
    }

    void run_channels(const char* src, const float* weights, const float* bias, char* dst, int64_t begin,
                      int64_t end) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const char** sources = scratch<const char*>(Room::pointers, static_cast<size_t>(2 * taps));
        const float** factors = reinterpret_cast<const float**>(sources + taps);
        std::vector<RowTap> row_list;
        for (int64_t task = begin; task < end; ++task) {
            const Piece& piece = pieces[static_cast<size_t>(task % static_cast<int64_t>(pieces.size()))];
            const int64_t row = task / static_cast<int64_t>(pieces.size());
            const int64_t n = row / to.rows();
            axes.taps_of_row(row % to.rows(), row_list);
            char* dst_row = dst + to.offset_of_row(n, 0, row % to.rows()) * size;
            for (const Segment& s : piece.segments) {
                const std::vector<Tap>& list = inner.taps[static_cast<size_t>(s.phase)];
                int64_t count = 0;
                for (const RowTap& outer : row_list) {
                    const char* src_row = src + from.offset(n, 0, outer.source[0], outer.source[1]) * size;
                    const float* weights_row = weights + outer.tap * row_taps * p.c;
                    for (int64_t t = s.first; t < s.last; ++t) {
                        const Tap& tap = list[static_cast<size_t>(t)];
                        sources[count] = src_row + (s.begin * inner.advance + tap.base) * from.inner * size;
                        factors[count++] = weights_row + tap.k * p.c;
                    }
                }
                code.channels[float_index(cell)](
                    {p.c, s.end - s.begin, count, sources, factors, inner.advance * from.inner,
                     inner.phases * to.inner, bias, relu,
                     dst_row + (s.begin * inner.phases + s.phase) * to.inner * size});
            }
        }
    }

    void run_space(const char* src, const float* weights, const float* bias, char* dst, int64_t begin,
                   int64_t end) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool read_in_place = cell == Cell::f32 && from.inner == 1 && inner.advance == 1;
        const bool write_in_place = cell == Cell::f32 && to.inner == 1 && inner.phases == 1;
        int64_t groups = 0, outputs = 0;
        for (const Piece& piece : pieces) {
            groups = std::max(groups, piece.last_group - piece.first_group);
            outputs = std::max(outputs, piece.end - piece.begin);
        }
        RowCache cache({axes.outer[0].span(), axes.outer[1].span()}, groups * inner.advance);
        float* result = scratch<float>(Room::result, static_cast<size_t>(outputs * inner.phases));
        const float** sources = scratch<const float*>(Room::pointers, static_cast<size_t>(2 * taps));
        float* factors = reinterpret_cast<float*>(sources + taps);
        std::vector<RowTap> row_list;
        std::vector<const float*> rows;
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task % to.rows(), image = task / to.rows();
            const auto number_of_pieces = static_cast<int64_t>(pieces.size());
            const Piece& piece = pieces[static_cast<size_t>(image % number_of_pieces)];
            const int64_t c = image / number_of_pieces % p.c, n = image / number_of_pieces / p.c;
            axes.taps_of_row(row, row_list);
            rows.clear();
            for (const RowTap& outer : row_list) {
                const char* src_row = src + from.offset(n, c, outer.source[0], outer.source[1]) * size;
                if (read_in_place) {
                    rows.push_back(reinterpret_cast<const float*>(src_row) + piece.first_group);
                    continue;
                }
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh)
                    load.load(src_row, from.width(), piece.first_group, piece.last_group, copy, groups);
                rows.push_back(copy);
            }
            char* dst_row = dst + to.offset_of_row(n, c, row) * size;
            float* out = write_in_place ? reinterpret_cast<float*>(dst_row) + piece.begin : result;
            for (const Segment& s : piece.segments) {
                const std::vector<Tap>& list = inner.taps[static_cast<size_t>(s.phase)];
                int64_t count = 0;
                for (size_t i = 0; i < row_list.size(); ++i) {
                    const float* weights_row = weights + c * taps + row_list[i].tap * row_taps;
                    for (int64_t t = s.first; t < s.last; ++t) {
                        const Tap& tap = list[static_cast<size_t>(t)];
                        const int64_t group = floor_div(tap.base, inner.advance);
                        const int64_t place = (tap.base - group * inner.advance) * groups;
                        sources[count] = rows[i] + place + s.begin + group - piece.first_group;
                        factors[count++] = weights_row[tap.k];
                    }
                }
                code.space({s.end - s.begin, count, sources, factors, bias ? bias[c] : 0.0f, relu,
                            out + s.phase * outputs + s.begin - piece.begin});
            }
            if (!write_in_place) store.store(result, outputs, piece.begin, piece.end, dst_row, to.width());
        }
    }
};

}  // namespace

std::shared_ptr<Kernel> make_depthwise_forward(const DepthwiseProblem& problem, bool has_bias, bool relu,
                                               int bias_dtype) {
    check_depthwise("depthwise_forward", problem);
    float_cell(bias_dtype);
    return std::make_shared<GatherKernel>("depthwise_forward", problem, true, has_bias, relu, bias_dtype);
}

std::shared_ptr<Kernel> make_depthwise_backward_data(const DepthwiseProblem& problem) {
    check_depthwise("depthwise_backward_data", problem);
    return std::make_shared<GatherKernel>("depthwise_backward_data", problem, false, false, false, kF32);
}

}  // namespace dgo
