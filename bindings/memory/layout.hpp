// Data type, shape and strides of an array as a plan declares it. Knows nothing of Python.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dgo {

inline constexpr int kMaxRank = 12;

// Bytes of one element of an array; the 4-bit integers take a byte each there. 0 for an unknown type.
int array_itemsize(int dtype);

struct Layout {
    // Strides count elements. Throws unless rank, sizes, strides and the extent they span are usable.
    Layout(int dtype, const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides);

    bool row_major() const;
    // Whether two index tuples may have the same address; errs towards true.
    bool overlaps_itself() const;
    std::string str() const;

    int dtype = 0;
    int rank = 0;
    int itemsize = 0;
    std::array<std::int64_t, kMaxRank> dims{};
    std::array<std::int64_t, kMaxRank> strides{};  // bytes
    std::size_t extent = 0;  // bytes from the first element to after the last one; 0 when there are none
};

// Row-major strides in elements.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape);

// "(2, 3)" of the first `rank` values, each divided by `unit`.
std::string tuple_text(const std::int64_t* values, int rank, std::int64_t unit = 1);

}  // namespace dgo
