// Attention: softmax of scaled products of queries and keys, and masks, times values.
#include <algorithm>
#include <map>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

// f32. Strides count elements, and may be 0: those of the batch's axes, then row and depth of q, key and depth of k, key
// and width of v, row and key of each mask, row and width of dst. Those of depth of q and of width are 1, of key in masks
// 1 or 0.
struct AttentionProblem {
    Dims batch;
    int64_t rows, keys, depth, width;
    Dims q, k, v;
    std::vector<Dims> masks;
    Dims dst;
    double scale;
    std::string zeros;  // a name in kZeroRows
    Dims seen;  // [row]: it sees this many keys, from the first on; empty: all
};

constexpr const char* kName = "attention";
// rows of q below which keys and values are read as they lie, without panels
constexpr int64_t kFewRows = 4;
// the work of a product of a query and a key, in bytes of threads_for
constexpr double kBytesOfProduct = 0.25;

const std::map<std::string, ZeroRows> kZeroRows{
    {"none", ZeroRows::none}, {"nan", ZeroRows::nan}, {"unseen", ZeroRows::unseen}};

const AttentionCode& code() { return vector_code().attention; }

struct Attention : Kernel {
    AttentionProblem p;
    ZeroRows zeros;
    int64_t items = 1, blocks;
    double bytes;
    ScratchLayout nothing, each;
    ScratchArray<float> work;

    explicit Attention(const AttentionProblem& problem) : p(problem) {
        name = kName;
        arity = 4 + static_cast<int>(p.masks.size());
        check();
        zeros = kZeroRows.at(p.zeros);
        for (const int64_t size : p.batch) items = checked_product(kName, {items, size});
        blocks = ceil_div(p.rows, code().rows);
        checked_product(kName, {items, p.rows, std::max(p.keys, p.width)});
        bytes = static_cast<double>(items) * static_cast<double>(p.rows) * static_cast<double>(p.keys) *
                static_cast<double>(p.depth + p.width + 16) * kBytesOfProduct;
        work = each.add<float>(code().scratch(p.keys, p.depth, p.width));
    }

    void check() const {
        for (const int64_t size : p.batch) check_number(kName, "batch", size, 0, kMostSize);
        for (const int64_t size : {p.rows, p.width}) check_number(kName, "sizes", size, 0, kMostSize);
        for (const int64_t size : {p.keys, p.depth}) check_number(kName, "sizes", size, 1, kMostSize);
        check_strides("q", p.q, p.rows, p.depth);
        check_strides("k", p.k, p.keys, p.depth);
        check_strides("v", p.v, p.keys, p.width);
        for (const std::vector<int64_t>& mask : p.masks) check_strides("a mask", mask, p.rows, p.keys);
        check_strides("dst", p.dst, p.rows, p.width);
        if (p.masks.size() > static_cast<size_t>(kMostMasks)) {
            fail(ErrorKind::invalid_argument, "attention: at most " + std::to_string(kMostMasks) + " masks");
        }
        const auto in_a_row = [](int64_t stride, int64_t size) { return stride == 1 || size < 2; };
        if (!in_a_row(p.q.back(), p.depth) || !in_a_row(p.v.back(), p.width) || !in_a_row(p.dst.back(), p.width)) {
            fail(ErrorKind::invalid_argument, "attention: elements of q, v and dst must be neighbours");
        }
        for (const std::vector<int64_t>& mask : p.masks) {
            if (mask.back() != 0 && !in_a_row(mask.back(), p.keys)) {
                fail(ErrorKind::invalid_argument, "attention: elements of a mask must be neighbours, or the same");
            }
        }
        if (!p.seen.empty() && p.seen.size() != static_cast<size_t>(p.rows)) {
            fail(ErrorKind::invalid_argument, "attention: seen needs a number for each row");
        }
        for (const int64_t one : p.seen) check_number(kName, "seen", one, 1, p.keys);
        if (!kZeroRows.count(p.zeros)) {
            fail(ErrorKind::invalid_argument, "attention: zeros is none, nan or unseen, not " + p.zeros);
        }
    }

    void check_strides(const char* which, const std::vector<int64_t>& strides, int64_t first, int64_t last) const {
        std::vector<int64_t> sizes = p.batch;
        sizes.insert(sizes.end(), {first, last});
        check_tensor(kName, which, sizes, strides, INT64_MIN);
    }

    int64_t offset(const std::vector<int64_t>& strides, int64_t item) const {
        int64_t at = 0;
        for (size_t axis = p.batch.size(); axis-- > 0; item /= p.batch[axis]) {
            at += item % p.batch[axis] * strides[axis];
        }
        return at;
    }

    static int64_t row_step(const std::vector<int64_t>& strides) { return strides[strides.size() - 2]; }

    AttentionBlock block_of(char* const* operands, int64_t item) const {
        AttentionBlock block{};
        const auto at = [&](size_t number, const std::vector<int64_t>& strides) {
            return reinterpret_cast<float*>(operands[number]) + offset(strides, item);
        };
        block.q = at(0, p.q);
        block.k = at(1, p.k);
        block.v = at(2, p.v);
        block.mask_count = static_cast<int64_t>(p.masks.size());
        for (size_t i = 0; i < p.masks.size(); ++i) {
            const int64_t key = p.keys < 2 ? 0 : p.masks[i].back();
            block.masks[i] = {at(3 + i, p.masks[i]), row_step(p.masks[i]), key};
        }
        block.dst = at(3 + p.masks.size(), p.dst);
        block.q_row = row_step(p.q);
        block.k_key = row_step(p.k);
        block.k_depth = p.k.back();
        block.v_key = row_step(p.v);
        block.dst_row = row_step(p.dst);
        block.keys = p.keys;
        block.depth = p.depth;
        block.width = p.width;
        block.scale = static_cast<float>(p.scale);
        block.zeros = zeros;
        block.packed = p.rows >= kFewRows;
        return block;
    }

    // Returns the rows of a task: fewer than of a block where the last thread ends earlier then.
    int64_t rows_of_task() const {
        const int64_t most = code().rows, threads = threads_for(items * ceil_div(p.rows, kFewRows), bytes);
        int64_t best = most, longest = ceil_div(items * blocks, threads) * most;
        for (int64_t rows = most / 2; threads > 1 && rows >= kFewRows; rows -= kFewRows) {
            const int64_t after = ceil_div(items * ceil_div(p.rows, rows), threads) * rows;
            if (after >= longest) continue;
            best = rows;
            longest = after;
        }
        return best;
    }

    void run(char* const* operands) const override {
        const int64_t each_rows = rows_of_task(), blocks = ceil_div(p.rows, each_rows);
        const int64_t tasks = p.width == 0 ? 0 : items * blocks;
        const int threads = threads_for(tasks, bytes);
        const Scratch scratch(nothing, each, threads);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            float* const memory = work.in(scratch.of(rank));
            for (int64_t task = begin; task < end; ++task) {
                AttentionBlock block = block_of(operands, task / blocks);
                block.scratch = memory;
                if (block.packed && (task == begin || task % blocks == 0)) code().pack(block);
                const int64_t first = task % blocks * each_rows;
                block.rows = std::min(each_rows, p.rows - first);
                block.q += first * block.q_row;
                block.dst += first * block.dst_row;
                for (AttentionMask& mask : block.masks) mask.at += first * mask.row;
                block.seen = p.seen.empty() ? nullptr : p.seen.data() + first;
                code().run(block);
            }
        });
    }
};

}  // namespace

const Declaration kAttention{
    "attention(batch, rows, keys, depth, width, q, k, v, masks, dst, scale=1.0, zeros='none', seen=())",
    kernel_of<Attention, AttentionProblem, Dims, int64_t, int64_t, int64_t, int64_t, Dims, Dims, Dims,
              std::vector<Dims>, Dims, double, std::string, Dims>,
    "q (batch, rows, depth), k (batch, keys, depth), v (batch, keys, width), masks (batch, rows, keys)..., dst (batch, "
    "rows, width)",
    "dst = softmax(scale * q k' + masks) v, in f32. Strides of each operand: the batch's axes, then row and depth of "
    "q, key and depth of k, key and width of v, row and key of a mask, row and width of dst. zeros names the rows of "
    "shares that become zeros: none, nan (rows of NaN) or unseen (rows whose scores are all -Inf). seen[row]: the row "
    "sees this many keys, from the first on; empty: all."};

}  // namespace dgo
