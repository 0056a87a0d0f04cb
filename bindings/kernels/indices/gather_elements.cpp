#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"
#include "kernels/indices/indexed_rows.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "gather_elements";

struct GatherElements : Kernel {
    Rows rows;

    explicit GatherElements(const IndexProblem& problem) : rows(kName, problem) {
        name = kName;
        arity = 3;
        if (!problem.each) fail(ErrorKind::invalid_argument, "gather_elements: an index for each element is needed");
    }

    void run(char* const* operands) const override {
        const IndexProblem& p = rows.problem();
        const int64_t tasks = rows.elements() == 0 ? 0 : p.outer * p.count;
        parallel_for(tasks, 2.0 * static_cast<double>(rows.elements() * p.item), [&](int64_t begin, int64_t end) {
            p.index_item == 8 ? by_item<int64_t>(operands, begin, end) : by_item<int32_t>(operands, begin, end);
        });
    }

    template <class Index>
    void by_item(char* const* operands, int64_t begin, int64_t end) const {
        switch (rows.problem().item) {
            case 1: return part<Index, uint8_t>(operands, begin, end);
            case 2: return part<Index, uint16_t>(operands, begin, end);
            case 4: return part<Index, uint32_t>(operands, begin, end);
            default: return part<Index, uint64_t>(operands, begin, end);
        }
    }

    template <class Index, class T>
    void part(char* const* operands, int64_t begin, int64_t end) const {
        const IndexProblem& p = rows.problem();
        const T* const data = reinterpret_cast<const T*>(operands[0]);
        const Index* const indices = reinterpret_cast<const Index*>(operands[1]);
        T* const dst = reinterpret_cast<T*>(operands[2]);
        for (int64_t task = begin; task < end; ++task) {
            const T* const from = data + task / p.count * rows.span();
            for (int64_t j = 0, at = task * p.row; j < p.row; ++j, ++at)
                dst[at] = from[rows.place(indices[at], p.sizes[0]) * p.row + j];
        }
    }
};

}  // namespace

const Declaration kGatherElements[] = {
    {"IndexProblem(outer, sizes, row, item, count, index_item=8, each=False)",
     object_of<IndexProblem, int64_t, Dims, int64_t, int64_t, int64_t, int64_t, bool>,
     "Rows of data (outer, *sizes, row), elements of `item` bytes, and indices (count, axes), or with `each` (outer, "
     "count, row) on one axis. Negative indices count from the end."},
    {"gather_elements(problem)", kernel_by<GatherElements, IndexProblem>,
     "data (outer, sizes, row), indices, dst (outer, count, row)",
     "dst[o, i, j] = data[o, indices[o, i, j], j], or the row data[o, *indices[i]]."},
};

}  // namespace dgo
