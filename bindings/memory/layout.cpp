#include "memory/layout.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/error.hpp"
#include "graph/logical_tensor.hpp"

namespace dgo {

int array_itemsize(int dtype) { return (data_type_bits(dtype) + 7) / 8; }

Layout::Layout(int dtype, const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& element_strides)
    : dtype(dtype), rank(static_cast<int>(shape.size())), itemsize(array_itemsize(dtype)) {
    if (itemsize == 0) fail(ErrorKind::invalid_argument, "no data type has the code " + std::to_string(dtype));
    if (shape.size() > kMaxRank)
        fail(ErrorKind::shape, "an array has at most 12 dims, got " + std::to_string(shape.size()));
    if (shape.size() != element_strides.size())
        fail(ErrorKind::shape, "one stride per dim: shape has " + std::to_string(shape.size()) + ", strides has " +
                                   std::to_string(element_strides.size()));
    bool empty = false;
    __int128 last = 0;
    for (int i = 0; i < rank; ++i) {
        if (shape[i] < 0 || element_strides[i] < 0)
            fail(ErrorKind::shape, "dims and strides are never negative: shape " + tuple_text(shape.data(), rank) +
                                       ", strides " + tuple_text(element_strides.data(), rank));
        empty |= shape[i] == 0;
        // at most 12 terms below 2^126 do not overflow
        if (shape[i] > 1) last += static_cast<__int128>(shape[i] - 1) * element_strides[i];
        if (last > std::numeric_limits<std::int64_t>::max())
            fail(ErrorKind::shape, "shape " + tuple_text(shape.data(), rank) + " with strides " +
                                       tuple_text(element_strides.data(), rank) +
                                       " spans more than 64 bits can address");
    }
    const __int128 bytes = empty ? 0 : (last + 1) * itemsize;
    if (bytes > std::numeric_limits<std::int64_t>::max())
        fail(ErrorKind::shape, "shape " + tuple_text(shape.data(), rank) + " spans more than 64 bits can address");
    extent = static_cast<std::size_t>(bytes);
    for (int i = 0; i < rank; ++i) {
        dims[i] = shape[i];
        // strides of an axis of size 1, and of an empty array, do not matter
        strides[i] = empty || shape[i] < 2 ? 0 : element_strides[i] * itemsize;
    }
}

bool Layout::row_major() const {
    std::int64_t step = itemsize;
    for (int i = rank - 1; i >= 0 && extent; --i) {
        if (dims[i] > 1 && strides[i] != step) return false;
        step *= dims[i];
    }
    return true;
}

bool Layout::overlaps_itself() const {
    if (extent == 0) return false;
    std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, dim
    for (int i = 0; i < rank; ++i)
        if (dims[i] > 1) axes.emplace_back(strides[i], dims[i]);
    std::sort(axes.begin(), axes.end());
    std::int64_t reach = itemsize;  // bytes that the axes so far cover
    for (const auto& [stride, dim] : axes) {
        if (stride < reach) return true;
        reach += (dim - 1) * stride;
    }
    return false;
}

std::string Layout::str() const {
    return std::string(data_type_name(dtype)) + tuple_text(dims.data(), rank) + " with strides " +
           tuple_text(strides.data(), rank, itemsize);
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;)
        // the check of sizes refuses an overflow
        strides[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[i]) *
                                                   static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1)));
    return strides;
}

std::string tuple_text(const std::int64_t* values, int rank, std::int64_t unit) {
    std::string text = "(";
    for (int i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(values[i] / unit);
    return text + (rank == 1 ? ",)" : ")");
}

}  // namespace dgo
