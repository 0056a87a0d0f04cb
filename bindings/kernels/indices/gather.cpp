// dst[o, r] = src[o, places[o, r]]: rows of a tensor by their places.
#include <algorithm>
#include <cstring>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

// src (outer, sizes..., inner), places (outer or 1, rows, as many as there are sizes), dst (outer, rows, inner), all in a
// row. Elements of src have `item` bytes, places `index` of 4 or 8.
struct GatherProblem {
    int64_t outer;
    Dims sizes;
    int64_t inner, rows, item, index;
    bool batched;  // places for each of outer
};

constexpr const char* kName = "gather";
constexpr int64_t kMostCommon = 1 << 16;
constexpr int64_t kBlock = 256;  // rows that are looked up before they are moved

struct Gather : Kernel {
    GatherProblem p;
    int64_t depth, each, bytes;  // numbers of a place; rows of src for each of outer; bytes of a row

    explicit Gather(const GatherProblem& problem) : p(problem), depth(static_cast<int64_t>(problem.sizes.size())) {
        name = kName;
        arity = 3;
        if (p.index != 4 && p.index != 8) fail(ErrorKind::invalid_argument, "gather: index must be 4 or 8");
        if (p.sizes.empty()) fail(ErrorKind::invalid_argument, "gather: sizes must have an axis");
        check_number(kName, "item", p.item, 1, 8);
        for (const int64_t number : {p.outer, p.inner, p.rows}) check_number(kName, "sizes", number, 0, kMostElements);
        each = 1;
        for (const int64_t size : p.sizes) {
            check_number(kName, "sizes", size, 0, kMostElements);
            each = checked_product(kName, {each, size});
        }
        checked_product(kName, {p.outer, each, p.inner});
        checked_product(kName, {p.outer, p.rows, p.inner});
        checked_product(kName, {p.outer, p.rows, depth});
        bytes = p.inner * p.item;
        if (p.outer * p.rows * p.inner > 0 && each == 0) {
            fail(ErrorKind::shape, "gather: nothing can be taken of an axis without elements");
        }
    }

    void run(char* const* operands) const override {
        if (p.index == 4) return run_with<int32_t>(operands);
        run_with<int64_t>(operands);
    }

    template <class Index>
    void run_with(char* const* operands) const {
        const auto* const places = reinterpret_cast<const Index*>(operands[1]);
        // places that all of outer share are looked up once, unless they are so many that one thread would take long
        std::vector<int64_t> common;
        if (!p.batched && p.outer > 1 && bytes > 0 && p.rows <= kMostCommon) {
            common.reserve(static_cast<size_t>(p.rows));
            for (int64_t i = 0; i < p.rows; ++i) common.push_back(row_of(places + i * depth));
        }
        const int64_t tasks = bytes == 0 ? 0 : p.outer * p.rows;
        parallel_for(tasks, 2.0 * static_cast<double>(tasks) * static_cast<double>(bytes),
                     [&](int64_t begin, int64_t end) {
                         int64_t found[kBlock];
                         for (int64_t task = begin; task < end;) {
                             const int64_t outer = task / p.rows, first = task - outer * p.rows;
                             const int64_t count = std::min({end - task, p.rows - first, kBlock});
                             const int64_t* rows = common.empty() ? found : common.data() + first;
                             for (int64_t i = 0; i < count && common.empty(); ++i)
                                 found[i] = row_of(places + (task + i) * depth);
                             move(operands[0] + outer * each * bytes, rows, operands[2] + task * bytes, count);
                             task += count;
                         }
                     });
    }

    void move(const char* from, const int64_t* found, char* to, int64_t count) const {
        // rows of a size that the compiler knows are moved at once
        if (bytes == 1) return move_of(1, from, found, to, count);
        if (bytes == 2) return move_of(2, from, found, to, count);
        if (bytes == 4) return move_of(4, from, found, to, count);
        if (bytes == 8) return move_of(8, from, found, to, count);
        move_of(static_cast<size_t>(bytes), from, found, to, count);
    }

    static inline __attribute__((always_inline)) void move_of(size_t size, const char* from, const int64_t* found,
                                                              char* to, int64_t count) {
        for (int64_t i = 0; i < count; ++i, to += size)
            std::memcpy(to, from + static_cast<size_t>(found[i]) * size, size);
    }

    template <class Index>
    int64_t row_of(const Index* place) const {
        int64_t row = 0;
        for (int64_t i = 0; i < depth; ++i) {
            const int64_t size = p.sizes[static_cast<size_t>(i)];
            int64_t at = place[i];
            if (at < 0) at = at < -size ? -1 : at + size;
            if (at < 0 || at >= size) {
                fail(ErrorKind::shape, "Gather: index " + std::to_string(int64_t{place[i]}) +
                                           " is outside of an axis of " + std::to_string(size) + " elements");
            }
            row = row * size + at;
        }
        return row;
    }
};

}  // namespace

const Declaration kGather{
    "gather(outer, sizes, inner, rows, item, index, batched=False)",
    kernel_of<Gather, GatherProblem, int64_t, Dims, int64_t, int64_t, int64_t, int64_t, bool>,
    "src (outer, sizes, inner), places (outer if batched, rows, len(sizes)), dst (outer, rows, inner)",
    "dst[o, r] = src[o, places[o, r]], all dense. Elements of src have `item` bytes, those of places `index` bytes. "
    "Places below 0 count from the end; a place outside is an error."};

}  // namespace dgo
