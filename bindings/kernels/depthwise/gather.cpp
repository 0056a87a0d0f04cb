// Depthwise transposed convolution and its backward data: every output gathers its taps, so both are one
// kernel that differs in the axes' tables.
#include <algorithm>

#include "kernels/depthwise/depthwise.hpp"
#include "kernels/parallel.hpp"

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
    bool has_bias;
    std::vector<Piece> pieces;
    Widest widest;
    RowMover load, store;
    BlockMover load_block, store_block;
    PackedWeights packed;
    CopyPlan weights_plan;
    CopyPlan bias_plan;
    double work;  // as of threads_for
    // of a run: what all threads read, and what each of them works in
    ScratchLayout shared, each;
    Part<float> weights_part, bias_part, result_part;
    Part<const char*> sources_part;
    Part<char> factors_part;  // an address for each source, or a float
    RowCache::Room rows_room;

    GatherKernel(const char* kernel_name, const DepthwiseProblem& problem, bool forward, bool with_bias,
                 int bias_dtype)
        : p(problem), cell(float_cell(p.dtype)), code(vector_code().depthwise), axes(p, forward),
          from(forward ? RowLayout(p.src_spatial, p.src_strides) : RowLayout(p.dst_spatial, p.dst_strides)),
          to(forward ? RowLayout(p.dst_spatial, p.dst_strides) : RowLayout(p.src_spatial, p.src_strides)),
          row_taps(p.kernel.back()), taps(product(p.kernel)), path(choose_path(from, to, p.c)),
          has_bias(with_bias), pieces(cut_into_pieces(axes.inner, outputs_of_piece())),
          widest(pieces, axes.inner), load(cell, from.inner, axes.inner.advance),
          store(cell, to.inner, axes.inner.phases), load_block(cell, from), store_block(cell, to),
          packed(p, path),
          weights_plan(packed.shape, p.dtype, p.weights_strides, kF32, packed.strides),
          bias_plan({p.c}, bias_dtype, {1}, kF32, {1}) {
        name = kernel_name;
        arity = has_bias ? 4 : 3;
        work = work_of(p);
        lay_out_scratch();
    }

    // Of each phase.
    int64_t outputs_of_piece() const {
        const int64_t step = axes.inner.phases * axes.inner.advance;
        if (path == Path::blocks) return std::max<int64_t>(kBlockCells / step, 16);
        if (path == Path::space) return std::max<int64_t>(kPieceCells / step, 64);
        return std::max<int64_t>(kPieceBytes / (axes.inner.phases * p.c * item_size(p.dtype)), 16);
    }

    void lay_out_scratch() {
        weights_part = shared.add<float>(packed.floats);
        bias_part = shared.add<float>(has_bias ? packed.channels : 0);
        sources_part = each.add<const char*>(taps);
        factors_part = each.add<char>(taps * static_cast<int64_t>(sizeof(const float*)));
        if (path == Path::channels) return;
        const bool blocks = path == Path::blocks;
        result_part = each.add<float>(widest.outputs * axes.inner.phases * (blocks ? packed.block : 1));
        rows_room = RowCache::Room(each, axes, blocks ? widest.sources * packed.block : widest.split);
    }

    void run(char* const* operands) const override {
        const char* src = operands[0];
        char* dst = operands[arity - 1];
        const int64_t rows = p.n * to.rows() * static_cast<int64_t>(pieces.size());
        const int64_t tasks = path == Path::channels ? rows
                              : path == Path::blocks ? rows * ChannelBlock::number(p.c, packed.block)
                                                     : rows * p.c;
        const int threads = threads_for(tasks, work);
        const Scratch scratch(shared, each, threads);
        float* weights = weights_part.in(scratch.shared());
        weights_plan.run(operands[1], reinterpret_cast<char*>(weights));
        float* bias = nullptr;
        if (has_bias) {
            bias = bias_part.in(scratch.shared());
            bias_plan.run(operands[2], reinterpret_cast<char*>(bias));
        }
        const auto run_part = path == Path::channels ? &GatherKernel::run_channels
                              : path == Path::blocks ? &GatherKernel::run_blocks
                                                     : &GatherKernel::run_space;
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            (this->*run_part)(src, weights, bias, dst, begin, end, scratch.of(rank));
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
    void run_row(const Piece& piece, const std::vector<RowTap>& row_list, const ChannelRows& rows, char* room) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = rows.type == float_index(Cell::f32) ? 4 : 2;
        const char** sources = sources_part.in(room);
        const float** factors = reinterpret_cast<const float**>(factors_part.in(room));
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
                                      rows.dst + (s.begin * inner.phases + s.phase) * rows.dst_step * size});
        }
    }

    void run_channels(const char* src, const float* weights, const float* bias, char* dst, int64_t begin, int64_t end,
                      char* room) const {
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
                     dst + to.offset_of_row(n, 0, row) * size, to.inner},
                    room);
        }
    }

    void run_blocks(const char* src, const float* weights, const float* bias, char* dst, int64_t begin, int64_t end,
                    char* room) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        RowCache cache(rows_room, room);
        float* result = result_part.in(room);
        std::vector<RowTap> row_list;
        std::vector<const char*> rows;
        const int64_t blocks = ChannelBlock::number(p.c, packed.block),
                      number_of_pieces = static_cast<int64_t>(pieces.size());
        for (int64_t task = begin; task < end; ++task) {
            const int64_t row = task % to.rows(), image = task / to.rows();
            const Piece& piece = pieces[static_cast<size_t>(image % number_of_pieces)];
            const int64_t n = image / number_of_pieces / blocks;
            const ChannelBlock block = ChannelBlock::at(image / number_of_pieces % blocks, p.c, packed.block);
            const int64_t first = first_source(piece, inner), first_output = piece.begin * inner.phases;
            axes.taps_of_row(row, row_list);
            rows.clear();
            for (const RowTap& outer : row_list) {
                bool fresh;
                float* copy = cache.find(image, outer.source[0], outer.source[1], fresh);
                if (fresh) {
                    const char* src_row = src + from.offset(n, 0, outer.source[0], outer.source[1]) * size;
                    load_block.load(src_row, first, end_source(piece, inner), block, copy);
                }
                rows.push_back(reinterpret_cast<const char*>(copy - first * block.lanes));
            }
            run_row(piece, row_list,
                    {float_index(Cell::f32), block.lanes, rows.data(), block.lanes, weights + block.first,
                     bias ? bias + block.first : nullptr,
                     reinterpret_cast<char*>(result - first_output * block.lanes), block.lanes},
                    room);
            store_block.store(result, first_output, std::min(piece.end * inner.phases, to.width()), block,
                              dst + to.offset_of_row(n, 0, row) * size);
        }
    }

    void run_space(const char* src, const float* weights, const float* bias, char* dst, int64_t begin, int64_t end,
                   char* room) const {
        const TapAxis& inner = axes.inner;
        const int64_t size = item_size(p.dtype);
        const bool read_in_place = cell == Cell::f32 && from.inner == 1 && inner.advance == 1;
        const bool write_in_place = cell == Cell::f32 && to.inner == 1 && inner.phases == 1;
        const int64_t groups = widest.groups, outputs = widest.outputs;
        RowCache cache(rows_room, room);
        float* result = result_part.in(room);
        const auto** sources = reinterpret_cast<const float**>(sources_part.in(room));
        auto* factors = reinterpret_cast<float*>(factors_part.in(room));
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
                code.space({s.end - s.begin, count, sources, factors, bias ? bias[c] : 0.0f,
                            out + s.phase * outputs + s.begin - piece.begin});
            }
            if (!write_in_place) store.store(result, outputs, piece.begin, piece.end, dst_row, to.width());
        }
    }
};

}  // namespace

std::shared_ptr<Kernel> make_depthwise_forward(const DepthwiseProblem& problem, bool has_bias, int bias_dtype) {
    check_depthwise("depthwise_forward", problem);
    float_cell(bias_dtype);
    return std::make_shared<GatherKernel>("depthwise_forward", problem, true, has_bias, bias_dtype);
}

std::shared_ptr<Kernel> make_depthwise_backward_data(const DepthwiseProblem& problem) {
    check_depthwise("depthwise_backward_data", problem);
    return std::make_shared<GatherKernel>("depthwise_backward_data", problem, false, false, kF32);
}

}  // namespace dgo
