// Sizes by checked arithmetic. What a kernel is asked for may come from a file: no product of its numbers is trusted.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace dgo {

// The library's kernels keep sizes and attributes of convolutions in 32 bits; ours take no more.
constexpr int64_t kMostSize = INT32_MAX;
// Elements of one tensor: more than memory holds, few enough that a few of them multiply without overflow.
constexpr int64_t kMostElements = int64_t{1} << 40;

[[noreturn]] inline void refuse_size(const std::string& what) {
    fail(ErrorKind::shape, what + ": the sizes multiply to more than " + std::to_string(kMostElements) + " elements");
}

// The product of sizes that are not negative; throws beyond kMostElements.
inline int64_t checked_product(const std::string& what, std::initializer_list<int64_t> sizes) {
    int64_t all = 1;
    for (const int64_t size : sizes) {
        if (size == 0) return 0;
        if (__builtin_mul_overflow(all, size, &all) || all > kMostElements) refuse_size(what);
    }
    return all;
}

// count steps of `size` bytes, either way; throws beyond kMostElements.
inline int64_t checked_distance(const std::string& what, int64_t count, int64_t size) {
    int64_t distance = 0;
    if (__builtin_mul_overflow(count, size, &distance) || distance < -kMostElements || distance > kMostElements) {
        refuse_size(what);
    }
    return distance;
}

// Throws unless every element of a tensor lies within kMostElements of its first one. Strides count elements; that of an
// axis without steps may be any number.
inline void check_extent(const std::string& what, const char* name, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& strides) {
    int64_t last = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        int64_t reach = 0;
        if (sizes[axis] < 2) continue;
        if (__builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach) || reach < 0 || reach > kMostElements ||
            (last += reach) > kMostElements) {
            fail(ErrorKind::shape, what + ": " + name + " has the stride " + std::to_string(strides[axis]) +
                                       " on an axis of " + std::to_string(sizes[axis]) +
                                       " elements, which reaches beyond any array");
        }
    }
}

// Throws unless a number lies from `least` to `most`.
inline void check_number(const std::string& what, const char* name, int64_t number, int64_t least, int64_t most) {
    if (number >= least && number <= most) return;
    const std::string bound = number < least ? "at least " + std::to_string(least) + " is needed"
                                             : "at most " + std::to_string(most) + " is possible";
    fail(ErrorKind::invalid_argument, what + ": " + name + " contains " + std::to_string(number) + ", " + bound);
}

// Throws unless `list` has `length` numbers from `least` to `most`.
inline void check_list(const std::string& what, const char* name, const std::vector<int64_t>& list, size_t length,
                       int64_t least, int64_t most) {
    if (list.size() != length) {
        fail(ErrorKind::invalid_argument, what + ": " + name + " has " + std::to_string(list.size()) + " entries, " +
                                              std::to_string(length) + " are needed");
    }
    for (const int64_t entry : list) check_number(what, name, entry, least, most);
}

// Throws unless a tensor has a stride from `least` on for each axis, and its elements lie within kMostElements.
inline void check_tensor(const std::string& what, const char* name, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& strides, int64_t least = 0) {
    check_list(what, name, strides, sizes.size(), least, INT64_MAX);
    check_extent(what, name, sizes, strides);
}

}  // namespace dgo
