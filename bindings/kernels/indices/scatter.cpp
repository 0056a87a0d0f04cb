#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/parallel.hpp"
#include "kernels/indices/indexed_rows.hpp"
#include "kernels/window/folded.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "scatter";
// The elements of a row that one thread writes for all indices: no two threads combine a place, and the order stays.
constexpr int64_t kColumns = 16;

struct Replace {
    template <class T>
    static T of(T, T update) {
        return update;
    }
};
struct Multiply {
    static float of(float old, float update) { return old * update; }
};
template <Fold kFold>
struct Folded {
    static float of(float old, float update) { return folded<kFold>(old, update); }
};

struct Scatter : Kernel {
    using Part = void (Scatter::*)(char* const*, int64_t, int64_t) const;

    Rows rows;
    int64_t blocks;
    Part part = nullptr;

    Scatter(const IndexProblem& problem, const std::string& how)
        : rows(kName, problem), blocks(ceil_div(problem.row, kColumns)) {
        name = kName;
        arity = 4;
        part = problem.index_item == 8 ? part_of<int64_t>(how) : part_of<int32_t>(how);
    }

    template <class Index>
    Part part_of(const std::string& how) const {
        const int64_t item = rows.problem().item;
        if (how == "none") {
            if (item == 1) return &Scatter::combine<Index, uint8_t, Replace>;
            if (item == 2) return &Scatter::combine<Index, uint16_t, Replace>;
            if (item == 4) return &Scatter::combine<Index, uint32_t, Replace>;
            return &Scatter::combine<Index, uint64_t, Replace>;
        }
        if (item != 4) fail(ErrorKind::invalid_argument, "scatter: only f32 is combined");
        if (how == "add") return &Scatter::combine<Index, float, Folded<Fold::sum>>;
        if (how == "mul") return &Scatter::combine<Index, float, Multiply>;
        if (how == "max") return &Scatter::combine<Index, float, Folded<Fold::max>>;
        if (how == "min") return &Scatter::combine<Index, float, Folded<Fold::min>>;
        fail(ErrorKind::invalid_argument, "scatter: how must be none, add, mul, max or min");
    }

    void run(char* const* operands) const override {
        const IndexProblem& p = rows.problem();
        const int64_t all = p.outer * rows.span();
        std::memcpy(operands[3], operands[0], static_cast<size_t>(all * p.item));
        const int64_t tasks = rows.elements() == 0 ? 0 : p.outer * blocks;
        parallel_for(tasks, 3.0 * static_cast<double>(rows.elements() * p.item),
                     [&](int64_t begin, int64_t end) { (this->*part)(operands, begin, end); });
    }

    template <class Index, class T, class How>
    void combine(char* const* operands, int64_t begin, int64_t end) const {
        const IndexProblem& p = rows.problem();
        const Index* const indices = reinterpret_cast<const Index*>(operands[1]);
        const T* const updates = reinterpret_cast<const T*>(operands[2]);
        T* const dst = reinterpret_cast<T*>(operands[3]);
        while (begin < end) {
            // neighbouring blocks of one outer part at once
            const int64_t outer = begin / blocks, block = begin % blocks, last = std::min(blocks, block + end - begin);
            const int64_t low = block * kColumns, high = std::min(last * kColumns, p.row);
            T* const to = dst + outer * rows.span();
            for (int64_t i = 0; i < p.count; ++i) {
                const int64_t row = (outer * p.count + i) * p.row;
                const T* const from = updates + row;
                if (p.each) {
                    const Index* const at = indices + row;
                    for (int64_t j = low; j < high; ++j) {
                        T& old = to[rows.place(at[j], p.sizes[0]) * p.row + j];
                        old = How::of(old, from[j]);
                    }
                } else {
                    T* const old = to + rows.of(indices, i);
                    for (int64_t j = low; j < high; ++j) old[j] = How::of(old[j], from[j]);
                }
            }
            begin += last - block;
        }
    }
};

}  // namespace

const Declaration kScatter{"scatter(problem, how='none')", kernel_by<Scatter, IndexProblem, std::string>,
                           "data (outer, sizes, row), indices, updates (outer, count, row), dst (outer, sizes, row)",
                           "dst = data, then each row at indices becomes its update (none; any item), or is combined "
                           "with it in order, in f32: add, mul, max or min; the last two give NaN for any NaN."};

}  // namespace dgo
