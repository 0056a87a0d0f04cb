// dst[o, r] = src[o, indices[o, r]]: rows of a tensor by their indices.
#include <algorithm>

#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"
#include "kernels/indices/indexed_rows.hpp"

namespace dgo {
namespace {

// src (outer, sizes..., inner), indices (outer or 1, rows, an index for each of sizes), dst (outer, rows, inner), all
// dense.
struct GatherProblem {
    int64_t outer;
    Dims sizes;
    int64_t inner, rows, item, index_item;  // bytes of an element and of an index
    bool batched;  // each of outer has indices
};

constexpr int64_t kMostCommon = 1 << 16;
constexpr int64_t kBlock = 256;  // rows that are looked up before they are moved

struct Gather : Kernel {
    Rows rows;
    bool batched;
    int64_t depth, bytes;  // indices of a row; bytes of a row

    explicit Gather(const GatherProblem& p)
        : rows("Gather", {p.outer, p.sizes, p.inner, p.item, p.rows, p.index_item, false}), batched(p.batched),
          depth(static_cast<int64_t>(p.sizes.size())), bytes(p.inner * p.item) {
        name = "gather";
        arity = 3;
        checked_product(name, {p.outer, p.rows, depth});
    }

    void run(char* const* operands) const override {
        if (rows.problem().index_item == 4) return run_with<int32_t>(operands);
        run_with<int64_t>(operands);
    }

    template <class Index>
    void run_with(char* const* operands) const {
        const auto* const indices = reinterpret_cast<const Index*>(operands[1]);
        const IndexProblem& p = rows.problem();
        const auto offset = [&](int64_t i) { return rows.of(indices, i) * p.item; };
        // rows that all of outer share are looked up once, unless they are so many that one thread would take long
        std::vector<int64_t> common;
        if (!batched && p.outer > 1 && bytes > 0 && p.count <= kMostCommon) {
            for (int64_t i = 0; i < p.count; ++i) common.push_back(offset(i));
        }
        const int64_t tasks = bytes == 0 ? 0 : p.outer * p.count;
        parallel_for(
            tasks, 2.0 * static_cast<double>(tasks) * static_cast<double>(bytes), [&](int64_t begin, int64_t end) {
                int64_t found[kBlock];
                for (int64_t task = begin, count; task < end; task += count) {
                    const int64_t outer = task / p.count, first = task - outer * p.count;
                    count = std::min({end - task, p.count - first, kBlock});
                    const int64_t* offsets = common.empty() ? found : common.data() + first;
                    for (int64_t i = 0; i < count && common.empty(); ++i) {
                        found[i] = offset(batched ? task + i : first + i);
                    }
                    move(operands[0] + outer * rows.span() * p.item, offsets, operands[2] + task * bytes, count);
                }
            });
    }

    void move(const char* from, const int64_t* offsets, char* to, int64_t count) const {
        // rows of a size that the compiler knows are moved at once
        if (bytes == 1) return move_of(1, from, offsets, to, count);
        if (bytes == 2) return move_of(2, from, offsets, to, count);
        if (bytes == 4) return move_of(4, from, offsets, to, count);
        if (bytes == 8) return move_of(8, from, offsets, to, count);
        move_of(static_cast<size_t>(bytes), from, offsets, to, count);
    }

    static inline __attribute__((always_inline)) void move_of(size_t size, const char* from, const int64_t* offsets,
                                                              char* to, int64_t count) {
        for (int64_t i = 0; i < count; ++i, to += size) std::memcpy(to, from + offsets[i], size);
    }
};

}  // namespace

const Declaration kGather{
    "gather(outer, sizes, inner, rows, item, index_item, batched=False)",
    kernel_of<Gather, GatherProblem, int64_t, Dims, int64_t, int64_t, int64_t, int64_t, bool>,
    "src (outer, sizes, inner), indices (outer if batched, rows, len(sizes)), dst (outer, rows, inner)",
    "dst[o, r] = src[o, indices[o, r]], all dense. Elements of src have `item` bytes, indices `index_item` bytes. "
    "Negative indices count from the end; an index outside of its axis is an error."};

}  // namespace dgo
