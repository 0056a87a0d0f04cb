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
constexpr int64_t kBlockCells = 512;        // positions that a task on a block of channels covers
constexpr int64_t kPieceCells = 4096;       // of a row that a task along space reads or writes

struct GatherKernel : Kernel {
    DepthwiseProblem p;
    Cell cell;
    const DepthwiseCode& code;
    TapAxes axes;
    RowLayout from, to;
    int64_t row_taps, taps;  // of a kernel row, of the kernel
    Path path;
    bool has_bias, relu;
    std::vector<Piece> pieces;
    RowMover load, store;
    BlockMover load_block, store_block;
    PackedWeights packed;
    CopyPlan weights_plan;
    CopyPlan bias_plan;
    int64_t work;  // bytes, or arithmetic worth as many

    GatherKernel(const char* kernel_name, const DepthwiseProblem& problem, bool forward, bool with_bias,
                 bool with_relu, int bias_dtype)
        : p(problem), cell(float_cell(p.dtype)), code(vector_code().depthwise), axes(p, forward),
          from(forward ? RowLayout(p.src_spatial, p.src_strides) : RowLayout(p.dst_spatial, p.dst_strides)),
          to(forward ? RowLayout(p.dst_spatial, p.dst_strides) : RowLayout(p.src_spatial, p.src_strides)),
          row_taps(p.kernel.back()), taps(product(p.kernel)), path(choose_path(from, to, p.c)),
          has_bias(with_bias), relu(with_relu), load(cell, from.inner, axes.inner.advance),
          store(cell, to.inner, axes.inner.phases), load_block(cell, from), store_block(cell, to),
          packed(p, path),
          weights_plan(packed.shape, p.weights_dtype, p.weights_strides, kF32, packed.strides),
          bias_plan({p.c}, bias_dtype, {1}, kF32, {1}) {
        name = kernel_name;
        arity = has_bias ? 4 : 3;
        const int64_t size = item_size(p.dtype);
        const int64_t step = axes.inner.phases * axes.inner.advance;
        const int64_t outputs = path == Path::channels
                                    ? std::max<int64_t>(kPieceBytes / (axes.inner.phases * p.c * size), 16)
                                : path == Path::blocks ? std::max<int64_t>(kBlockCells / step, 16)
                                                       : std::max<int64_t>(kPieceCells / step, 64);
        pieces = cut_into_pieces(axes.inner, outputs);
        const int64_t images = p.n * p.c;
        const int64_t cells = images * (product(p.src_spatial) + product(p.dst_spatial));
        work = std::max(cells * size, images * product(p.src_spatial) * taps / 2);
    }

    void run(char* const* operands) const override {
        const char* src = operands[0];
        char* dst = operands[arity - 1];
        float* weights = scratch<float>(Room::weights, static_cast<size_t>(packed.floats));
        weights_plan.run(operands[1], reinterpret_cast<char*>(weights));
        float* bias = nullptr;
        if (has_bias) {
            bias = scratch<float>(Room::bias, static_cast<size_t>(packed.channels));
            bias_plan.run(operands[2], reinterpret_cast<char*>(bias));
        }
        const int64_t rows = p.n * to.rows() * static_cast<int64_t>(pieces.size());
        const int64_t tasks = path == Path::channels ? rows
                              : path == Path::blocks ? rows * ChannelBlock::number(p.c, packed.block)
                                                     : rows * p.c;
        parallel_for(tasks, work, [&](int64_t begin, int64_t end) {
            if (path == Path::channels) return run_channels(src, weights, bias, dst, begin, end);
            if (path == Path::blocks) return run_blocks(src, weights, bias, dst, begin, end);
            run_space(src, weights, bias, dst, begin, end);
        });
    }

    // Rows with channels as neighbours. Every address is that of position 0, steps count elements.
    struct ChannelRows {
        int type;  // float_index
        int64_t channels;
        const char* const* src;  // of every tap of the row list
        int64_t src_step;
        const float *weights, *bias;
        char* dst;
        int64_t dst_step;
    };
    void run_row(const Piece& piece, const std::vector<RowTap>& row_list, const ChannelRows& rows) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = rows.type == float_index(Cell::f32) ? 4 : 2;
        const char** sources = scratch<const char*>(Room::pointers, static_cast<size_t>(2 * taps));
        const float** factors = reinterpret_cast<const float**>(sources + taps);
        for (const Segment& s : piece.segments) {
            const std::vector<Tap>& list = inner.taps[static_cast<size_t>(s.phase)];
            int64_t count = 0;
            for (size_t i = 0; i < row_list.size(); ++i) {
                const float* weights_row = rows.weights + row_list[i].tap * row_taps * packed.channels;
                for (int64_t t = s.first; t < s.last; ++t) {
                    const Tap& tap = list[static_cast<size_t>(t)];
                    sources[count] =
                        rows.src[i] + (s.begin * inner.advance + tap.base) * rows.src_step * size;
                    factors[count++] = weights_row + tap.k * packed.channels;
                }
            }
            code.channels[rows.type]({rows.channels, s.end - s.begin, count, sources, factors,
                                      inner.advance * rows.src_step, inner.phases * rows.dst_step, rows.bias,
                                      relu,
                                      rows.dst + (s.begin * inner.phases + s.phase) * rows.dst_step * size});
        }
    }

    void run_channels(const char* src, const float* weights, const float* bias, char* dst, int64_t begin,
                      int64_t end) const {
        const int64_t size = item_size(p.dtype);
        std::vector<RowTap> row_list;
        std::vector<const char*> rows;
        for (int64_t task = begin; task < end; ++task) {
            const Piece& piece = pieces[static_cast<size_t>(task % static_cast<int64_t>(pieces.size()))];
            const int64_t line = task / static_cast<int64_t>(pieces.size());
            const int64_t n = line / to.rows(), row = line % to.rows();
            axes.taps_of_row(row, row_list);
            rows.clear();
            for (const RowTap& outer : row_list) {
                rows.push_back(src + from.offset(n, 0, outer.source[0], outer.source[1]) * size);
            }
            run_row(piece, row_list,
                    {float_index(cell), p.c, rows.data(), from.inner, weights, bias,
                     dst + to.offset_of_row(n, 0, row) * size, to.inner});
        }
    }

    void run_blocks(const char* src, const float* weights, const float* bias, char* dst, int64_t begin,
                    int64_t end) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const auto first_source = [&](const Piece& piece) { return piece.first_group * inner.advance; };
        const auto end_source = [&](const Piece& piece) {
            return std::min(piece.last_group * inner.advance, from.width());
        };
        int64_t positions = 0, outputs = 0;
        for (const Piece& piece : pieces) {
            positions = std::max(positions, end_source(piece) - first_source(piece));
            outputs = std::max(outputs, (piece.end - piece.begin) * inner.phases);
        }
        RowCache cache({axes.outer[0].span(), axes.outer[1].span()}, positions * packed.block);
        float* result = scratch<float>(Room::result, static_cast<size_t>(outputs * packed.block));
        std::vector<RowTap> row_list;
        std::vector<const char*> rows;
        const int64_t blocks = ChannelBlock::number(p.c, packed.block),
                      number_of_pieces = static_cast<int64_t>(pieces.size());
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task % to.rows(), image = task / to.rows();
            const Piece& piece = pieces[static_cast<size_t>(image % number_of_pieces)];
            const int64_t n = image / number_of_pieces / blocks;
            const ChannelBlock block = ChannelBlock::at(image / number_of_pieces % blocks, p.c, packed.block);
            const int64_t first = first_source(piece), first_output = piece.begin * inner.phases;
            axes.taps_of_row(row, row_list);
            rows.clear();
            for (const RowTap& outer : row_list) {
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) {
                    const char* src_row = src + from.offset(n, 0, outer.source[0], outer.source[1]) * size;
                    load_block.load(src_row, first, end_source(piece), block, copy);
                }
                rows.push_back(reinterpret_cast<const char*>(copy - first * block.lanes));
            }
            run_row(piece, row_list,
                    {float_index(Cell::f32), block.lanes, rows.data(), block.lanes, weights + block.first,
                     bias ? bias + block.first : nullptr,
                     reinterpret_cast<char*>(result - first_output * block.lanes), block.lanes});
            store_block.store(result, first_output, std::min(piece.end * inner.phases, to.width()), block,
                              dst + to.offset_of_row(n, 0, row) * size);
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
