// Computes where indices point in data, for gather, gather_elements and scatter.
#pragma once

#include <cstring>
#include <string>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/kernel.hpp"

namespace dgo {

// data (outer, *sizes, row) is dense and has elements of `item` bytes. A negative index counts from the end of its axis; an
// index outside of its axis is an error.
struct IndexProblem {
    static constexpr const char* kClass = "IndexProblem";
    int64_t outer;
    Dims sizes;
    int64_t row, item, count;
    int64_t index_item;  // bytes of an index, 4 or 8
    // indices (outer, count, row) name an element of the only axis each; else indices (count, axes) name rows
    bool each;
};

// Makes indices offsets: elements from the first one of an outer part of data.
class Rows {
public:
    Rows(const char* kernel, const IndexProblem& p) : kernel_(kernel), p_(p) {
        for (const int64_t size : {p.outer, p.row, p.count}) check_number(kernel, "sizes", size, 0, kMostElements);
        if (p.item != 1 && p.item != 2 && p.item != 4 && p.item != 8) refuse("item must be 1, 2, 4 or 8");
        if (p.index_item != 4 && p.index_item != 8) refuse("index_item must be 4 or 8");
        if (p.sizes.empty() || (p.each && p.sizes.size() != 1)) refuse("sizes must name the axes that are indexed");
        steps_.resize(p.sizes.size());
        span_ = p.row;
        for (size_t axis = p.sizes.size(); axis-- > 0;) {
            check_number(kernel, "sizes", p.sizes[axis], 0, kMostElements);
            steps_[axis] = span_;
            span_ = checked_product(kernel, {span_, p.sizes[axis]});
        }
        checked_product(kernel, {p.outer, span_});
        elements_ = checked_product(kernel, {p.outer, p.count, p.row});
        if (elements_ > 0 && span_ == 0) fail(ErrorKind::shape, std::string(kernel) + ": an axis without elements");
    }

    const IndexProblem& problem() const { return p_; }
    int64_t span() const { return span_; }
    int64_t elements() const { return elements_; }

    // Returns the offset of row i.
    template <class Index>
    int64_t of(const Index* indices, int64_t i) const {
        const size_t axes = p_.sizes.size();
        const Index* const at = indices + i * static_cast<int64_t>(axes);
        int64_t offset = 0;
        for (size_t axis = 0; axis < axes; ++axis) offset += place(at[axis], p_.sizes[axis]) * steps_[axis];
        return offset;
    }

    // Returns an index of an axis of `size` elements, counted from its begin; throws for an index outside of the axis.
    int64_t place(int64_t index, int64_t size) const {
        if (index < 0) index += size;
        if (static_cast<uint64_t>(index) < static_cast<uint64_t>(size)) return index;
        outside(index, size);
    }

private:
    [[noreturn]] void refuse(const char* what) const {
        fail(ErrorKind::invalid_argument, std::string(kernel_) + ": " + what);
    }
    [[noreturn]] void outside(int64_t index, int64_t size) const {
        if (index < 0) index -= size;
        fail(ErrorKind::shape, std::string(kernel_) + ": index " + std::to_string(index) +
                                   " is outside of an axis of " + std::to_string(size) + " elements");
    }

    const char* kernel_;
    IndexProblem p_;
    std::vector<int64_t> steps_;
    int64_t span_ = 0, elements_ = 0;
};

}  // namespace dgo
