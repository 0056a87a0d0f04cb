// The largest or smallest elements along an axis, in their order.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "topk";
constexpr int64_t kColumns = 64;  // columns that are searched side by side
constexpr int64_t kInserted = 32;  // up to this count values are inserted in order, more are sorted
constexpr int64_t kSkipped = 16;  // neighbours that are compared with the last value of the list at once
constexpr int64_t kFirst = 32;  // elements for each of the list that are compared one by one

struct TopK : Kernel {
    int64_t length, inner, count, blocks, tasks;
    bool largest, has_values;
    double bytes;

    TopK(int64_t outer, int64_t length, int64_t inner, int64_t count, bool largest, bool has_values)
        : length(length), inner(inner), count(count), largest(largest), has_values(has_values) {
        name = kName;
        arity = has_values ? 3 : 2;
        for (const int64_t number : {outer, length, inner}) check_number(kName, "sizes", number, 0, kMostElements);
        check_number(kName, "count", count, 0, length);
        const int64_t elements = checked_product(kName, {outer, length, inner});
        blocks = ceil_div(inner, kColumns);
        tasks = elements == 0 || count == 0 ? 0 : outer * blocks;
        bytes = 8.0 * static_cast<double>(elements);
    }

    bool before(float a, float b) const { return largest ? a > b || (a != a && b == b) : a < b || (b != b && a == a); }

    // Whether none of kSkipped neighbours comes before `last`, or is NaN; without branches, so that it becomes vectors.
    bool none_before(const float* from, float last) const {
        int behind = 0;
        if (largest) {
            for (int64_t j = 0; j < kSkipped; ++j) behind += from[j] <= last ? 1 : 0;
        } else {
            for (int64_t j = 0; j < kSkipped; ++j) behind += from[j] >= last ? 1 : 0;
        }
        return behind == kSkipped;
    }

    void run(char* const* operands) const override {
        const float* const src = reinterpret_cast<const float*>(operands[0]);
        float* const values = has_values ? reinterpret_cast<float*>(operands[1]) : nullptr;
        int64_t* const indices = reinterpret_cast<int64_t*>(operands[has_values ? 2 : 1]);
        const bool sorts = count > kInserted;
        const int threads = threads_for(tasks, bytes);
        // made before any thread starts
        std::vector<int64_t> orders(sorts ? static_cast<size_t>(threads * length) : 0);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            for (int64_t task = begin; task < end; ++task) {
                const int64_t first = task % blocks * kColumns, columns = std::min(kColumns, inner - first);
                const float* const from = src + task / blocks * length * inner + first;
                const int64_t to = task / blocks * count * inner + first;
                float* const best = values ? values + to : nullptr;
                if (count == 1) {
                    one(from, columns, best, indices + to);
                    continue;
                }
                for (int64_t column = 0; column < columns; ++column) {
                    float* const at = best ? best + column : nullptr;
                    if (sorts) {
                        sorted(from + column, orders.data() + rank * length, at, indices + to + column);
                    } else {
                        inserted(from + column, at, indices + to + column);
                    }
                }
            }
        });
    }

    void one(const float* from, int64_t columns, float* values, int64_t* indices) const {
        float best[kColumns];
        int64_t found[kColumns] = {};
        std::copy(from, from + columns, best);
        for (int64_t i = 1; i < length; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
                const float x = from[i * inner + j];
                const bool better = before(x, best[j]);
                best[j] = better ? x : best[j];
                found[j] = better ? i : found[j];
            }
        }
        if (values) std::copy(best, best + columns, values);
        std::copy(found, found + columns, indices);
    }

    void inserted(const float* from, float* values, int64_t* indices) const {
        float best[kInserted];
        int64_t found[kInserted], filled = 0;
        const auto insert = [&](int64_t i, int64_t end) {
            for (; i < end; ++i) {
                const float x = from[i * inner];
                if (filled == count && !before(x, best[count - 1])) continue;
                int64_t at = filled < count ? filled++ : count - 1;
                for (; at > 0 && before(x, best[at - 1]); --at) {
                    best[at] = best[at - 1];
                    found[at] = found[at - 1];
                }
                best[at] = x;
                found[at] = i;
            }
        };
        // after the first elements most neighbours change nothing
        int64_t i = inner == 1 ? std::min(kFirst * count, length) : length;
        insert(0, i);
        for (; i + kSkipped <= length; i += kSkipped) {
            if (!none_before(from + i, best[count - 1])) insert(i, i + kSkipped);
        }
        insert(i, length);
        for (int64_t i = 0; i < count; ++i) {
            if (values) values[i * inner] = best[i];
            indices[i * inner] = found[i];
        }
    }

    void sorted(const float* from, int64_t* order, float* values, int64_t* indices) const {
        std::iota(order, order + length, int64_t{0});
        std::partial_sort(order, order + count, order + length, [&](int64_t a, int64_t b) {
            const float x = from[a * inner], y = from[b * inner];
            return before(x, y) || (a < b && !before(y, x));
        });
        for (int64_t i = 0; i < count; ++i) {
            if (values) values[i * inner] = from[order[i] * inner];
            indices[i * inner] = order[i];
        }
    }
};

}  // namespace

const Declaration kTopK{"topk(outer, length, inner, count, largest=True, has_values=True)",
                        kernel_by<TopK, int64_t, int64_t, int64_t, int64_t, bool, bool>,
                        "src (outer, length, inner), [values (outer, count, inner)], indices (outer, count, inner)",
                        "values, indices = the `count` largest (or smallest) f32 along the length, in order, and their "
                        "indices in s64; all dense. Of equal values the first comes first; NaN counts as the largest."};

}  // namespace dgo
