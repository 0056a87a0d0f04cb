// A product of rows shared between threads: blocks of a's rows times ranges of b's.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/copy/copy.hpp"
#include "kernels/copy/vtable.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/scratch.hpp"
#include "kernels/epilogue/fitted.hpp"

namespace dgo {
namespace {

// A matrix of a product in each image: f32, bf16 or f16, strides in the order image, and two that `RowProductProblem`
// names.
struct ProductOperand {
    int dtype;
    Dims strides;
};

// c[n, i, j] = bias[i or j] + sum over k of a[n, i, k] * b[n, j, k]. Where c's images have the stride 0, they are summed.
struct RowProductProblem {
    int64_t images, rows, columns, depth;
    ProductOperand a, b, c;
    int bias_dtype;  // 0: none
    int bias_axis;   // 0: of c's rows, 1: of its columns
};

// An epilogue on results whose channels lie side by side; the sizes and strides of their other axes, images first.
struct PositionsEpilogue {
    Epilogue epilogue;
    int64_t channels = 0;
    Dims sizes, strides;
};

constexpr int64_t kNarrow = 128;                   // columns of a thread that are hard to share out evenly
constexpr int64_t kNear = kRowProductRows * 512;  // sums of a task that stay in the second cache until they are rounded
constexpr int64_t kIdle = 6;  // tasks for each that may be missing to share them out evenly
constexpr int64_t kTaller = 4;  // with more rows than this times the columns the factors are exchanged

// A block of c, which is computed in f32.
struct Block {
    int64_t image, row, rows, column, columns;
};

// A task multiplies a block of a's rows by a range of b's, over a part of the depth. With several parts of the depth,
// and where results are rounded or pass through an epilogue, sums go through f32 scratch memory.
struct RowProductPlan {
    int64_t threads;  // the tasks are cut for this number
    int64_t depths, ranges, tasks;
    bool through;  // each task rounds its sums
    ScratchLayout shared, each;
    ScratchArray<float> partial, bias, turned_all;  // arrays that all threads share
    ScratchArray<float> memory, sums, turned;  // arrays of each thread
};

// Returns the fewest ranges of each of so many blocks that threads share almost evenly.
int64_t even_ranges(int64_t blocks, int64_t threads) {
    int64_t ranges = 1;
    const auto idle = [&] { return ceil_div(blocks * ranges, threads) * threads - blocks * ranges; };
    while (ranges < threads && kIdle * idle() > blocks * ranges) ++ranges;
    return ranges;
}

struct RowProductKernel : Kernel {
    RowProductProblem p;
    RowProduct whole;
    bool exchanged, has_bias;
    ElementType type;
    FittedEpilogue epilogue;
    int64_t of_image;  // rows of c, or columns where factors are exchanged
    BlockFn store, turn, store_rows;
    std::optional<StridedCopy> widen_bias;
    int64_t tile, tiles, blocks;  // rows of a register tile; tiles and blocks of a's rows
    int64_t results, all;  // results of all images, and the depth that they sum
    double work;
    RowProductPlan planned, alone;  // plans for the process's number of threads and for one

    RowProductKernel(const RowProductProblem& problem, const RowProduct& product, bool factors_exchanged,
                     const PositionsEpilogue& after)
        : p(problem), whole(product), exchanged(factors_exchanged), has_bias(p.bias_dtype != 0),
          type(float_type(p.c.dtype)), epilogue(after.epilogue, after.channels, after.sizes, after.strides),
          of_image(rows_of_image(after)), turn(copy_block(BlockKind::transposed, ElementType::f32, ElementType::f32)),
          store_rows(copy_block(BlockKind::rows, ElementType::f32, type)) {
        arity = (has_bias ? 4 : 3) + epilogue.operands();
        name = "row_product";
        const VectorCode& code = vector_code();
        const bool few = whole.rows < code.rows.tiles.few;
        if (few && whole.b.along_depth) {
            by = code_name("matmul_f32", code.isa, code.rows.tiles.rows, code.rows.tiles.columns);
        } else if (whole.b.along_depth || whole.rows > kRowsAcross) {
            by = code_name("matmul_f32", code.isa, code.filter.rows, code.filter.panel);
        }
        store = copy_block(whole.c_column == 1 ? BlockKind::rows
                           : whole.c_row == 1  ? BlockKind::transposed
                                               : BlockKind::strided,
                           ElementType::f32, type);
        if (has_bias) widen_bias.emplace(Dims{bias_size()}, p.bias_dtype, Dims{1}, kF32, Dims{1});
        tile = code.filter.rows;
        tiles = ceil_div(whole.rows, tile);
        blocks = ceil_div(tiles, kRowProductRows / tile);
        const bool summed = p.c.strides[0] == 0;
        results = summed ? 1 : p.images;
        all = summed ? p.images * whole.depth : whole.depth;
        work = static_cast<double>(results * whole.rows) * static_cast<double>(whole.columns * all) / 4;
        planned = plan_for(threads_now());
        alone = plan_for(1);
    }

    int64_t threads_now() const { return threads_for(results * blocks * whole.columns, work); }

    RowProductPlan plan_for(int64_t threads) const {
        RowProductPlan plan{};
        plan.threads = threads;
        // Every range of columns reads all of a again, every range of the depth has sums of its own: no more of them
        // than keep the threads busy, or than sums that are rounded later have to be near.
        const bool few = results * blocks < 3 * threads;
        const bool narrow = results == 1 && whole.columns < kNarrow * threads && all >= kRowProductDepth * threads;
        plan.depths = few && narrow ? threads : 1;
        const RowCode& code = vector_code().rows;
        // Panels of all the depth are rounded as soon as they are multiplied; other sums are complete at the end.
        const bool at_once = whole.rows >= code.tiles.few && !has_bias && !epilogue && whole.c_column == 1 &&
                             whole.depth <= kPanelDepth && all == whole.depth;
        plan.through = type != ElementType::f32 && plan.depths == 1 && !at_once;
        const int64_t most = std::min(whole.rows, kRowProductRows);
        const int64_t near = plan.through || epilogue ? ceil_div(whole.columns * most, kNear) : 1;
        const int64_t even = plan.depths > 1 || !few ? 1 : even_ranges(results * blocks, threads);
        plan.ranges = plan.depths > 1 ? 1 : std::min(whole.columns, std::max(near, even));
        plan.tasks = results * blocks * plan.ranges * plan.depths;
        const int64_t apart = plan.depths == 1 ? 0 : whole.rows * whole.columns;
        const int64_t of_task = plan.through ? most * ceil_div(whole.columns, plan.ranges) : 0;
        const bool turns = epilogue && exchanged;
        plan.partial = plan.shared.add<float>(apart * plan.depths);
        plan.bias = plan.shared.add<float>(has_bias ? bias_size() : 0);
        plan.turned_all = plan.shared.add<float>(turns ? apart : 0);
        plan.memory = plan.each.add<float>(code.scratch());
        plan.sums = plan.each.add<float>(of_task);
        plan.turned = plan.each.add<float>(turns ? of_task : 0);
        return plan;
    }

    void run(char* const* operands) const override {
        const int64_t threads = threads_now();
        if (threads == planned.threads) return run(planned, operands);
        if (threads == 1) return run(alone, operands);
        run(plan_for(threads), operands);
    }

    void run(const RowProductPlan& plan, char* const* operands) const {
        char* const c = operands[arity - 1];
        const EpilogueCall after = epilogue.call(operands + (has_bias ? 3 : 2));
        const int team = threads_for(plan.tasks, work);
        const Scratch scratch(plan.shared, plan.each, team);
        if (has_bias) widen_bias->run(operands[2], reinterpret_cast<char*>(plan.bias.in(scratch.shared())));
        parallel_parts(team, plan.tasks, [&](int64_t begin, int64_t end, int rank) {
            for (int64_t task = begin; task < end; ++task) {
                run_task(plan, operands, task, after, scratch.shared(), scratch.of(rank));
            }
        });
        if (plan.depths == 1) return;
        float* const partial = plan.partial.in(scratch.shared());
        const int64_t sums = whole.rows * whole.columns;
        add_up_parts(partial, sums, plan.depths);
        finish(partial, plan.turned_all.in(scratch.shared()), {0, 0, whole.rows, 0, whole.columns}, c, after);
    }

    void run_task(const RowProductPlan& plan, char* const* operands, int64_t task, const EpilogueCall& after,
                  char* shared, char* each) const {
        const char *a = operands[exchanged ? 1 : 0], *b = operands[exchanged ? 0 : 1];
        char* const c = operands[arity - 1];
        const int64_t deep = task % plan.depths, range = task / plan.depths % plan.ranges;
        const int64_t block = task / plan.depths / plan.ranges % blocks;
        Block at{task / plan.depths / plan.ranges / blocks, tiles * block / blocks * tile, 0,
                 whole.columns * range / plan.ranges, 0};
        at.rows = std::min(tiles * (block + 1) / blocks * tile, whole.rows) - at.row;
        at.columns = whole.columns * (range + 1) / plan.ranges - at.column;
        RowProduct part = whole;
        part.rows = at.rows;
        part.columns = at.columns;
        char* to = address(c, at);
        float* between = nullptr;
        if (plan.depths > 1) {
            between = plan.partial.in(shared) + (deep * whole.rows + at.row) * whole.columns;
        } else if (plan.through) {
            between = plan.sums.in(each);
        }
        if (between != nullptr) {
            to = reinterpret_cast<char*>(between);
            part.c_type = ElementType::f32;
            part.c_row = at.columns;
            part.c_column = 1;
        }
        part.add = has_bias && deep == 0;
        if (part.add) begin_with(plan.bias.in(shared), at, part, reinterpret_cast<float*>(to));
        const int64_t last = all * (deep + 1) / plan.depths;
        for (int64_t from = all * deep / plan.depths; from < last; from += part.depth, part.add = true) {
            const int64_t image = at.image + from / whole.depth, k = from % whole.depth;
            part.depth = std::min(whole.depth - k, last - from);
            vector_code().rows.product(part, a + offset(p.a, whole.a, image, at.row, k),
                                       b + offset(p.b, whole.b, image, at.column, k), to, plan.memory.in(each));
        }
        if (plan.through) {
            finish(between, plan.turned.in(each), at, c, after);
        } else if (plan.depths == 1 && epilogue) {
            apply_in_place(at, c, after);
        }
    }

    int64_t rows_of_image(const PositionsEpilogue& after) const {
        int64_t results = after.channels;
        for (size_t axis = 1; axis < after.sizes.size(); ++axis) results *= after.sizes[axis];
        return std::max<int64_t>(results / (exchanged ? whole.rows : whole.columns), 1);
    }

    // Sums of a block, rows of all its columns, to c.
    void finish(float* sums, float* turned, const Block& at, char* c, const EpilogueCall& after) const {
        if (!epilogue) return round(sums, at.columns, at, c);
        if (!exchanged) {
            apply(after, sums, at, at.columns, address(c, at) - c);
            return round(sums, at.columns, at, c);
        }
        // neighbours in c are rows
        char* from = reinterpret_cast<char*>(turned);
        turn(reinterpret_cast<const char*>(sums), from, {at.columns, at.rows, 1, at.columns, at.rows, 1});
        apply(after, turned, at, at.rows, address(c, at) - c);
        store_rows(from, address(c, at), {at.columns, at.rows, at.rows, 1, whole.c_column, 1});
    }

    // Applies the post-ops to sums of a block that are in c.
    void apply_in_place(const Block& at, char* c, const EpilogueCall& after) const {
        char* const sums = address(c, at);
        apply(after, reinterpret_cast<float*>(sums), at, exchanged ? whole.c_column : whole.c_row, sums - c);
    }

    // Positions of a block, which begins so many bytes into c, `pitch` apart where they are; those of an image at once.
    void apply(const EpilogueCall& after, float* sums, const Block& at, int64_t pitch, int64_t bytes) const {
        const int64_t step = exchanged ? whole.c_column : whole.c_row, offset = bytes / item_size(p.c.dtype);
        const int64_t first = exchanged ? at.column : at.row, count = exchanged ? at.columns : at.rows;
        const int64_t width = exchanged ? at.rows : at.columns;
        const int64_t channel = (exchanged ? at.row : at.column) % after.params->channels;
        for (int64_t i = 0, next; i < count; i = next) {
            next = std::min(((first + i) / of_image + 1) * of_image - first, count);
            apply_epilogue(*after.params, after.operands,
                           {sums + i * pitch, pitch, offset + i * step, step, next - i, width, channel});
        }
    }

    int64_t bias_size() const { return p.bias_axis == 0 ? whole.rows : whole.columns; }

    static int64_t offset(const ProductOperand& operand, const RowFactor& factor, int64_t image, int64_t row,
                          int64_t k) {
        return (image * operand.strides[0] + row * factor.row + k * factor.depth) * factor.size();
    }

    char* address(char* c, const Block& at) const {
        return c +
               (at.image * p.c.strides[0] + at.row * whole.c_row + at.column * whole.c_column) * item_size(p.c.dtype);
    }

    void begin_with(const float* bias, const Block& at, const RowProduct& part, float* to) const {
        for (int64_t i = 0; i < at.rows; ++i) {
            for (int64_t j = 0; j < at.columns; ++j) {
                to[i * part.c_row + j * part.c_column] = bias[p.bias_axis == 0 ? at.row + i : at.column + j];
            }
        }
    }

    void round(const float* sums, int64_t pitch, const Block& at, char* c) const {
        const char* from = reinterpret_cast<const char*>(sums);
        if (whole.c_row == 1 && whole.c_column != 1) {
            store(from, address(c, at), {at.columns, at.rows, 1, pitch, whole.c_column, 1});
        } else {
            store(from, address(c, at), {at.rows, at.columns, pitch, 1, whole.c_row, whole.c_column});
        }
    }
};

RowFactor factor_of(const char* name, const ProductOperand& operand, const Dims& sizes) {
    check_tensor("row_product", name, sizes, operand.strides);
    const int64_t row = operand.strides[1], depth = operand.strides[2];
    const ElementType type = float_type(operand.dtype);
    if (depth == 1 || sizes[2] == 1) return {type, row, 1, true};
    if (row == 1 || sizes[1] == 1) return {type, 1, depth, false};
    fail(ErrorKind::invalid_argument, std::string("row_product: ") + name + " has the strides " + std::to_string(row) +
                                          " and " + std::to_string(depth) + ", one of which has to be 1");
}

std::shared_ptr<Kernel> make_row_product(int64_t images, int64_t rows, int64_t columns, int64_t depth, int a_dtype,
                                         const Dims& a_strides, int b_dtype, const Dims& b_strides, int c_dtype,
                                         const Dims& c_strides, int bias_dtype, int bias_axis, const Epilogue& epilogue,
                                         int64_t epilogue_channels, const Dims& epilogue_sizes,
                                         const Dims& epilogue_strides) {
    RowProductProblem p{
        images,     rows,     columns, depth, {a_dtype, a_strides}, {b_dtype, b_strides}, {c_dtype, c_strides},
        bias_dtype, bias_axis};
    const PositionsEpilogue after{epilogue, epilogue_channels, epilogue_sizes, epilogue_strides};
    if (p.rows < 1 || p.columns < 1 || p.depth < 1 || p.images < 1) {
        fail(ErrorKind::invalid_argument, "row_product: a size is below 1");
    }
    check_number("row_product", "bias_axis", p.bias_axis, 0, 1);
    if (p.bias_dtype != 0) float_type(p.bias_dtype);
    checked_product("row_product", {p.rows, p.images, p.depth});
    checked_product("row_product", {p.columns, p.images, p.depth});
    checked_product("row_product", {p.images, p.rows, p.columns});
    RowFactor a = factor_of("a", p.a, {p.images, p.rows, p.depth});
    RowFactor b = factor_of("b", p.b, {p.images, p.columns, p.depth});
    check_tensor("row_product", "c", {p.images, p.rows, p.columns}, p.c.strides);
    if (!after.epilogue.empty() && p.c.strides[2] != 1) {
        fail(ErrorKind::invalid_argument, "row_product: an epilogue needs columns of c that are neighbours, not " +
                                              std::to_string(p.c.strides[2]) + " apart");
    }
    // Few rows are better those of a, a factor that is not contiguous along the depth is better b; and results that are
    // neighbours in c are columns, if one pass writes them.
    const int64_t few = vector_code().rows.tiles.few;
    const bool flat =
        p.columns < p.rows && (p.rows < few || vector_code().rows.tiles.dots(p.columns, p.depth, vector_code().lanes));
    const bool aside = p.c.strides[1] == 1 && p.c.strides[2] != 1 && p.depth <= kPanelDepth && p.rows >= few;
    const bool exchanged =
        a.along_depth ? flat || (b.along_depth && aside) : b.along_depth || flat || p.rows > kTaller * p.columns;
    if (exchanged) {
        std::swap(a, b);
        std::swap(p.a, p.b);
        std::swap(p.rows, p.columns);
        std::swap(p.c.strides[1], p.c.strides[2]);
        p.bias_axis = 1 - p.bias_axis;
    }
    return std::make_shared<RowProductKernel>(
        p, RowProduct{p.rows, p.columns, p.depth, a, b, float_type(p.c.dtype), p.c.strides[1], p.c.strides[2], false},
        exchanged, after);
}

}  // namespace

const Declaration kRowProduct{
    "row_product(images, rows, columns, depth, a_dtype, a_strides, b_dtype, b_strides, c_dtype, c_strides, "
    "bias_dtype=0, bias_axis=1, epilogue=..., epilogue_channels=0, epilogue_sizes=(), epilogue_strides=())",
    make_row_product,
    "a (images, rows, depth), b (images, columns, depth), [bias (columns or rows)], epilogue's..., c (images, rows, "
    "columns)",
    "c[n, i, j] = bias[j] + sum over k of a[n, i, k] * b[n, j, k]; bias[i] where bias_axis is 0. Each operand is f32, "
    "bf16 or f16; sums are f32 and rounded once. Strides count elements: image, row and depth for a and b, one of "
    "whose last two has to be 1; image, row and column for c. Images of c with the stride 0 are summed. A bias_dtype "
    "of 0 means no bias. The epilogue is for c's channels, with the sizes and strides of its other axes, images first; "
    "columns are contiguous then."};

}  // namespace dgo
